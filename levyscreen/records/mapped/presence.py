"""Which records have rows in a table: what several tables have in common, and what one of them has alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levyscreen.records.mapped.register import grown


class Presence:
    """Rows of one table by record, and where each record's first one is."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.int64)
        self._first = np.zeros(0, np.int64)  # file and row, 32 bits each

    def see(self, file: NDArray[np.int64], row: NDArray[np.int64], record: NDArray[np.int64]) -> None:
        """Some rows, (N,) each, with the record of each, -1 for none."""
        there = np.flatnonzero(record >= 0)
        records, first, counts = np.unique(record[there], return_index=True, return_counts=True)
        if not len(records):
            return
        most = int(records[-1]) + 1
        self._rows, self._first = grown(self._rows, most, 0), grown(self._first, most, 0)
        new = self._rows[records] == 0
        place = there[first[new]]
        self._first[records[new]] = file[place].astype(np.int64) << 32 | row[place]
        self._rows[records] += counts

    def rows(self, records: int) -> NDArray[np.int64]:
        """Rows of each record, (R,)."""
        return grown(self._rows, records, 0)[:records]

    def first(self, records: NDArray[np.int64]) -> tuple[int, int]:
        """File and row of the first row of some records, (R,), one or more of which are there."""
        place = int(self._first[records].min())
        return place >> 32, place & 0xFFFFFFFF
