"""Records of many readings that say little: none may be ranked as if it were well observed.

`python -m tests.faults.uninformative` prints where each would rank in the sample, as Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np

from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.screen import screen
from levyscreen.store import Model, load_model
from levyscreen.variables import PHYSIONET2012
from tests.conftest import SAMPLE
from tests.faults.mutations import Draw
from tests.faults.row import Row
from tests.learn.tiny import cohort_of

Line = tuple[float, int, float]  # hours, variable, value
USUAL = {"HR": 80.0, "MAP": 75.0, "Temp": 37.0, "RespRate": 18.0, "SysABP": 120.0, "K": 4.0, "GCS": 14.0, "FiO2": 0.5}
CODES = {name: PHYSIONET2012.names.index(name) for name in USUAL}
ODD = 9_000_000


@cache
def sample() -> Cohort:
    return read_cohort(SAMPLE, cache=False)


@cache
def real(row: int) -> list[Line]:
    """A record of the sample, as lines."""
    part = sample().part(row, row + 1).load()
    return list(zip(part.time_hours.tolist(), part.variable.tolist(), part.value.tolist(), strict=True))


@cache
def long_records() -> list[int]:
    return np.flatnonzero(np.diff(sample().offsets) > 150).tolist()


def times(draw: Draw) -> np.ndarray:
    return np.arange(0, 48, draw.choice([1 / 6, 0.25, 0.5, 1]))


def names(draw: Draw, most: int) -> list[str]:
    return draw.choice(list(USUAL), int(draw.integers(1, most + 1)), replace=False).tolist()


def constants(draw: Draw) -> list[Line]:
    hours = times(draw)
    return [(t, CODES[name], USUAL[name]) for name in names(draw, len(USUAL)) for t in hours]


def few_values(draw: Draw) -> list[Line]:
    """Two to five values in turn: an alternation or a saw-tooth."""
    count, hours = int(draw.integers(2, 6)), times(draw)
    return [
        (t, CODES[name], USUAL[name] * (1 + 0.1 * (i % count)))
        for name in names(draw, len(USUAL))
        for i, t in enumerate(hours)
    ]


def one_variable(draw: Draw) -> list[Line]:
    hours = times(draw)
    return [(t, CODES["HR"], round(x)) for t, x in zip(hours, 80 + 10 * draw.standard_normal(len(hours)), strict=True)]


def one_time(draw: Draw) -> list[Line]:
    when = float(draw.uniform(0, 48))
    return [
        (when, CODES[name], USUAL[name] * (1 + 0.03 * i)) for name in USUAL for i in range(int(draw.integers(5, 9)))
    ]


def repeated(draw: Draw) -> list[Line]:
    """One stretch of a real record, again and again."""
    times_over = int(draw.integers(2, 6))
    length = 48 / times_over
    stretch = [line for line in real(int(draw.choice(long_records()))) if line[0] < length]
    return [(hours + k * length, variable, value) for k in range(times_over) for hours, variable, value in stretch]


KINDS: tuple[Callable[[Draw], list[Line]], ...] = (constants, few_values, one_variable, one_time, repeated)


@cache
def model() -> Model:
    return load_model()


def says_little(draw: Draw, folder: Path) -> str | None:
    """One of each kind beside real records, one of which is there under a second id as well."""
    others = draw.choice(long_records(), 3, replace=False).tolist()
    odd = [sorted(kind(draw)) for kind in KINDS]
    ids = [*range(1, 5), *range(ODD, ODD + len(odd))]
    whole = cohort_of([*map(real, [*others, others[0]]), *odd], ids, PHYSIONET2012)
    scores = screen(whole, model()).scores.set_index("record_id").sort_index()
    for kind, status in zip(KINDS, scores.loc[ODD:, "status"], strict=True):
        if status not in ("degenerate", "too_few"):
            return f"{kind.__name__}: {status}"
    if (scores.loc[[1, 2, 3, 4], "status"] != "scored").any():
        return "a real record is not ranked"
    own, copy = scores.loc[[1, 4], "uncertainty"]
    return None if 0.5 < copy / own < 2 else f"a copy of a patient: {copy:.3g} instead of {own:.3g}"


ROWS: tuple[Row, ...] = (
    Row(
        "a record that says little: constants, few values, one variable or time, a stretch repeated; a copied patient",
        "not ranked, status degenerate or too_few; the copy as uncertain as the patient",
        says_little,
        3,
        200,
    ),
)


def main() -> None:
    """The rank of each kind in the sample were it ranked, its uncertainty beside its error, and its status."""
    count = len(sample())
    whole = [real(row) for row in range(count)]
    ids = [*range(1, count + 1), ODD]
    print("| record | rank, if it were ranked | uncertainty | error | status |\n|-|-|-|-|-|")
    for kind in KINDS:
        cohort = cohort_of([*whole, sorted(kind(np.random.default_rng(0)))], ids, PHYSIONET2012)
        with mock.patch.object(sys.modules["levyscreen.screen"], "lacking", lambda r, _: np.zeros(len(r), bool)):
            scores = screen(cohort, model()).scores.set_index("record_id")
        status, odd = screen(cohort, model()).scores.set_index("record_id")["status"][ODD], scores.loc[ODD]
        ranked = int((scores["status"] == "scored").sum())
        name = kind.__name__.replace("_", " ")
        print(f"| {name} | {odd['trust_rank']} of {ranked} | {odd['uncertainty']:.3f} | {odd['mae']:.3f} | {status} |")


if __name__ == "__main__":
    main()
