"""How much memory it takes to go through a cohort: `python -m benchmarks.memory COHORT`.

Peak resident memory of two processes, the cache in a folder of its own: the first reads the record files, the second
opens what the first cached; both then put every window of 4,096 records through a preprocessor.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from levyscreen.config import OURS
from levyscreen.records.cache import FOLDER_VARIABLE, read_cohort
from levyscreen.records.cohort import WINDOW_RECORDS
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.variables import PHYSIONET2012


def main(cohort: str) -> None:
    """Run both processes."""
    with tempfile.TemporaryDirectory() as folder:
        for what in ("cold", "warm"):
            command = [sys.executable, "-m", "benchmarks.memory", cohort, what]
            subprocess.run(command, check=True, env={**os.environ, FOLDER_VARIABLE: folder})


def measure(path: str, what: str) -> None:
    """Go through a cohort and print what it took."""
    size = len(PHYSIONET2012)
    preprocessor = Preprocessor(PHYSIONET2012, OURS, (0.0,) * size, (1.0,) * size)
    before, start = _peak(), time.perf_counter()
    cohort = read_cohort(path)
    read, opened = _peak(), time.perf_counter()
    readings = sum(len(preprocessor.apply(part).value) for _, part in cohort.windows(WINDOW_RECORDS))
    end = time.perf_counter()
    metadata = (cohort.records.nbytes + cohort.rejects.nbytes + cohort.offsets.nbytes) >> 20
    print(f"{path}, {what}: {len(cohort):,} records, {readings:,} readings")
    print(f"peak MiB: {before} at the start, {read} when it was read, {_peak()} at the end, {metadata} of it metadata")
    print(f"seconds: {opened - start:.2f} to read it, {end - opened:.2f} to go through it")


def _peak() -> int:
    bytes_each = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_each >> 20


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m benchmarks.memory COHORT")
    main(sys.argv[1]) if len(sys.argv) == 2 else measure(*sys.argv[1:])
