"""What must be true of the tables of a Parquet cohort besides their checksums, which whoever edits them can make anew.

All of it is what the writer guarantees and what readers rely on; each check says in a word what does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from levyscreen.records.cohort import COLUMNS, JUDGED, NumericLines
from levyscreen.schema import COUNTED_CLASSES, count_column
from levyscreen.types import LineClass
from levyscreen.variables import VariableSet


class LineCheck:
    """Takes the lines of R records as they come, a table of READINGS each time, and adds them up."""

    def __init__(self, variables: VariableSet, records: int) -> None:
        self.variables = variables
        self.counts = np.zeros((records, len(JUDGED)), dtype=np.int64)  # lines of each record by class
        self._last: list[NDArray[Any]] = []  # the last line so far, a column each

    def add(self, table: pa.Table) -> NumericLines:
        """The lines of a table. Raises ValueError unless each is one that the reader keeps, in its order."""
        _require(not any(column.null_count for column in table.columns), "a reading without a value")
        record, lines = table.column("record").to_numpy(), NumericLines(*(table.column(c).to_numpy() for c in COLUMNS))
        _require(_within(record, 0, len(self.counts) - 1), "a reading of no record")
        _require(_within(lines.variable, 0, len(self.variables) - 1), "a reading of no variable")
        _require(_within(lines.time_hours, 0, self.variables.horizon_hours), "a reading outside the stay")
        _require(bool(np.isfinite(lines.value).all()), "a reading that is not finite")
        classes, _ = self.variables.judge(lines.variable, lines.value)
        _require(np.array_equal(classes, lines.line_class), "a reading in a class that is not its own")
        self._in_order([record, lines.time_hours, lines.variable, lines.value])
        flat = np.bincount(record * np.int64(4) + classes, minlength=self.counts.size)
        self.counts += flat.reshape(self.counts.shape)
        return lines

    def _in_order(self, columns: list[NDArray[Any]]) -> None:
        if self._last:
            columns = [np.concatenate([last, column]) for last, column in zip(self._last, columns, strict=True)]
        fine = np.ones(max(0, len(columns[0]) - 1), dtype=bool)
        for column in reversed(columns):
            fine = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & fine)
        _require(bool(fine.all()), "readings out of order")
        self._last = [column[-1:] for column in columns]


def check_records(records: pa.Table, counts: NDArray[np.int64]) -> None:
    """Whether RECORDS counts what is there, `counts` (R, 4) being the lines by class. Raises ValueError if not."""
    number = {c: records.column(count_column(c)) for c in COUNTED_CLASSES}
    required = [records.column("file"), records.column("n_lines"), *number.values()]
    _require(not any(column.null_count for column in required), "a record without a name or a count")
    found = {c: column.to_numpy().astype(np.int64) for c, column in number.items()}
    _require(all(bool((n >= 0).all()) for n in found.values()), "a count below zero")
    total = records.column("n_lines").to_numpy()
    _require(np.array_equal(sum(found.values()), total), "counts that do not add up")
    descriptors = found[LineClass.NEGATIVE] - counts[:, LineClass.NEGATIVE]  # a missing height is negative too
    equal = [np.array_equal(found[c], counts[:, c]) for c in JUDGED if c != LineClass.NEGATIVE]
    _require(all(equal) and bool((descriptors >= 0).all()), "counts of other readings")
    unreadable = records.column("problem").is_valid().to_numpy()
    _require(not total[unreadable].any(), "lines of a record that cannot be read")
    _check_ids(records.column("record_id"), unreadable)


def _check_ids(record_id: pa.ChunkedArray, unreadable: NDArray[np.bool_]) -> None:
    known = record_id.is_valid().to_numpy()
    ids = record_id.fill_null(np.iinfo(np.int64).max).to_numpy()
    _require(bool((ids[1:] >= ids[:-1]).all()) and _within(ids, 0, None), "record ids out of order, or below zero")
    _require(bool((known | unreadable).all()), "a readable record without an id")
    readable = ids[~unreadable]
    _require(bool((readable[1:] > readable[:-1]).all()), "two readable records of one id")


def _within(values: NDArray[Any], low: float, high: float | None) -> bool:
    """Whether all values are in [low, high]; NaN is not."""
    return bool((values >= low).all()) and (high is None or bool((values <= high).all()))


def _require(fine: bool, what: str) -> None:
    if not fine:
        raise ValueError(what)
