"""The sheets of Excel's workbooks (.xlsx) in blocks of rows, by openpyxl (the extra `excel`), as other tables are.

A cell is what the workbook stores: a formula counts by the value that was computed last. Numbers of 16 digits or more
come as texts in exponents: a spreadsheet keeps 15 digits, so that such ids may be those of several.
"""

from __future__ import annotations

import datetime
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from levyscreen.errors import CohortError
from levyscreen.records.archives import FREE_BYTES, MAX_ARCHIVE_BYTES, MAX_RATIO
from levyscreen.records.mapped.stored import BLOCK_CELLS, BLOCK_ROWS
from levyscreen.records.quoting import Bounded

EXCEL = ".xlsx"
DIGITS = 15  # that a spreadsheet keeps
MOST_TEXTS = 256 << 20  # bytes of the texts of a workbook, which are all in memory
_TEXTS = "xl/sharedStrings.xml"
# What openpyxl raises where a workbook's files make no sense; its XML parser's errors are of syntax.
DAMAGE = (zipfile.BadZipFile, LookupError, TypeError, AttributeError, SyntaxError, NotImplementedError, RuntimeError)


class Sheet:
    """One sheet: the first row with something in it, below what is skipped, names its columns."""

    def __init__(self, path: Path, name: str | None, skip: int) -> None:
        """The first sheet where `name` is None. Raises CohortError where openpyxl, or the sheet, is not there."""
        self.path, self.name, self.skip = path, name, skip
        self.others = 0  # further sheets with something in them
        self.malformed: list[int] = []  # numbers of rows with more cells than the header
        self._head = 0  # row of the header

    def header(self) -> list[str]:
        """Names of the columns, blanks around them cut off; none in an empty sheet."""
        with self._rows() as rows:
            for number, row in enumerate(rows, 1):
                if number > self.skip and any(cell is not None for cell in row):
                    self._head = number
                    return ["" if cell is None else _text(cell).strip() for cell in _cut(row)]
        return []

    def blocks(self, width: int, places: Sequence[int]) -> Iterator[tuple[list[int], list[pa.Array]]]:
        """Rows of something, below a header of that width, by their numbers, and the columns at some places."""
        most = max(1, min(BLOCK_ROWS, BLOCK_CELLS // 16 // max(1, width)))  # cells here are objects of Python
        with self._rows() as rows:
            numbers: list[int] = []
            cells: list[Sequence[Any]] = []
            for number, row in enumerate(rows, 1):
                if number <= self._head or all(cell is None for cell in row):
                    continue
                if len(row) > width and any(cell is not None for cell in row[width:]):
                    self.malformed.append(number)
                    continue
                numbers.append(number)
                cells.append(row)
                if len(cells) == most:
                    yield numbers, _columns(cells, places)
                    numbers, cells = [], []
            if cells:
                yield numbers, _columns(cells, places)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[Sequence[Any]]]:
        try:
            import openpyxl
        except ImportError:
            raise CohortError(
                f"{self.path}: Excel's workbooks need openpyxl: pip install 'levyscreen[excel]', or save it as CSV"
            ) from None
        _refuse_bomb(self.path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and the like, which nobody reads
            book = openpyxl.load_workbook(self.path, read_only=True, data_only=True, keep_links=False)
            try:
                sheets = {sheet.title: sheet for sheet in book.worksheets}
                if not sheets:
                    raise CohortError(f"{self.path}: has no sheet of cells")
                if self.name is not None and self.name not in sheets:
                    raise CohortError(f"{self.path}: has no sheet {self.name!r:.80}; it has {len(sheets)}")
                self.others = len(sheets) - 1
                sheet = sheets[self.name] if self.name is not None else next(iter(sheets.values()))
                sheet.reset_dimensions()  # which some programs write wrongly, and cells would be cut off
                yield sheet.iter_rows(values_only=True)
            finally:
                book.close()


def _refuse_bomb(path: Path) -> None:
    """Raises Bounded for a workbook that unpacks to more than real ones do, or whose texts do not fit into memory."""
    with zipfile.ZipFile(path) as packed:
        sizes = {member.filename: member.file_size for member in packed.infolist()}
    unpacked = sum(sizes.values())
    if unpacked > MAX_ARCHIVE_BYTES or (unpacked > FREE_BYTES and unpacked > MAX_RATIO * path.stat().st_size):
        raise Bounded("it unpacks to more than a workbook holds: save it as CSV")
    if sizes.get(_TEXTS, 0) > MOST_TEXTS:
        raise Bounded(f"it has more than {MOST_TEXTS >> 20} MB of texts: save it as CSV")


def _cut(row: Sequence[Any]) -> Sequence[Any]:
    """Without the empty cells at its end."""
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]


def _columns(rows: Sequence[Sequence[Any]], places: Sequence[int]) -> list[pa.Array]:
    return [_column([row[place] if place < len(row) else None for row in rows]) for place in places]


def _column(cells: list[Any]) -> pa.Array:
    """Cells of one kind as what they are, and else as texts."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds and kinds <= {datetime.datetime, datetime.date}:
        return pa.array([None if cell is None else _moment(cell) for cell in cells], pa.timestamp("us"))
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if kinds and kinds <= {int, float} and all(cell is None or abs(cell) < 10**DIGITS for cell in cells):
        return pa.array(cells, pa.int64() if kinds == {int} else pa.float64())
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())


def _moment(cell: datetime.date) -> datetime.datetime:
    return cell if isinstance(cell, datetime.datetime) else datetime.datetime(cell.year, cell.month, cell.day)


def _text(cell: Any) -> str:
    """A cell as text: times as ISO 8601 has them, durations in hours, and numbers that may be rounded so."""
    if isinstance(cell, datetime.timedelta):
        seconds = cell.total_seconds()
        return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02}:{seconds % 60:09.6f}"
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) >= 10**DIGITS:
        return f"{float(cell):.{DIGITS - 1}E}"
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
