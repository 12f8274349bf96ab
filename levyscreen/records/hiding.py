"""Which of a record's readings are hidden as targets: a function of (seed, record id) and its readings alone.

Every reading gets a hash of (seed, record id, place among the record's readings in canonical order); the smallest ones
are hidden. So neither the order of files, nor the other records, nor a batch has any say, and no loop runs over
records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.readings import Readings

    Share = float | NDArray[np.float64]


def hidden_count(n: NDArray[np.int64], hide: Share, most: int | None = None) -> NDArray[np.int64]:
    """floor(hide n), at most `most`; exact for decimal fractions such as 0.3 (0.3 * 10 is 3, not 2.9999)."""
    count = np.floor(np.round(n * hide, 9)).astype(np.int64)
    return count if most is None else np.minimum(count, most)


def fold_count(hide: float) -> int:
    """Disjoint hidings of a share that a record has room for; over them nearly every reading is hidden once."""
    return int(round(1 / hide, 9))


def choose(readings: Readings, count: NDArray[np.int64], seed: int, fold: int = 0) -> NDArray[np.bool_]:
    """Marks `count` (R,) readings of each record, chosen from (seed, record id): (N,) bool.

    Readings that may be no target come last. Other folds of one seed mark other readings, as long as there are any.
    """
    lengths = readings.lengths
    start = np.repeat(readings.offsets[:-1], lengths)
    place = np.arange(len(readings.time)) - start
    by_record = _mix(np.uint64(seed) + _GOLDEN, readings.record_id.astype(np.uint64))  # (R,)
    key = _mix(by_record.repeat(lengths), place.astype(np.uint64))
    record = np.repeat(np.arange(len(readings)), lengths)
    order = np.lexsort((key, ~readings.may_be_target, record))
    chosen = np.empty(len(key), dtype=bool)
    count = np.repeat(count, lengths)
    chosen[order] = (place >= fold * count) & (place < (fold + 1) * count)
    return chosen


def hide(readings: Readings, fraction: Share, seed: int, most: int | None = None, fold: int = 0) -> NDArray[np.bool_]:
    """True for each hidden target, (N,); `fraction` is of all records, or of each, (R,)."""
    return choose(readings, hidden_count(targets_of(readings), fraction, most), seed, fold)


def targets_of(readings: Readings) -> NDArray[np.int64]:
    """Readings of each record that may be held out, (R,)."""
    return np.diff(np.concatenate([[0], np.cumsum(readings.may_be_target)])[readings.offsets])


def subsample(readings: Readings, most: int | None, seed: int = 0) -> Readings:
    """Records with more than `most` readings reduced to that many, chosen from the record id."""
    if most is None or readings.lengths.max(initial=0) <= most:
        return readings
    return readings.keep(choose(readings, np.minimum(readings.lengths, most), seed + 2**32))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(state: NDArray[np.uint64] | np.uint64, word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of splitmix64 (Steele, Lea and Flood, 2014) over state and word."""
    with np.errstate(over="ignore"):
        z = state * _GOLDEN + word + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
