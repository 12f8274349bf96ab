"""The first row of a text, of which no more than a few megabytes are looked at however long its lines are."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from typing import IO, BinaryIO, Literal

from levyscreen.records.mapped.text import MOST_BYTES, Form
from levyscreen.records.quoting import Bounded

BYTE_ORDER_MARK = "\ufeff"


def first_row(stream: BinaryIO, form: Form, delimiter: str) -> tuple[list[str], int]:
    """Fields of the first row that has any, below the lines to skip; and how many lines it ends after.

    There are none in an empty text.

    Raises Bounded where it does not end within MOST_BYTES, csv.Error or UnicodeError where it cannot be read.
    """
    quoting: Literal[0, 3] = csv.QUOTE_NONE if form.quote is False else csv.QUOTE_MINIMAL
    with io.TextIOWrapper(stream, form.encoding, newline="") as text:
        lines = _lines(text)
        above = sum(1 for _ in itertools.islice(lines, form.skip))
        rows = csv.reader(lines, delimiter=delimiter, quoting=quoting)
        first = next((row for row in rows if row), [])
        return first, above + rows.line_num


def _lines(text: IO[str]) -> Iterator[str]:
    """Lines up to MOST_BYTES characters in all. The mark goes first: before it a quote would open no field."""
    left = MOST_BYTES
    while line := text.readline(left):
        left -= len(line)
        if not left:
            raise Bounded(f"its first row does not end within {MOST_BYTES >> 20} MB")
        yield line.removeprefix(BYTE_ORDER_MARK) if left + len(line) == MOST_BYTES else line
