"""How an unknown text is written: its encoding, what separates its fields, and what stands before decimals."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable
from dataclasses import dataclass, field

from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import THOUSANDS, judge
from levyscreen.records.mapped.header import BYTE_ORDER_MARK
from levyscreen.records.mapped.tables import DELIMITERS, TableFile, beginning
from levyscreen.records.mapped.text import Form

MOST_BYTES = 128 << 20  # looked through for what is no UTF-8
SAMPLE_BYTES = 1 << 20
SAMPLE_ROWS = 1000
OF_ONE_WIDTH = 0.8  # of the rows, at least, where a delimiter is the right one
COMMENT = "#"
MOST_ABOVE = 30  # lines above a header that does not begin with it
FEWEST_ROWS, FEWEST_COLUMNS, SURELY = 5, 3, 0.95  # of a table below others
CANDIDATES = (";", "\t", "|", ",")


@dataclass(frozen=True)
class Sniffed:
    """A guess at how a text is written, and what about it is weak."""

    form: Form = field(default_factory=Form)
    decimal: str = "."
    doubts: tuple[str, ...] = ()  # keys of the mapping


def sniff(file: TableFile) -> Sniffed:
    """By the beginning of a file. Raises CohortError where it cannot be read."""
    if file.ending not in DELIMITERS:
        return Sniffed()
    data = beginning(file, MOST_BYTES)
    encoding = _encoding(data)
    sample = data[:SAMPLE_BYTES].decode(encoding, "replace").removeprefix(BYTE_ORDER_MARK)
    lines = sample.splitlines()[: None if len(data) <= SAMPLE_BYTES else -1]
    skip = _above(lines, DELIMITERS[file.ending])
    marked = all(line.startswith(COMMENT) for line in lines[:skip])
    lines = lines[skip:]
    delimiter, share = _delimiter(lines, DELIMITERS[file.ending])
    decimal, sure = _decimal(_rows(lines, delimiter)[1:])
    weak = {"encoding": encoding != "utf-8", "delimiter": share < 1, "decimal": not sure, "skip_lines": not marked}
    usual = delimiter == DELIMITERS[file.ending]
    form = Form(None, None if usual else delimiter, None, encoding, skip)
    return Sniffed(form, decimal, tuple(key for key, doubt in weak.items() if doubt))


def _above(lines: list[str], usual: str) -> int:
    """How many lines stand above the table: those that begin with #, or else a few of far fewer fields than others."""
    marked = next((i for i, line in enumerate(lines) if not line.startswith(COMMENT)), 0)
    if marked:
        return marked - 1 if _is_header(lines[marked - 1], lines[marked:], usual) else marked
    if _delimiter(lines, usual)[1] >= OF_ONE_WIDTH and _fit(lines, _delimiter(lines, usual)[0])[0] > 1:
        return 0
    for skip in range(1, min(MOST_ABOVE, len(lines) - FEWEST_ROWS)):
        delimiter, share = _delimiter(lines[skip:], usual)
        width = _fit(lines[skip:], delimiter)[0]
        above = max((len(row) for row in _rows(lines[:skip], delimiter)), default=0)
        if share >= SURELY and width >= FEWEST_COLUMNS and 2 * above < width and lines[skip].strip():
            return skip
    return 0


def _is_header(line: str, table: list[str], usual: str) -> bool:
    """Whether a line that begins with # names the columns of the table below it: #id,time,value above numbers."""
    delimiter, _ = _delimiter(table, usual)
    names, *rest = _rows([line, *table[:1]], delimiter)
    first = rest[0] if rest else []
    return len(names) == len(first) > 1 and any(judge(cell.strip(), ".")[1] == FINE for cell in first)


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(data)  # its end may be within a letter
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"  # in which every byte is a letter


def _rows(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row, _ in zip(csv.reader(lines, delimiter=delimiter), range(SAMPLE_ROWS), strict=False) if row]
    except csv.Error:  # a quote that is not closed
        return [line.split(delimiter) for line in lines[:SAMPLE_ROWS] if line]


def _delimiter(lines: list[str], usual: str) -> tuple[str, float]:
    """The usual one where it makes rows of one width, else the one that makes the widest; and how many are so wide."""
    found = {usual: _fit(lines, usual)} | {each: _fit(lines, each) for each in CANDIDATES}
    fitting = [each for each, (width, share) in found.items() if width > 1 and share >= OF_ONE_WIDTH]
    if not fitting:
        return usual, found[usual][1]
    best = usual if usual in fitting else max(fitting, key=lambda each: found[each][0])
    return best, found[best][1]


def _fit(lines: list[str], delimiter: str) -> tuple[int, float]:
    """Fields of the first row, and the share of rows that have as many."""
    widths = [len(row) for row in _rows(lines, delimiter)]
    return (widths[0], widths.count(widths[0]) / len(widths)) if widths else (0, 0.0)


def _decimal(rows: Iterable[list[str]]) -> tuple[str, bool]:
    """The sign before decimals in most numbers that have them, and whether in all."""
    commas = points = 0
    for row in rows:
        for cell in row:
            text = cell.strip()
            if not THOUSANDS.fullmatch(text):
                commas += "," in text and judge(text, ",")[1] == FINE
                points += "." in text and judge(text, ".")[1] == FINE
    return (",", points == 0) if commas > points else (".", commas == 0)
