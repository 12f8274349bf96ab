"""Made-up cohorts of any size: `python -m benchmarks.synthetic OUT --records 200000 [--readings 120] [--seed 0]`.

OUT is a folder of record files, or a plain .tar of one where it ends in .tar. No patient is real and no value means
anything: values are drawn around the middle of each variable's plausible range, times evenly over the stay. It is for
measuring time and memory, never for training or judging a model.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levyscreen.variables import PHYSIONET2012

FIRST_ID = 200_001
SHORTEST, LONGEST = 30, 2.5  # readings; times the mean number of them
AT_ONCE = 2000  # records
LEVELS = 500  # different values of a variable

HEADER = "Time,Parameter,Value"
CLOCK = np.array([f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(48 * 60 + 1)])


def main(argv: list[str]) -> None:
    """Write the cohort that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="benchmarks.synthetic", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--readings", type=int, default=120, help="of a record, on average")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(argv)
    files = record_files(chosen.records, chosen.readings, chosen.seed)
    if chosen.out.suffix == ".tar":
        write_tar(chosen.out, files)
    else:
        write_folder(chosen.out, files)


def record_files(records: int, readings: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each record file; the same arguments give the same bytes."""
    generator = np.random.default_rng(seed)
    texts = _texts(generator)
    for start in range(0, records, AT_ONCE):
        count = min(AT_ONCE, records - start)
        lengths = _lengths(generator, count, readings)
        record = np.repeat(np.arange(count), lengths)
        minute = generator.integers(0, 48 * 60 + 1, len(record))
        minute = minute[np.lexsort((minute, record))]
        variable = generator.integers(0, len(PHYSIONET2012), len(record))
        level = generator.integers(0, LEVELS, len(record))
        lines = np.char.add(CLOCK[minute], texts[variable, level])
        facts = _facts(generator, count)
        for row, of_record in enumerate(np.split(lines, np.cumsum(lengths)[:-1])):
            record_id = FIRST_ID + start + row
            text = "\n".join([HEADER, f"00:00,RecordID,{record_id}", *facts[row], *of_record.tolist(), ""])
            yield f"{record_id}.txt", text.encode()


def _lengths(generator: np.random.Generator, count: int, mean: int) -> NDArray[np.int64]:
    """Readings of each record: skewed as stays are, between the shortest and the longest."""
    drawn = SHORTEST + generator.gamma(2.0, max(mean - SHORTEST, 1) / 2, count)
    return np.minimum(drawn, LONGEST * mean).astype(np.int64)


def _texts(generator: np.random.Generator) -> NDArray[np.str_]:
    """The end of a line for each variable and level, (V, LEVELS)."""
    share = np.clip(generator.normal(0.4, 0.1, LEVELS), 0, 1)
    return np.array(
        [
            [f",{v.name},{round((v.low or 0) + s * ((v.high or 1) - (v.low or 0)), 2):g}" for s in share]
            for v in PHYSIONET2012.variables
        ]
    )


def _facts(generator: np.random.Generator, count: int) -> list[list[str]]:
    """The descriptor lines of each record."""
    columns = {
        "Age": generator.integers(16, 91, count),
        "Gender": generator.integers(0, 2, count),
        "Height": np.where(generator.random(count) < 0.5, -1, generator.integers(150, 200, count)),
        "ICUType": generator.integers(1, 5, count),
        "Weight": np.where(generator.random(count) < 0.1, -1, generator.integers(45, 130, count)),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [[f"00:00,{name},{value}" for name, value in zip(columns, row, strict=True)] for row in rows]


def write_folder(folder: Path, files: Iterator[tuple[str, bytes]]) -> None:
    """A file for each record; the folder must be new."""
    folder.mkdir(parents=True)
    for name, data in files:
        (folder / name).write_bytes(data)


def write_tar(path: Path, files: Iterator[tuple[str, bytes]]) -> None:
    """A member for each record; the archive must be new."""
    with tarfile.open(path, "x", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            member = tarfile.TarInfo(f"{path.stem}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            archive.members.clear()  # or it keeps every header


if __name__ == "__main__":
    main(sys.argv[1:])
