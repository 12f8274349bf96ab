"""The rows of one table by its mapping: each value goes to the buckets by its record, or is counted as what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.buckets import Buckets
from levyscreen.records.mapped.cells import has_other_decimal, ids, words
from levyscreen.records.mapped.codes import Codes, pattern
from levyscreen.records.mapped.lacking import Lacking
from levyscreen.records.mapped.mapping import FILE, Mapping
from levyscreen.records.mapped.presence import Presence
from levyscreen.records.mapped.register import Register
from levyscreen.records.mapped.sheets import EXCEL
from levyscreen.records.mapped.stored import BLOCK_BYTES, BLOCK_CELLS
from levyscreen.records.mapped.strips import Strip, Strips
from levyscreen.records.mapped.tables import BLOCK_ROWS, PARQUET, Block, TableFile, TableReader, joined
from levyscreen.records.mapped.times import Times, times
from levyscreen.records.mapped.unread import Unread
from levyscreen.types import LineClass

NAMED_CODES = 10  # in a note; the rest is counted
PLACED_CODES = 1_000  # codes that the mapping does not name, of which it is remembered where they stand first


@dataclass
class Gathered:
    """What has been read so far, of however many tables."""

    register: Register = field(default_factory=Register)
    buckets: Buckets = field(default_factory=Buckets)
    unread: Unread = field(default_factory=Unread)
    zoned: frozenset[bool] = frozenset()  # whether timestamps say a zone
    tables: list[int] = field(default_factory=list)  # of each file in the register, the table


class Taking:
    """Takes the rows of one table, and knows what it has left out of it."""

    def __init__(self, mapping: Mapping, gathered: Gathered, number: int = 0) -> None:
        """`number` is the table's among those of `gathered`."""
        self.mapping, self.strips, self.gathered = mapping, Strips(mapping), gathered
        self.register, self.buckets, self.unread = gathered.register, gathered.buckets, gathered.unread
        self.number = number
        self.scale: tuple[float, float] | None = None  # of its times
        self.common: tuple[float, float] | None = None  # that of several tables; None where it is its own
        self.presence = Presence()
        self.rows_of_strangers = 0  # of a table of patients or stays
        self._zoned: frozenset[bool] = frozenset()
        self._waiting: list[tuple[int, Block]] = []
        self._rows_waiting = self._bytes_waiting = 0
        self.endings: set[str] = set()  # of its files
        columns, time = mapping.columns, mapping.time
        self._optional = [name for name in (columns.subject, columns.unit, time.column) if name is not None]
        self.alone = False  # whether it is of one file, which then has all columns
        self._lacking = Lacking()
        self._sheets = 0  # of workbooks, that are not read
        self._stems: dict[str, str] = {}  # of files that name a record each
        self._unknown: Counter[str] = Counter()
        self._first_unknown: dict[str, str] = {}  # where each of them stands first
        self._ignored = self._homeless = self._other_decimal = self._strangers = 0
        self._factor, self._offset = (np.array([getattr(r, n) for r in mapping.rules]) for n in ("factor", "offset"))
        self._target = np.array([rule.target for rule in mapping.rules])
        self._mixed = {i: (rule.name, rule.mixed) for i, rule in enumerate(mapping.rules) if rule.mixed is not None}
        self._other_unit: Counter[str] = Counter()
        start = mapping.time.code
        self._start = None if start is None else pattern(start)

    def add(self, file: TableFile) -> None:
        """Every row of a file."""
        if file.ending in (PARQUET, EXCEL) and self.mapping.form.header is not None:
            raise CohortError(
                f"{self.mapping.path}, at the top header: is for text without one; {file.name} names its own"
            )
        self.endings.add(file.ending)
        reader = TableReader(file, self.mapping.form)
        number = self._file(file)
        needed = self.strips.needed(reader.columns)
        lacking = self._lacking.of(reader, [] if self.alone else self._optional)
        for read in reader.blocks([name for name in needed if name not in lacking]):
            block = read.with_nothing(lacking)
            if self._waiting and not block.like(self._waiting[0][1]):
                self.flush()
            self._waiting.append((number, block))
            self._rows_waiting += len(block.row)
            self._bytes_waiting += sum(column.nbytes for column in block.columns.values())
            most = min(BLOCK_ROWS, BLOCK_CELLS // max(1, len(block.columns)))
            if self._rows_waiting >= most or self._bytes_waiting >= BLOCK_BYTES:
                self.flush()
        self._sheets += reader.sheet.others if reader.sheet is not None and self.mapping.form.sheet is None else 0
        self.unread.see(reader)

    def add_facts(self, file: TableFile, delimiter: str | None = None) -> None:
        """Descriptors, hours 0 and subjects of a file, of records that have rows: one of descriptors alone is none.

        `delimiter` is the usual one of such files. Raises CohortError where it has none of these.
        """
        columns, start = self.mapping.columns, self.mapping.time.column
        form = self.mapping.form
        reader = TableReader(file, form if form.delimiter else replace(form, delimiter=delimiter))
        names = [name for name in self.strips.measured(reader.columns) if self._is_fact(name)]
        if not names and start is None and not (columns.record and columns.subject):
            raise CohortError(f"{file.path}: has no column that a descriptor of {self.mapping.path} names")
        number = self._file(file)
        roles = dict.fromkeys(name for name in (columns.record, columns.subject, start) if name)
        for block in reader.blocks([*roles, *names]):
            try:
                self._facts(number, block)
            except CohortError as error:
                raise error if str(file.path) in str(error) else CohortError(f"{file.path}: {error}") from error
        self.unread.see(reader)

    def _facts(self, number: int, block: Block) -> None:
        columns, start = self.mapping.columns, self.mapping.time.column
        if columns.record:
            found = ids(block.columns[columns.record], columns.record)
            record = np.array([self.register.known(word) for word in found.words])[found.which]
            if columns.subject is not None:
                self.register.see_subjects(record, ids(block.columns[columns.subject], columns.subject))
        else:
            assert columns.subject is not None  # see mapping
            row, record = self.register.of_subjects(ids(block.columns[columns.subject], columns.subject))
            block = block.take(row)
        file = np.full(len(record), number)
        self.rows_of_strangers += int((record < 0).sum())
        self.presence.see(file, block.row, record)
        if start is not None:
            said = times(block.columns[start], start, self.mapping.time)
            self._see_zones(said, start)
            self.register.see_origins(record, self._in_common(said))
        for strip in self.strips.of(block):
            self._strangers += int((strip.there & (record < 0)).sum())
            self._take(file, block, record, np.full(len(record), np.nan), strip)

    def _file(self, file: TableFile) -> int:
        self.gathered.tables.append(self.number)
        return self.register.file(file.name)

    def _is_fact(self, code: str) -> bool:
        rule = self.strips.codes.rule(code)
        return rule >= 0 and int(self._target[rule]) >= len(self.mapping.variables)

    def done(self) -> None:
        """Reads what waits. Raises CohortError where a column that some files may lack is in none of them."""
        self.flush()
        self._lacking.refuse()

    def flush(self) -> None:
        """Reads the blocks that wait as one: a source may be of many thousand small files."""
        if self._waiting:
            numbers, blocks = zip(*self._waiting, strict=True)
            self._waiting, self._rows_waiting, self._bytes_waiting = [], 0, 0
            try:
                self._block(np.repeat(numbers, [len(block.row) for block in blocks]), joined(blocks))
            except CohortError as error:
                where = (
                    self.mapping.source / self.register.files[numbers[0]]
                    if self.mapping.source.is_dir()
                    else self.mapping.source
                )
                raise error if str(where) in str(error) else CohortError(f"{where}: {error}") from error

    def _block(self, file: NDArray[np.int64], block: Block) -> None:
        columns = self.mapping.columns
        record = self._records(file, block)
        read = times(block.columns[columns.time], columns.time, self.mapping.time)
        if not pt.is_null(block.columns[columns.time].type):
            if self.scale not in (None, read.scale):
                raise CohortError(
                    f"column {columns.time!r} is of another type than in the files before; make them alike"
                )
            self.scale = read.scale
        if self.common is not None:
            self.presence.see(file, block.row, record)
        self._see_zones(read, columns.time)
        self._see_origins(record, read, block)
        homeless, time = record < 0, self._in_common(read)
        for name, strip in zip(self._value_columns(block), self.strips.of(block), strict=True):
            self._homeless += int((strip.there & homeless & (strip.rule != Codes.IGNORED)).sum())
            refusal = self._take(file, block, record, time, strip)
            if (refusal == LineClass.NOT_A_NUMBER).any():
                other = has_other_decimal(block.columns[name], self.mapping.decimal)
                self._other_decimal += int((other & (refusal == LineClass.NOT_A_NUMBER)).sum())

    def _value_columns(self, block: Block) -> list[str]:
        """Of each strip of a block the column that holds its values."""
        value = self.mapping.columns.value
        return self.strips.measured(block.columns) if value is None else [value]

    def _records(self, file: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        """Position of each row's record in the register, (N,); -1 where the row names none."""
        columns = self.mapping.columns
        if columns.record == FILE:
            numbers, which = np.unique(file, return_inverse=True)
            return np.array([self.register.record(self._stem(self.register.files[i])) for i in numbers])[which]
        found = ids(block.columns[columns.record], columns.record)
        # The last word stands for null, which may be in no row.
        record = np.array([self.register.record(word) if word else -1 for word in found.words])[found.which]
        if columns.subject is not None:
            self.register.see_subjects(record, ids(block.columns[columns.subject], columns.subject))
        return record

    def _stem(self, name: str) -> str:
        """A file's name without folder and endings. Raises CohortError where another file has the same."""
        stem = Path(name).name.removesuffix(".gz").rsplit(".", 1)[0]
        if (other := self._stems.setdefault(stem, name)) != name:
            raise CohortError(
                f"{self.mapping.source}: {other} and {name} would be one record by their names: rename one of them"
            )
        return stem

    def _see_origins(self, record: NDArray[np.int64], read: Times, block: Block) -> None:
        time, columns = self.mapping.time, self.mapping.columns
        if time.column is not None:
            said = times(block.columns[time.column], time.column, time)
            empty = any(pt.is_null(block.columns[name].type) for name in (time.column, columns.time))
            if said.scale != read.scale and not empty:
                raise CohortError(
                    f"columns {time.column!r} and {columns.time!r} hold times of two types; make them alike"
                )
            self._see_zones(said, time.column)
            self.register.see_origins(record, self._in_common(said))
        if self._start is not None and columns.variable is not None:
            named = words(block.columns[columns.variable])
            starts = np.array([self._start.fits(word) for word in named.words])[named.which]
            self.register.see_origins(record[starts], self._in_common(read)[starts])

    def _in_common(self, read: Times) -> NDArray[np.float64]:
        """Times as those of all tables are counted."""
        if self.common in (None, read.scale):
            return read.time
        assert self.common is not None
        return read.time * read.scale[0] / read.scale[1] * self.common[1] / self.common[0]

    def _see_zones(self, read: Times, name: str) -> None:
        """Raises CohortError where some timestamps say a zone and others do not: they cannot be told apart by hours."""
        self._zoned |= read.zoned
        if len(self._zoned) > 1:
            raise CohortError(
                f"column {name!r}: some times of this table say a zone and others do not; set zone under [time] to "
                'that of the latter, for instance zone = "Europe/Berlin" or "UTC"'
            )
        self.gathered.zoned |= read.zoned
        if len(self.gathered.zoned) > 1:
            raise CohortError(
                f"column {name!r}: the times of one table say a zone and those of another do not; set zone under "
                '[table.time] of the latter, for instance zone = "Europe/Berlin" or "UTC"'
            )

    def _take(
        self, file: NDArray[np.int64], block: Block, record: NDArray[np.int64], time: NDArray[np.float64], strip: Strip
    ) -> NDArray[np.uint8]:
        """What can be read goes to the buckets, the rest is counted and refused: why, (N,), FINE where it is not."""
        there = strip.there & (record >= 0)
        self._count(file, block, strip, there)
        rule = np.maximum(strip.rule, 0)
        target = np.where(strip.rule < 0, strip.rule, self._target[rule])
        value = self._converted(strip.numbers.value, rule, there & (strip.rule >= 0))
        refusal = np.where(np.isfinite(value), strip.numbers.refusal, LineClass.NOT_FINITE).astype(np.uint8)
        # A fact about a patient needs no time; a reading does.
        refusal[np.isnan(time) & (target < len(self.mapping.variables))] = LineClass.BAD_TIME
        blank = np.array([not word for word in strip.code.words])[strip.code.which]
        refusal[strip.rule == Codes.UNKNOWN] = LineClass.UNKNOWN_PARAMETER
        refusal[(strip.rule == Codes.UNKNOWN) & blank] = LineClass.BLANK_PARAMETER
        read = there & (strip.rule != Codes.IGNORED)
        refused, kept = read & (refusal != FINE), read & (refusal == FINE)
        self.register.refuse(file[refused], record[refused], block.row[refused], refusal[refused])
        columns = {"record": record, "file": file, "row": block.row, "target": target, "time": time, "value": value}
        self.buckets.add(**{name: c[kept] for name, c in columns.items()})
        return np.where(refused, refusal, FINE)

    def _converted(
        self, written: NDArray[np.float64], rule: NDArray[np.int64], there: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Values by their rules' factors and offsets; those in a rule's other unit by that one's."""
        value = written * self._factor[rule] + self._offset[rule] + 0.0
        for index, (name, mixed) in self._mixed.items():
            hit = there & (rule == index) & (written >= mixed.low) & (written <= mixed.high)
            value[hit] = written[hit] * mixed.factor + mixed.offset
            self._other_unit[name] += int(hit.sum())
        return value

    def _count(self, file: NDArray[np.int64], block: Block, strip: Strip, there: NDArray[np.bool_]) -> None:
        self._ignored += int((strip.there & (strip.rule == Codes.IGNORED)).sum())
        rows = np.flatnonzero(there & (strip.rule == Codes.UNKNOWN))
        which, first, counts = np.unique(strip.code.which[rows], return_index=True, return_counts=True)
        self._unknown.update({strip.code.words[i]: n for i, n in zip(which.tolist(), counts.tolist(), strict=True)})
        for i, row in zip(which.tolist(), rows[first].tolist(), strict=True):
            code = strip.code.words[i]
            if code not in self._first_unknown and len(self._first_unknown) < PLACED_CODES:
                place = f"row {block.row[row]}" if strip.column is None else f"column {block.places[strip.column]}"
                self._first_unknown[code] = f"{self.register.files[file[row]]}, {place}"

    def notes(self) -> Iterator[str]:
        """What was left out, in sentences."""
        yield from self._lacking.notes()
        if self._sheets:
            yield (
                f"{self._sheets:,} further sheet{plural(self._sheets)} of the workbook not read: sheet in the mapping "
                "names the one to read"
            )
        unknown = {code: count for code, count in self._unknown.most_common() if code}
        if unknown:
            yield (
                f"{values(sum(unknown.values()))} under {len(unknown):,} code{plural(len(unknown))} that the mapping "
                f"does not name, and so not read: {self._listed(unknown)}; map them, or list them under [ignore]"
            )
        if self._ignored:
            yield f"{values(self._ignored)} under codes that the mapping ignores"
        if self._homeless:
            yield f"{values(self._homeless)} in rows that name no record, and so of nobody"
        if self._strangers:
            yield f"{values(self._strangers)} in {self.mapping.source.name} of records that have no row"
        for name, count in self._other_unit.items():
            if count:
                yield f"{values(count)} of {name} taken to be in another unit, as mixed in the mapping says"
        if self._other_decimal:
            said = "comma: set decimal = ','" if self.mapping.decimal == "." else "point: set decimal = '.'"
            yield f"{values(self._other_decimal)} not read, by the look numbers with a decimal {said} at the top"

    def _listed(self, counts: dict[str, int]) -> str:
        """The most frequent codes: by name where the mapping or the schema knows it, else by where they stand first."""
        named = []
        for code, count in list(counts.items())[:NAMED_CODES]:
            place = self._first_unknown.get(code)
            called = self.strips.codes.shown(code) or (f"the one in {place}" if place else "one")
            named.append(f"{called} ({count:,})")
        more = len(counts) - NAMED_CODES
        return "; ".join(named) + (f"; and {more:,} more" if more > 0 else "")


def values(count: int) -> str:
    """So many values, in words."""
    return f"{count:,} value{plural(count)}"


def plural(count: int) -> str:
    """The ending of a noun that so many are called by."""
    return "" if count == 1 else "s"
