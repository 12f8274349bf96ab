"""Chooses the hundred records of examples/set-b-sample from PhysioNet 2012 set-b, and copies them byte for byte.

    python examples/make_sample.py SET_B examples/set-b-sample

SET_B is the folder set-b, or its archive set-b.tar.gz. The rule: put all records in the order of the SHA-256 of their
id, which has nothing to do with what is in them, and take the first of each kind until QUOTA is full.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np

from levyscreen.errors import LevyscreenError
from levyscreen.records.archives import open_source, read_source
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.types import LineClass

# Kind, fewest and most readings, records taken. In all of set-b the kinds have 7, 3, 3,388 and 602 records.
QUOTA = (
    ("empty", 0, 0, 1),
    ("nearly empty", 1, 19, 1),
    ("usual", 20, 512, 95),
    ("long", 513, None, 3),
)


def count_readings(cohort: Cohort) -> np.ndarray:
    """Readings a record, (R,), repaired ones included."""
    usable = np.isin(cohort.line_class, (LineClass.READING, LineClass.REPAIRED))
    return np.diff(np.concatenate([[0], np.cumsum(usable)])[cohort.offsets])


def choose(record_id: np.ndarray, readings: np.ndarray) -> np.ndarray:
    """Rows of the sample."""
    order = np.array(sorted(range(len(record_id)), key=lambda row: by_hash(record_id[row])))
    chosen = []
    for kind, fewest, most, wanted in QUOTA:
        of_kind = order[(readings[order] >= fewest) & (readings[order] <= (np.inf if most is None else most))]
        if len(of_kind) < wanted:
            raise SystemExit(f"{wanted} {kind} records are needed, the cohort has {len(of_kind)}: is it all of set-b?")
        chosen.append(of_kind[:wanted])
    return np.concatenate(chosen)


def by_hash(record_id: int) -> str:
    """What a record is ordered by."""
    return hashlib.sha256(str(int(record_id)).encode()).hexdigest()


def copy(source: str, names: set[str], target: Path) -> None:
    """Writes the named record files; nothing else may stand in the target."""
    target.mkdir(parents=True, exist_ok=True)
    others = sorted(p.name for p in target.iterdir() if p.name not in names)
    if others:
        raise SystemExit(f"{target} holds {len(others)} other files, for instance {others[0]}: give an empty folder")
    for record in read_source(open_source(source)):
        if record.name in names:
            (target / record.name).write_bytes(record.data)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    source, target = arguments[0], Path(arguments[1])
    cohort = read_cohort(source, cache=False)
    rows = choose(cohort.records.column("record_id").to_numpy(), count_readings(cohort))
    names = cohort.records.column("file").take(rows).to_pylist()
    copy(source, set(names), target)
    print(f"{len(names)} records in {target}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LevyscreenError as error:
        raise SystemExit(str(error)) from None
