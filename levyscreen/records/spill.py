"""Where parsed lines wait until every file is read and the order of the records is known."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import CohortError, LevyscreenError
from levyscreen.records.cohort import COLUMNS, LINE, LineStore, NumericLines, records_of

# A cohort of more lines than these stays on disk, a smaller one is kept in memory (31 MB). The 4,000 records of set-b
# have 1.7 million.
MEMORY_LINES = 1 << 21


class Spill:
    """Lines in the order they come: in memory, and once they are too many in a file without a name.

    The file stands in the folder that $TMPDIR names; no process that ends, however it ends, leaves it behind.
    """

    def __init__(self) -> None:
        self._waiting: list[NumericLines] = []
        self._file: _Unnamed | None = None
        self._count = 0

    def add(self, lines: NumericLines) -> None:
        """Keep some more lines. Raises LevyscreenError if there is no room for them on disk."""
        self._waiting.append(lines)
        self._count += len(lines)
        if self._count > MEMORY_LINES:
            try:
                self._write_out()
            except OSError as error:
                raise LevyscreenError(
                    f"a large cohort cannot be kept in the folder for temporary files: {error.strerror}; "
                    "TMPDIR names another folder"
                ) from error

    def _write_out(self) -> None:
        if self._file is None:
            self._file = _Unnamed(tempfile.TemporaryFile())  # noqa: SIM115
        for lines in self._waiting:
            self._file.append(lines)
        self._waiting.clear()

    def in_order(self, starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> LineStore:
        """All lines in another order, of R records: those of record r were added as starts[r] (R,) and following.

        Their number is offsets[r + 1] - offsets[r], `offsets` (R + 1,); lines of no record are left out.
        """
        if self._file is not None:
            return Spilled(self._file, starts, offsets)
        rows = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
        as_they_are = len(rows) == self._count and bool((rows[1:] > rows[:-1]).all())
        return NumericLines(*(_gathered(self._waiting, name, None if as_they_are else rows) for name in COLUMNS))


def _gathered(parts: Sequence[NumericLines], name: str, rows: NDArray[np.int64] | None) -> NDArray[Any]:
    whole = np.concatenate([getattr(part, name) for part in parts])
    return whole if rows is None else whole[rows]


@dataclass(frozen=True)
class Spilled:
    """Lines of R records in a file, packed, each record's in one run, the records in any order."""

    file: _Unnamed
    starts: NDArray[np.int64]  # (R,) of each record's run in the file
    offsets: NDArray[np.int64]  # (R + 1,) of each record's lines in the cohort

    def read(self, start: int, stop: int) -> NumericLines:
        """Lines start:stop, (stop - start,) each column. Raises CohortError if the file cannot be read."""
        packed = np.empty(stop - start, LINE)
        for lines, place in self._runs(start, stop):
            self.file.read_into(packed[lines], place)
        return NumericLines(*(np.ascontiguousarray(packed[name]) for name in COLUMNS))

    def _runs(self, start: int, stop: int) -> Iterator[tuple[slice, int]]:
        """Which lines, counted from `start`, stand together in the file, and at which line of it."""
        first, lengths = records_of(self.offsets, start, stop)
        records = slice(first, first + len(lengths))
        shift = self.starts[records] - self.offsets[records]  # is equal where records stand together
        heads = np.flatnonzero(np.diff(shift)) + 1
        begins = [0, *np.cumsum(lengths)[heads - 1].tolist()]
        moves = shift[[0, *heads]].tolist() if len(shift) else []
        for begin, end, move in zip(begins, [*begins[1:], stop - start], moves, strict=False):
            yield slice(begin, end), start + begin + move


class _Unnamed:
    """Packed lines in an open temporary file, which is closed when nobody holds it any more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __del__(self) -> None:
        self._file.close()

    def append(self, lines: NumericLines) -> None:
        packed = np.empty(len(lines), LINE)
        for name in COLUMNS:
            packed[name] = getattr(lines, name)
        self._file.write(packed.data)
        self._file.flush()

    def read_into(self, packed: NDArray[np.void], place: int) -> None:
        """Fill `packed` with the lines from `place` on; threads may do so at once."""
        left, at = memoryview(packed.view(np.uint8).data), place * LINE.itemsize
        try:
            while left:
                count = os.preadv(self._file.fileno(), [left], at)
                if count == 0:
                    raise OSError(errno.EIO, "cut short")
                left, at = left[count:], at + count
        except OSError as error:
            raise CohortError(f"the temporary file of a large cohort cannot be read: {error.strerror}") from error
