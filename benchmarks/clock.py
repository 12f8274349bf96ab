"""Times that can be compared: what is compared runs in turn, after a warm-up, and medians are taken."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from levyscreen import machine

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """One run."""
    machine.settle()
    start = time.perf_counter()
    work()
    machine.settle()
    return time.perf_counter() - start


def median(work: Work, runs: int, before: Work | None = None) -> float:
    """Median of `runs` after one that warms up; `before` each, untimed."""
    times = []
    for _ in range(runs + 1):
        if before is not None:
            before()
        times.append(seconds(work))
    return statistics.median(times[1:])


def in_turn(works: Sequence[Work], runs: int) -> tuple[list[float], list[float]]:
    """Median of each, and the median ratio of each to the first one's run beside it: A B C A B C ..."""
    for work in works:
        work()
    rounds = [[seconds(work) for work in works] for _ in range(runs)]
    columns = list(zip(*rounds, strict=True))
    ratios = [[own / first for own, first in zip(column, columns[0], strict=True)] for column in columns]
    return [statistics.median(c) for c in columns], [statistics.median(r) for r in ratios]
