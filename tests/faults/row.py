"""A row of the fault matrix, and how it is run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Attempt = Callable[[np.random.Generator, Path], str | None]


@dataclass(frozen=True)
class Row:
    """One fault: an attempt makes it happen once, in an empty folder, and says what went wrong, or None."""

    fault: str  # what happens
    must: str  # what must come of it
    attempt: Attempt
    short: int  # attempts in the tests
    long: int  # attempts by `make faults`


def failures(row: Row, attempts: int, first: int = 0) -> Iterator[tuple[int, str | None]]:
    """Each attempt's seed, and what went wrong in it; the seed alone decides what an attempt does."""
    for seed in range(first, first + attempts):
        folder = Path(tempfile.mkdtemp(prefix="levyscreen-faults-"))
        try:
            yield seed, row.attempt(np.random.default_rng(seed), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
