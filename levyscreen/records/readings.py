"""A cohort as one model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Readings:
    """A cohort as one model sees it: the readings it keeps, in its own units. R records, N readings."""

    record_id: NDArray[np.int64]  # (R,), -1 where the file names none
    offsets: NDArray[np.int64]  # (R + 1,): readings of record r are offsets[r]:offsets[r + 1]
    time: NDArray[np.float32]  # (N,) in [0, 1]
    variable: NDArray[np.int16]  # (N,)
    value: NDArray[np.float32]  # (N,) z-scored
    varies: NDArray[np.bool_] | None = None  # (N,) False for readings that are never held out; None: all may be

    def __len__(self) -> int:
        return len(self.record_id)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Readings a record, (R,)."""
        return np.diff(self.offsets)

    def keep(self, mask: NDArray[np.bool_]) -> Readings:
        """The same records with only the readings where `mask` (N,) is True."""
        kept = np.concatenate([[0], np.cumsum(mask)])[self.offsets]
        return self._of(self.record_id, kept, mask)

    def take(self, rows: NDArray[np.integer[Any]]) -> Readings:
        """Only the records at `rows`, in that order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        index = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return self._of(self.record_id[rows], offsets, index)

    @property
    def may_be_target(self) -> NDArray[np.bool_]:
        """(N,)."""
        return np.ones(len(self.time), dtype=bool) if self.varies is None else self.varies

    def _of(self, record_id: NDArray[np.int64], offsets: NDArray[np.int64], chosen: NDArray[Any]) -> Readings:
        varies = None if self.varies is None else self.varies[chosen]
        return Readings(record_id, offsets, self.time[chosen], self.variable[chosen], self.value[chosen], varies)
