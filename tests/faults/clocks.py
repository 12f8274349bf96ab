"""Times at the ends of what their types hold, and marks of byte order before what they stand before."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from tests.faults.hostile import pick
from tests.faults.mutations import Draw
from tests.faults.row import Row

MAPPING = """source = "t.parquet"
kind = "long"
[columns]
record = "r"
time = "t"
variable = "c"
value = "v"
[time]
unit = "{unit}"
origin = "{origin}"
[variables.HR]
unit = "bpm"
"""
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
HOUR, STAY = 3_600 * 10**6, 48  # microseconds, hours
FIRST, LAST = (
    int((each - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))
    for each in (datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
)


def ends_of(draw: Draw, kind: pa.DataType, ticks_an_hour: float) -> list[int | None]:
    """Whole numbers of a type's bits: both ends, near them, around 0, and at every power of ten."""
    bits = np.iinfo(np.int32 if kind == pa.date32() else np.int64)
    near = [round(hours * ticks_an_hour) for hours in range(5)]
    powers = [sign * 10**n for n in range(19) for sign in (1, -1)]
    known = [bits.min, bits.min + 1, bits.max, bits.max - 1, None, *near, *powers]
    chosen = draw.choice(len(known), int(draw.integers(2, 12)), replace=False)
    return [v for i in chosen if (v := known[i]) is None or bits.min <= v <= bits.max]


def expected(microseconds: list[int | None], from_first: bool) -> tuple[int, int, int]:
    """How many are readings, outside the stay, and no times, in whole numbers of any size."""
    bad = sum(m is None or (from_first and not FIRST <= m <= LAST + 24 * HOUR) for m in microseconds)
    times = [m for m in microseconds if m is not None and (not from_first or FIRST <= m <= LAST + 24 * HOUR)]
    start = min(times, default=0) if from_first else 0
    kept = sum(0 <= m - start <= STAY * HOUR for m in times)
    return kept, len(times) - kept, bad


def times_at_the_ends(draw: Draw, folder: Path) -> str | None:
    """Every row is a reading, outside the stay or no time, as whole numbers of any size have it."""
    unit = pick(draw, *PER_SECOND)
    kinds = (pa.timestamp(unit), pa.timestamp(unit, "UTC"), pa.date32(), pa.date64(), pa.duration(unit))
    kind = kinds[int(draw.integers(len(kinds)))]
    per_second = {pa.date32(): 1 / 86_400, pa.date64(): 1000}.get(kind, PER_SECOND[unit])
    counts = ends_of(draw, kind, 3_600 * per_second)
    if not counts:
        return None
    if kind in (pa.timestamp("s"), pa.timestamp("s", "UTC")):  # which Parquet keeps in milliseconds
        counts = [c if c is None else int(np.sign(c)) * (abs(c) // 1_000) for c in counts]
    bits = pa.int32() if kind == pa.date32() else pa.int64()
    if kind == pa.date64():  # whole days of milliseconds
        counts = [c if c is None else c - c % 86_400_000 for c in counts if c is None or c > -(2**63) + 86_400_000]
    wanted = expected(
        [c if c is None else c * 86_400 * 10**6 if kind == pa.date32() else c * 10**6 // per_second for c in counts],
        kind != pa.duration(unit),
    )
    columns = {"r": ["p"] * len(counts), "t": pa.array(counts, bits).view(kind), "c": ["HR"] * len(counts)}
    table = pa.table(columns | {"v": [60.0 + i for i in range(len(counts))]})
    pq.write_table(table, folder / "t.parquet")
    from_first = kind != pa.duration(unit)
    form = {"unit": "timestamp", "origin": "first"} if from_first else {"unit": "hours", "origin": "admission"}
    (folder / "m.toml").write_text(MAPPING.format(**form))
    found = counted(read_cohort(folder / "m.toml", cache=False))
    return None if found == wanted else f"{kind}: {found}, not {wanted}, of {counts}"


def counted(cohort: Cohort) -> tuple[int, int, int]:
    names = ("n_reading", "n_outside_stay", "n_bad_time")
    kept, outside, bad = (sum(cohort.records.column(name).to_pylist()) for name in names)
    return kept, outside, bad


def a_mark_of_byte_order(draw: Draw, folder: Path) -> str | None:
    """A text with such a mark is read as the same text without, by the mapping that is drafted of it."""
    found = []
    quote, end, delimiter = pick(draw, '"', ""), pick(draw, "\n", "\r\n"), pick(draw, ",", ";", "\t")
    encoding = pick(draw, "utf-8-sig", "utf-8-sig", "utf-16")
    table = [("stay_id", "hours", "parameter", "value")]
    table += [(str(stay), str(hour), "HR", str(60 + hour)) for stay, hour in itertools.product(range(1, 6), range(24))]
    text = end.join(delimiter.join(f"{quote}{cell}{quote}" for cell in row) for row in [*table, ()])
    for name, how in (("plain", "utf-8"), ("marked", encoding)):
        (folder / f"{name}.csv").write_bytes(text.encode(how))
        drafted = draft(guess(folder / f"{name}.csv"), folder)
        (folder / f"{name}.toml").write_text(drafted)
        found.append((read_cohort(folder / f"{name}.toml", cache=False), drafted))
    (plain, _), (marked, drafted) = found
    if '\\"' in drafted or "\ufeff" in drafted:
        return "a name of the draft holds a quote or the mark"
    return None if counted(plain) == counted(marked) == (120, 0, 0) else f"{counted(marked)}, not {counted(plain)}"


ROWS: tuple[Row, ...] = (
    Row(
        "times at both ends of every temporal type of Parquet",
        "a reading, outside the stay or no time, as whole numbers of any size have it",
        times_at_the_ends,
        60,
        1_500,
    ),
    Row(
        "a byte order mark before a header, quoted or not",
        "the same names, the same readings",
        a_mark_of_byte_order,
        10,
        200,
    ),
)
