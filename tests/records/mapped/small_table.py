"""A small long table with its mapping, and what is read of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from tests.records.mapped_files import LONG_HEAD

VARIABLES = """
[variables.HR]
unit = "bpm"
low = 1
high = 295
[variables.Temp]
codes = ["tc"]
unit = "degC"
low = 25
high = 45
also = [{ codes = ["tf"], factor = 0.5555555555555556, offset = -17.77777777777778 }]
"""
LONG = (
    LONG_HEAD
    + """
[time]
unit = "hours"
[descriptors]
age = { codes = ["Age"] }
[ignore]
codes = ["note"]
"""
)


def written(folder: Path, rows: list[Any], head: str = LONG, name: str = "t.csv", delimiter: str = ",") -> Path:
    """A mapping and its CSV table, header first."""
    with (folder / name).open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    (folder / "m.toml").write_text(head + VARIABLES)
    return folder / "m.toml"


def read(folder: Path, rows: list[Any], head: str = LONG, header: str = "id,t,what,x") -> Cohort:
    return read_cohort(written(folder, [header.split(","), *rows], head), cache=False)


def column(cohort: Cohort, name: str) -> list[Any]:
    return cohort.records.column(name).to_pylist()


def by_name(cohort: Cohort) -> list[tuple[Any, ...]]:
    """Every line, its variable by name: a mapping has an order of its own."""
    lines, names = cohort.load(), np.array(cohort.variables.names)
    record = np.repeat(cohort.records.column("record_id").to_numpy(), np.diff(cohort.offsets)).tolist()
    named = names[lines.variable].tolist()
    return sorted(
        zip(record, lines.time_hours.tolist(), named, lines.value.tolist(), lines.line_class.tolist(), strict=True)
    )
