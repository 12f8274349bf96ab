"""The files of a mapped source, and their rows a block at a time: CSV and its kin, packed or not, and Parquet.

Nothing here knows what a column means; it is read as it is, and every row keeps its number.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records import quoting
from levyscreen.records.mapped import stored
from levyscreen.records.mapped.files import DELIMITERS, PACKED, PARQUET, TableFile
from levyscreen.records.mapped.files import ending_of as ending_of
from levyscreen.records.mapped.files import is_table as is_table
from levyscreen.records.mapped.files import listing as listing
from levyscreen.records.mapped.files import passed_over as passed_over
from levyscreen.records.mapped.files import stamps as stamps
from levyscreen.records.mapped.files import table_files as table_files
from levyscreen.records.mapped.header import first_row
from levyscreen.records.mapped.sheets import DAMAGE, EXCEL, Sheet
from levyscreen.records.mapped.text import MOST_BYTES, Form, Lines, lines_of, may_hold_rows, of_several_lines
from levyscreen.records.quoting import Bounded

_VALUE = re.compile(r"^\s*[+-]?[0-9]*[.,]?[0-9]+\s*$|[0-9][-/.:,][0-9]|[\r\n]")
BLOCK_BYTES = MOST_BYTES
BLOCK_ROWS = stored.BLOCK_ROWS
MOST_COLUMNS = 10_000
MOST_MALFORMED = 100_000  # rows of a file; with more of them it is no table of that header
_AS_USUAL = Form()


@dataclass(frozen=True)
class Block:
    """Some rows of one file."""

    row: NDArray[np.int64]  # (N,) number of each: 1 is the header or, where there is none, the first row; what was
    # skipped above it is counted too
    columns: dict[str, pa.Array]  # (N,) each
    places: dict[str, int] = field(default_factory=dict)  # of columns in the file, the first being 1

    def take(self, rows: NDArray[np.int64]) -> Block:
        """These rows of it, (M,), some perhaps several times."""
        places = pa.array(rows)
        return Block(self.row[rows], {name: c.take(places) for name, c in self.columns.items()}, self.places)

    def with_nothing(self, names: Sequence[str]) -> Block:
        """With further columns, in which nothing is."""
        nothing = dict.fromkeys(names, pa.nulls(len(self.row), pa.string()))
        return Block(self.row, self.columns | nothing, self.places) if nothing else self

    def like(self, other: Block) -> bool:
        """Whether the two have the same columns of the same types."""
        return {n: c.type for n, c in self.columns.items()} == {n: c.type for n, c in other.columns.items()}


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks that are like each other as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = {name: pa.concat_arrays([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    return Block(np.concatenate([block.row for block in blocks]), columns, blocks[0].places)


def beginning(file: TableFile, size: int) -> bytes:
    """The first bytes of a text, unpacked. Raises CohortError where it cannot be read."""
    try:
        with _opened(file.path) as stream:
            return stream.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise CohortError(f"{file.path}: cannot be read as a {file.ending} table: {quoting.reason(error)}") from error


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb") if path.name.lower().endswith(PACKED) else open(path, "rb"))


class TableReader:
    """Reads the blocks of one file, and knows after them which of its rows it did not give, and why."""

    def __init__(self, file: TableFile, form: Form = _AS_USUAL) -> None:
        self.file, self.form = file, form
        self.malformed: list[int] = []  # numbers of rows with another number of fields
        self.doubtful: list[int] = []  # of rows with a quoted field that may hold rows of its own
        self.swallowed = 0  # lines within quoted fields of these two kinds of rows
        self.within_fields = 0  # of the others
        self.first_within: int | None = None  # number of the first row of the latter
        self._delimiter = form.delimiter or DELIMITERS.get(file.ending, ",")
        self._head = form.skip  # lines up to the end of the header
        self.sheet = Sheet(file.path, form.sheet, form.skip) if file.ending == EXCEL else None
        self.columns = self._columns()
        self.places = {name: place for place, name in enumerate(self.columns, 1)}

    def _columns(self) -> list[str]:
        if self.file.ending == PARQUET:
            found = list(self._parquet().schema_arrow.names)
        elif self.sheet is not None:
            found = self._first_cells(self.sheet)
        else:
            found = self.first_row if self.form.header is None else list(self.form.header)
        if len(found) > MOST_COLUMNS:
            raise self._unreadable(Bounded(f"it has {len(found):,} columns, more than {MOST_COLUMNS:,}"))
        blank = [i for i, name in enumerate(found) if not name]
        for i in blank[1:]:
            found[i] = f"#{i + 1}"  # an exporter's further columns without a name are still counted
        twice = next((name for name, count in Counter(found).items() if count > 1 and name), None)
        if twice is not None:
            where = quoting.places(i for i, name in enumerate(found, 1) if name == twice)
            raise CohortError(f"{self.file.path}: its columns {where} have one name: rename one of them")
        self._own = set(found)
        return found + [name for name, _ in self.file.partition if name not in self._own]

    @property
    def first_row(self) -> list[str]:
        """The fields of a text's first row, blanks around them cut off."""
        return [field.strip() for field in self._first_fields()]

    def require(self, names: Sequence[str]) -> None:
        """Raises CohortError, with the place of the nearest name there is, where a column is missing."""
        for name in names:
            if name not in self.places:
                raise CohortError(f"{self.file.path}: has no column {name!r:.80}; {self._columns_hint(name)}")

    def _columns_hint(self, name: str) -> str:
        if self.columns[0].startswith("#"):
            return "its first line begins with #: skip_lines in the mapping says how many stand above the header"
        if self.file.ending != PARQUET and _may_be_values(self.columns):
            return "its first row looks like values: header in the mapping names the columns of a text without one"
        near = quoting.nearest(name, self.columns)
        if near is not None:
            return f"the nearest name is that of its {near}: compare how the two are written"
        return (
            f"it has {quoting.columns(self.columns)}; compare the first row with the mapping, and see whether "
            "delimiter and encoding are right"
        )

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """The rows in order, with some of the columns. Raises CohortError where the file is damaged."""
        self.require(names)
        wanted = set(names)
        self._places = {name: place for name, place in self.places.items() if name in wanted}
        of_text = self._text_blocks if self.sheet is None else self._sheet_blocks
        read = self._parquet_blocks if self.file.ending == PARQUET else of_text
        try:
            own = [name for name in names if name in self._own]
            yield from map(self._partitioned, read(own)) if len(own) < len(names) else read(own)
        except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, *DAMAGE) as error:
            raise self._unreadable(error) from error

    def _partitioned(self, block: Block) -> Block:
        """With what the names of the file's folders say, which is text."""
        said = {n: pa.repeat(pa.scalar(v, pa.string()), len(block.row)) for n, v in self.file.partition}
        columns = {name: column for name, column in said.items() if name in self._places and name not in self._own}
        return Block(block.row, block.columns | columns, block.places)

    def _unreadable(self, error: Exception) -> CohortError:
        hint = ""
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
            hint = f'; it is not written in {self.form.encoding}: set encoding, for instance encoding = "cp1252"'
        elif "straddl" in str(error):
            hint = "; where quotes in it are characters like any other, set quote = false"
        return CohortError(
            f"{self.file.path}: cannot be read as a {self.file.ending} table: {quoting.reason(error)}{hint}"
        )

    # Parquet

    def _parquet(self) -> stored.pq.ParquetFile:
        try:
            return stored.opened(self.file.path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _parquet_blocks(self, names: list[str]) -> Iterator[Block]:
        start = 1
        for columns in stored.batches(self._parquet(), names):
            rows = np.arange(start, start + len(next(iter(columns.values()), ())))
            yield Block(rows, columns, self._places)
            start += len(rows)

    # Excel

    def _first_cells(self, sheet: Sheet) -> list[str]:
        try:
            found = sheet.header()
        except (OSError, ValueError, *DAMAGE) as error:
            raise self._unreadable(error) from error
        if not found:
            raise CohortError(f"{self.file.path}: its first sheet is empty; sheet in the mapping names another")
        return found

    def _sheet_blocks(self, names: list[str]) -> Iterator[Block]:
        assert self.sheet is not None
        places = [self.places[name] - 1 for name in names]
        for numbers, columns in self.sheet.blocks(len(self._own), places):
            yield Block(np.array(numbers), dict(zip(names, columns, strict=True)), self._places)
        self.malformed += self.sheet.malformed

    # Text

    def _first_fields(self) -> list[str]:
        try:
            with _opened(self.file.path) as raw:
                first, self._head = first_row(raw, self.form, self._delimiter)
        except (OSError, EOFError, zlib.error, ValueError, csv.Error) as error:
            raise self._unreadable(error) from error
        if not first:
            raise CohortError(f"{self.file.path}: is empty; a table has a header, or the mapping gives one")
        return first

    def _text_blocks(self, names: list[str]) -> Iterator[Block]:
        """Rows up to the first quote, each of which is a line, and then the others."""
        start = before = self.form.skip + (1 if self.form.header is None else 0)  # rows with a number
        with _opened(self.file.path) as raw:
            lines = Lines(raw, self.form.encoding)
            lines.skip(self._head)
            if self.form.quote is not False:
                lines.stop_at_a_quote()
            before = yield from self._rows(lines, names, before, quoted=False)
            lines.go_on()
            before = yield from self._rows(lines, names, before, quoted=True)
        within = lines.count - (before - start)
        self.swallowed = min(self.swallowed, within)  # the text may end in a field that is open, after a line end
        self.within_fields = within - self.swallowed

    def _rows(self, lines: Lines, names: list[str], before: int, quoted: bool) -> Generator[Block, None, int]:
        """The rows that the stream holds, `before` having a number already; gives how many then have."""
        if not lines.more():
            return before
        skipped: list[int] = []

        def skip(row: pa.csv.InvalidRow) -> str:
            skipped.append(row.number + before)
            if len(skipped) > max(MOST_MALFORMED, row.number / 2):
                return "error"
            self.swallowed += sum(map(bool, lines_of(row.text.encode())[1:]))
            return "skip"

        place = {name: str(self.places[name] - 1) for name in names}
        # Where a field may go on over lines, all are read: one that nobody needs may have swallowed rows as well.
        every = [str(i) for i in range(len(self._own))]
        reader = pyarrow.csv.open_csv(
            lines,
            pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=every),
            pyarrow.csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                invalid_row_handler=skip,
            ),
            pyarrow.csv.ConvertOptions(
                include_columns=every if quoted else list(place.values()),
                column_types=dict.fromkeys(every, pa.binary()) | dict.fromkeys(place.values(), pa.string()),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        start = 0
        for batch in reader:
            row = _numbers(start, batch.num_rows, skipped, before)
            start += batch.num_rows
            fine = self._looked_at(batch, row) if quoted else None
            kept = batch if fine is None else batch.filter(pa.array(fine))
            columns = {name: kept.column(kept.schema.get_field_index(i)) for name, i in place.items()}
            yield Block(row if fine is None else row[fine], columns, self._places)
        self.malformed += skipped
        return before + start + len(skipped)

    def _looked_at(self, batch: pa.RecordBatch, number: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which rows can be trusted, (N,), no field of theirs being likely to hold rows; None: all."""
        several = [(int(i), place) for place, column in enumerate(batch.columns) for i in of_several_lines(column)]
        if not several:
            return None
        fine = np.ones(batch.num_rows, dtype=bool)
        delimiter, extra = self._delimiter.encode(), Counter[int]()
        for i, place in several:
            text = batch.column(place)[i].as_py()
            lines = lines_of(text if isinstance(text, bytes) else text.encode())
            extra[i] += 1 + sum(map(bool, lines[1:-1]))  # the last line has a quote, if nothing else
            fine[i] &= self.form.quote is True or not may_hold_rows(lines, place, len(self._own), delimiter)
        self.doubtful += number[~fine].tolist()
        self.swallowed += sum(count for i, count in extra.items() if not fine[i])
        rest = [int(number[i]) for i in extra if fine[i]]
        if rest and self.first_within is None:
            self.first_within = min(rest)
        return fine


def _numbers(start: int, count: int, skipped: Sequence[int], before: int) -> NDArray[np.int64]:
    """Numbers of the valid rows start:start + count after those `before`, what was skipped having numbers too."""
    place = np.arange(start, start + count) + before + 1
    gone = np.array(skipped, dtype=np.int64) - np.arange(len(skipped))  # valid rows before each, and the header
    return place + np.searchsorted(gone, place, "right")


def _may_be_values(names: Sequence[str]) -> bool:
    """Whether a first row may be a patient's, and so is not to be shown: it holds numbers, times or line ends."""
    return any(_VALUE.search(name) for name in names)
