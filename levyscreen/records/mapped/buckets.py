"""Rows of a table, gathered by record wherever they stand in it: in memory, and once they are too many on disk.

A record's rows may be anywhere in a table. Each row goes to one of a few dozen buckets by its record, so that later a
bucket at a time holds all rows of its records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import LevyscreenError

ROW = np.dtype([("record", "i4"), ("file", "i4"), ("row", "i4"), ("target", "i4"), ("time", "f8"), ("value", "f8")])
MEMORY_ROWS = 1 << 21  # 67 MB
BUCKETS = 64


class Buckets:
    """Takes rows as they come; gives those of a bucket's records at a time, in the order they came."""

    def __init__(self) -> None:
        self._waiting: list[NDArray[np.void]] = []
        self._count = 0
        self._files: list[IO[bytes]] = []

    def __del__(self) -> None:
        for file in self._files:
            file.close()

    def add(self, **columns: NDArray[Any]) -> None:
        """Keep some rows, a column for each field of ROW. Raises LevyscreenError if the disk has no room for them."""
        rows = np.empty(len(columns["record"]), ROW)
        for name, column in columns.items():
            rows[name] = column
        self._waiting.append(rows)
        self._count += len(rows)
        if self._count > MEMORY_ROWS:
            try:
                self._write_out()
            except OSError as error:
                raise LevyscreenError(
                    f"a large table cannot be kept in the folder for temporary files: {error.strerror}; "
                    "TMPDIR names another folder"
                ) from error

    def _write_out(self) -> None:
        """All that waits to the buckets' files, which have no names: no process leaves them behind."""
        if not self._files:
            self._files = [tempfile.TemporaryFile() for _ in range(BUCKETS)]  # noqa: SIM115
        rows = np.concatenate([*self._waiting, np.empty(0, ROW)])
        rows = rows[np.argsort(rows["record"] % BUCKETS, kind="stable")]
        bounds = np.searchsorted(rows["record"] % BUCKETS, np.arange(BUCKETS + 1))
        for file, start, stop in zip(self._files, bounds, bounds[1:], strict=False):
            file.write(rows[start:stop].data)
        self._waiting, self._count = [], 0

    def each(self, records: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.void]]]:
        """The records of each bucket, (R,), all R of them being in one, and their rows. Empties the buckets."""
        if not self._files:
            yield np.arange(records), np.concatenate([*self._waiting, np.empty(0, ROW)])
            return
        self._write_out()
        for bucket, file in enumerate(self._files):
            file.seek(0)
            yield np.arange(bucket, records, BUCKETS), np.frombuffer(file.read(), ROW)
            file.close()
