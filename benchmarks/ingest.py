"""How long it takes to open a cohort: `python -m benchmarks.ingest COHORT`.

Cold is from the record files to the Parquet cache, warm a second reading, and beside them a loop of pandas.read_csv
over the files: all in one run, the cache in a folder of its own. An archive is unpacked for it first.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.clock import median
from benchmarks.table import Row, markdown
from levyscreen.records.cache import FOLDER_VARIABLE, clear_cache, read_cohort

RUNS = 3


def rows(cohort: Path) -> list[Row]:
    """Cold, warm, and pandas file by file; the ceiling is to open and read the files and nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = cohort if cohort.is_dir() else _unpacked(cohort, Path(scratch) / "cohort")
        before = os.environ.get(FOLDER_VARIABLE)
        os.environ[FOLDER_VARIABLE] = str(Path(scratch) / "cache")
        try:
            cold = median(lambda: read_cohort(folder), RUNS, before=clear_cache)
            warm = median(lambda: read_cohort(folder), RUNS)
        finally:
            os.environ.pop(FOLDER_VARIABLE)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before
        loop = median(lambda: read_with_pandas(folder), 1)
        files = sorted(folder.glob("*.txt"))
        bytes_alone = median(lambda: [path.read_bytes() for path in files], RUNS)
    return [
        Row(f"ingest of {len(files):,} files, cold, to the cache", cold, ceiling=bytes_alone),
        Row("ingest warm, from the cache", warm, "ingest cold", warm / cold),
        Row("pandas.read_csv, file by file", loop, "ingest cold", loop / cold),
    ]


def _unpacked(archive: Path, folder: Path) -> Path:
    shutil.unpack_archive(archive, folder, filter="data")
    return next(path.parent for path in folder.rglob("*.txt"))


def read_with_pandas(folder: Path) -> pd.DataFrame:
    """What the record files hold, unchecked: the loop that a script would have."""
    frames = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.txt"))}
    return pd.concat(frames, names=["record"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.ingest COHORT")
    print(markdown(rows(Path(sys.argv[1]))))
