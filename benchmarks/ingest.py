"""How long it takes to open a cohort: `python -m benchmarks.ingest COHORT`.

Cold is from the record files to the Parquet cache, warm a second reading, and beside them a loop of pandas.read_csv
over the files: all in one run, the cache in a folder of its own, medians of three.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from levyscreen.records.cache import FOLDER_VARIABLE, clear_cache, read_cohort

RUNS = 3


def main(cohort: str) -> None:
    """Print the three times and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        lines = read_cohort(cohort).records.column("n_lines").to_numpy().sum()
        cold = _median(lambda: read_cohort(cohort), before=clear_cache)
        warm = _median(lambda: read_cohort(cohort))
    print(f"{cohort}: {lines:,} lines, medians of {RUNS}")
    print(f"cold, to the Parquet cache   {cold:7.3f} s   {lines / cold / 1e6:6.2f} million lines a second")
    print(f"warm, from the cache         {warm:7.3f} s   {cold / warm:6.1f} times faster than cold")
    if Path(cohort).is_dir():
        loop = _median(lambda: read_with_pandas(Path(cohort)))
        print(f"pandas.read_csv, file by file{loop:7.3f} s   {loop / cold:6.1f} times slower than cold")


def _median(work: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    times = []
    for _ in range(RUNS):
        if before is not None:
            before()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def read_with_pandas(folder: Path) -> pd.DataFrame:
    """What the record files hold, unchecked: the loop that a script would have."""
    frames = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.txt"))}
    return pd.concat(frames, names=["record"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.ingest COHORT")
    main(sys.argv[1])
