"""Rows of texts that are no rows of the table: counted, the first few kept as examples, and told of in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from levyscreen.records.mapped.tables import TableReader
from levyscreen.records.physionet2012 import EXAMPLES
from levyscreen.schema import REJECTS
from levyscreen.types import LineClass


class Unread:
    """Rows of texts that could not be told apart into fields, and so are of no record."""

    def __init__(self) -> None:
        self.count = 0
        self._count: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._examples: list[tuple[str, int]] = []

    def see(self, reader: TableReader) -> None:
        """What a reader that is done did not read."""
        name = reader.file.name
        for kind, rows in (("malformed", reader.malformed), ("doubtful", reader.doubtful)):
            self._add(kind, len(rows), f"{name}, row {rows[0]}" if rows else "")
        self._add("swallowed", reader.swallowed, name)
        self._add("within", reader.within_fields, f"{name}, row {reader.first_within}")
        unread = sorted([*reader.malformed, *reader.doubtful])
        self.count += len(unread)
        self._examples += [(name, row) for row in unread[:EXAMPLES]]

    def _add(self, kind: str, count: int, first: str) -> None:
        if count:
            self._count[kind] += count
            self._first.setdefault(kind, first)

    def examples(self) -> pa.Table:
        """Of REJECTS: the first few of each file."""
        names, rows = zip(*self._examples, strict=True) if self._examples else ((), ())
        return pa.table([names, rows, [LineClass.MALFORMED.name.lower()] * len(rows)], schema=REJECTS)

    def notes(self) -> Iterator[str]:
        """How many, which is the first, and what to do."""
        said = {
            "malformed": "row{} with another number of fields than the header, not read; the first: {}",
            "doubtful": (
                "row{} with a quoted field that may hold rows of its own, not read; the first: {}; set quote = true "
                "where fields do hold such lines"
            ),
            "swallowed": (
                "line{} within quoted fields of rows that were not read, the first in {}: set quote = false where a "
                "quote is a character like any other"
            ),
            "within": "line{} within quoted fields of rows that were read; the first: {}",
        }
        for kind, text in said.items():
            if self._count[kind]:
                yield f"{self._count[kind]:,} " + text.format("" if self._count[kind] == 1 else "s", self._first[kind])
