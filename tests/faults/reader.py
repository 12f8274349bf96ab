"""Record files with every oddity."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from levyscreen.errors import RecordError
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.grammar import body_of
from levyscreen.records.lines import read_lines, read_lines_one_by_one
from levyscreen.variables import PHYSIONET2012
from tests.conftest import SAMPLE
from tests.faults.mutations import Draw, mutated
from tests.faults.row import Row
from tests.records.record_files import accounts, slow_cohort, write_folder

SMALL = 6_000  # bytes of the sample's files that are read again and again


@cache
def sample() -> dict[str, bytes]:
    """The short files of the sample."""
    files = {path.name: path.read_bytes() for path in sorted(SAMPLE.iterdir())}
    return {name: data for name, data in files.items() if len(data) < SMALL}


def some(draw: Draw, count: int) -> dict[str, bytes]:
    """A few real record files."""
    return {str(name): sample()[str(name)] for name in draw.choice(sorted(sample()), count, replace=False)}


def unlike(cohort: Cohort, files: dict[str, bytes]) -> str | None:
    """Where a cohort is not what plain Python makes of its files: none missing, no line lost, none let in."""
    found, expected = accounts(cohort), slow_cohort(files, PHYSIONET2012)
    if found.keys() != expected.keys():
        return f"{len(found)} records of {len(expected)} files"
    wrong = [name for name in files if found[name] != expected[name]]
    return f"{wrong[0]} is read as something else" if wrong else None


# Rows ---------------------------------------------------------------------------------------------------------------


def a_mutated_file(draw: Draw, folder: Path) -> str | None:
    files = some(draw, 4)
    victim, other = list(files)[:2]
    files[victim] = mutated(draw, files[victim], files[other])
    cohort = read_cohort(write_folder(folder / "set", files), cache=False)
    return unlike(cohort, files) or _two_paths(files[victim])


def _two_paths(data: bytes) -> str | None:
    """Whether the fast path and the careful one see the same lines, numbers included."""
    try:
        body = body_of(data)
    except RecordError:
        return None
    fast, careful = read_lines([body], PHYSIONET2012), read_lines_one_by_one({0: body}, PHYSIONET2012)
    fine = careful.refusal == 0
    same = np.array_equal(fast.number, careful.number) and np.array_equal(fast.refusal, careful.refusal)
    same &= all(np.array_equal(getattr(fast, f)[fine], getattr(careful, f)[fine]) for f in ("minutes", "code", "value"))
    return None if same else "the fast path and the careful one differ"


ROWS: tuple[Row, ...] = (
    Row(
        "a record file damaged in any way",
        "every line of every file counted once, the other files untouched; fast, careful and naive reader agree",
        a_mutated_file,
        50,
        2000,
    ),
)
