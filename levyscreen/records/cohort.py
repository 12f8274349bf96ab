"""A cohort in memory: every record file, every numeric line of a known variable, each with its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from levyscreen.variables import VariableSet


@dataclass(frozen=True)
class Cohort:
    """What `read_cohort` gives. Records are sorted by id; a record's lines by time, variable, value."""

    name: str  # of the folder or archive, without endings
    fingerprint: str  # of the source files and of the way they were read
    variables: VariableSet  # what `variable` indexes, and whose ranges gave `line_class`
    records: pa.Table  # schema.RECORDS, R rows
    offsets: NDArray[np.int64]  # (R + 1,): the lines of record r are offsets[r]:offsets[r + 1]
    time_hours: NDArray[np.float32]  # (N,)
    variable: NDArray[np.int16]  # (N,)
    value: NDArray[np.float64]  # (N,), as written
    line_class: NDArray[np.uint8]  # (N,)
    rejects: pa.Table  # schema.REJECTS
    notes: tuple[str, ...] = ()  # what is odd about the cohort as a whole, for instance two files of one record

    def __len__(self) -> int:
        return len(self.offsets) - 1
