"""Independent pieces of work side by side: a thread a core, each with single-threaded tensor operations.

Splitting every operation over the cores instead makes them wait for each other after each, thousands of times a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(work: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """`work` of each item, in their order; on a CPU as many at a time as torch has threads, elsewhere one by one.

    Items are taken only shortly before they are worked on, so memory is that of a few of them. An exception of `work`
    comes out where its result would have.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "levyscreen", _single_threaded) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # what a worker set holds for threads that start later, too


def _single_threaded() -> None:
    """Both settings are a thread's own."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
