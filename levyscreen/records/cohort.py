"""A cohort: every record file, and every numeric line of a known variable with its class, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.compute as pc

from levyscreen.schema import COUNTED_CLASSES, REJECTS, count_column
from levyscreen.types import LineClass

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from levyscreen.variables import VariableSet

# A numeric line where it is packed, 15 bytes; a column for each field of NumericLines.
LINE = np.dtype([("time_hours", "f4"), ("variable", "i2"), ("value", "f8"), ("line_class", "u1")])
WINDOW_RECORDS = 4096  # at once where each line is looked at on its own: two million lines of set-b
COLUMNS: tuple[str, ...] = LINE.names or ()
JUDGED = (LineClass.READING, LineClass.NEGATIVE, LineClass.IMPLAUSIBLE, LineClass.REPAIRED)  # 0 to 3: by the ranges
_USED = (LineClass.READING, LineClass.REPAIRED, LineClass.DESCRIPTOR)


class LineStore(Protocol):
    """Where the numeric lines of a cohort are, in the cohort's order."""

    def read(self, start: int, stop: int) -> NumericLines:
        """Lines start:stop, in memory. Raises CohortError if they cannot be read any more."""


@dataclass(frozen=True)
class NumericLines:
    """Numeric lines in memory, and so a store of them."""

    time_hours: NDArray[np.float32]  # (N,)
    variable: NDArray[np.int16]  # (N,)
    value: NDArray[np.float64]  # (N,), as written
    line_class: NDArray[np.uint8]  # (N,)

    @classmethod
    def empty(cls, count: int) -> NumericLines:
        """Room for `count` lines, to be filled."""
        return cls(*(np.empty(count, LINE[name]) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.value)

    def read(self, start: int, stop: int) -> NumericLines:
        """Lines start:stop, without a copy."""
        lines = slice(start, stop)
        return NumericLines(self.time_hours[lines], self.variable[lines], self.value[lines], self.line_class[lines])

    def fill(self, start: int, lines: NumericLines) -> None:
        """Put `lines` in the place of the lines from `start` on."""
        for name in COLUMNS:
            getattr(self, name)[start : start + len(lines)] = getattr(lines, name)


@dataclass(frozen=True)
class Judged:
    """The lines of another store, under the ranges of other variables."""

    lines: LineStore
    variables: VariableSet

    def read(self, start: int, stop: int) -> NumericLines:
        """Lines start:stop, judged as they are read."""
        found = self.lines.read(start, stop)
        return replace(found, line_class=self.variables.judge(found.variable, found.value)[0])


@dataclass(frozen=True)
class Cohort:
    """What `read_cohort` gives. Records are sorted by id; a record's lines by time, variable, value.

    The lines of a large cohort stay on disk: `windows` reads them a few records at a time, while `time_hours`,
    `variable`, `value` and `line_class` read all of them anew whenever they are asked for.
    """

    name: str  # of the folder or archive, without endings
    fingerprint: str  # of the source files and of the way they were read
    variables: VariableSet  # what `variable` indexes, and whose ranges gave `line_class`
    records: pa.Table  # schema.RECORDS, R rows
    offsets: NDArray[np.int64]  # (R + 1,): the lines of record r are offsets[r]:offsets[r + 1]
    lines: LineStore  # N numeric lines of known variables
    rejects: pa.Table  # schema.REJECTS
    notes: tuple[str, ...] = ()  # what is odd about the cohort as a whole, for instance two files of one record
    unread: int = 0  # rows of mapped texts that are malformed, and so of no record

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        """In a line, and without a value of a patient: a notebook shows what its cell ends with."""
        lines, variables = int(self.offsets[-1]), len(self.variables)
        return f"<Cohort {self.name}: {len(self):,} records, {lines:,} lines of {variables} variables>"

    def count(self, line_class: LineClass) -> int:
        """How many lines are of a class, those of no record among them."""
        found = pc.sum(self.records.column(count_column(line_class))).as_py() or 0
        return found + self.unread if line_class == LineClass.MALFORMED else found

    @property
    def rejected(self) -> bool:
        """Whether a line was rejected; a repaired one is used."""
        return any(self.count(line_class) for line_class in COUNTED_CLASSES if line_class not in _USED)

    def part(self, start: int, stop: int) -> Cohort:
        """The records start:stop (as in a slice) as a cohort in memory.

        It has the fingerprint and the notes of the whole, and no rejects: they are listed by file, not by record.
        Raises CohortError if the lines cannot be read any more.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        offsets = self.offsets[start : max(start, stop) + 1]
        return replace(
            self,
            records=self.records.slice(start, len(offsets) - 1),
            offsets=offsets - offsets[0],
            lines=self.lines.read(int(offsets[0]), int(offsets[-1])),
            rejects=REJECTS.empty_table(),
            unread=0,
        )

    def windows(self, records: int) -> Iterator[tuple[int, Cohort]]:
        """Consecutive parts of `records` records, the last one perhaps shorter, each after the row it starts at.

        Raises CohortError if the lines cannot be read any more.
        """
        for start in range(0, len(self), records):
            yield start, self.part(start, start + records)

    def load(self) -> NumericLines:
        """All lines, without a copy if they are in memory. Raises CohortError if they cannot be read any more."""
        return self.lines.read(0, int(self.offsets[-1]))

    @property
    def time_hours(self) -> NDArray[np.float32]:
        """Hours since admission of every line, (N,)."""
        return self.load().time_hours

    @property
    def variable(self) -> NDArray[np.int16]:
        """Index into `variables` of every line, (N,)."""
        return self.load().variable

    @property
    def value(self) -> NDArray[np.float64]:
        """Value of every line as written, (N,), in its variable's unit."""
        return self.load().value

    @property
    def line_class(self) -> NDArray[np.uint8]:
        """LineClass of every line, (N,)."""
        return self.load().line_class


def records_of(offsets: NDArray[np.int64], start: int, stop: int) -> tuple[int, NDArray[np.int64]]:
    """First record of those that hold the lines start:stop, and how many of these lines each of them holds."""
    first = int(np.searchsorted(offsets, start, "right")) - 1
    last = int(np.searchsorted(offsets, stop, "left"))
    ends = np.clip(offsets[first : last + 1], start, stop)
    return first, ends[1:] - ends[:-1]


def repeats(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of sorted rows are the same as the row before in each of the columns (N,), (N,)."""
    same = np.zeros(len(columns[0]), dtype=bool)
    same[1:] = np.all([column[1:] == column[:-1] for column in columns], axis=0)
    return same
