"""Tables that somebody edited: Parquet cohorts, and the one CSV file of a data set."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort, write_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.parquet import CHECKSUMS, FILES, FOOTER_KEY
from levyscreen.records.ushcn import COLUMNS, read_ushcn
from tests.faults.hostile import pick
from tests.faults.mutations import Draw, mutated
from tests.faults.row import Row
from tests.records.record_files import record, same, write_folder

READINGS, RECORDS = "readings.parquet", "records.parquet"
Edit = Callable[[Draw, pa.Table], pa.Table]


@cache
def sound() -> tuple[Cohort, dict[str, bytes]]:
    """A small cohort, and the files it is written to."""
    hours = [f"{h:02d}:00,{name},{60 + h}" for h in range(20) for name in ("HR", "MAP", "Temp")]
    texts = {f"{i}.txt": record(i, *hours[: 9 * (i - 5)], "00:07,pH,735", "00:08,HR,x") for i in range(5, 10)}
    with tempfile.TemporaryDirectory() as folder:
        cohort = read_cohort(write_folder(Path(folder) / "set", {**texts, "x.txt": "x"}), cache=False)
        write_cohort(cohort, Path(folder) / "out")
        return cohort, {path.name: path.read_bytes() for path in (Path(folder) / "out").iterdir()}


def _column(draw: Draw, table: pa.Table) -> int:
    return int(draw.integers(table.num_columns))


def without_a_column(draw: Draw, table: pa.Table) -> pa.Table:
    return table.remove_column(_column(draw, table))


def of_another_type(draw: Draw, table: pa.Table) -> pa.Table:
    i = _column(draw, table)
    own = table.field(i).type
    kind = pa.large_string() if pa.types.is_string(own) else pa.int64() if pa.types.is_timestamp(own) else pa.float64()
    other = pa.float32() if own == kind else kind
    return table.set_column(i, table.field(i).name, table.column(i).cast(other, safe=False))


def with_another_value(draw: Draw, table: pa.Table) -> pa.Table:
    """None, or one that no reader writes, in a cell that a reader relies on."""
    facts = ("age", "gender", "height", "icu_type", "weight", "problem", "subject_id", "origin")
    relied = [n for n in table.column_names if n not in facts]
    name = relied[int(draw.integers(len(relied)))]
    values, kind = table.column(name).to_pylist(), table.schema.field(name).type
    bad: tuple[Any, ...] = (None, float("nan"), float("inf"), -1.0)  # not 1e9: of an implausible line it may be true
    if pa.types.is_integer(kind):
        bad = (None, 200) if kind == pa.uint8() else (None, -1) if name == "record_id" else (None, -1, 200)
    elif kind == pa.string():
        bad = (None,)
    values[int(draw.integers(len(values)))] = bad[int(draw.integers(len(bad)))]
    return table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values, kind))


def out_of_order(draw: Draw, table: pa.Table) -> pa.Table:
    return table.take(draw.permutation(len(table)))


def without_rows(draw: Draw, table: pa.Table) -> pa.Table:
    keep = draw.random(len(table)) < 0.7
    keep[0] = False  # the last of RECORDS has no line that would miss it
    return table.filter(pa.array(keep))


def with_rows_twice(draw: Draw, table: pa.Table) -> pa.Table:
    return table.take(np.sort(np.append(np.arange(len(table)), draw.integers(len(table), size=3))))


def with_other_facts(draw: Draw, table: pa.Table) -> pa.Table:
    """Another footer: no JSON, another version, a name that leads away, variables that are none."""
    facts = json.loads(table.schema.metadata[FOOTER_KEY])
    texts = ("", "[]", "[" * 5000, "null", "{}", "\xff", json.dumps({**facts, "format_version": 99}))
    one = str(draw.choice(list(facts)))
    other = [None, [], {}, 7, "../../x", "/etc", [1]][int(draw.integers(7))]
    text = json.dumps({**facts, one: other}) if draw.integers(2) else pick(draw, *texts)
    return table.replace_schema_metadata({FOOTER_KEY: text.encode("latin-1")})


EDITS: tuple[Edit, ...] = (
    *(without_a_column, of_another_type, with_another_value, out_of_order, without_rows, with_rows_twice),
    with_other_facts,
)


def an_edited_parquet_cohort(draw: Draw, folder: Path) -> str | None:
    """A table edited, and the checksums made anew by whoever did; or bytes changed, and the checksums as they were."""
    cohort, files = sound()
    where = write_folder(folder / "kept", files)
    if draw.integers(4) == 0:
        name = str(draw.choice(sorted(files)))
        (where / name).write_bytes(mutated(draw, files[name], files[RECORDS], 1))
        what = f"bytes of {name}"
    else:
        name, edit = pick(draw, READINGS, READINGS, RECORDS), EDITS[int(draw.integers(len(EDITS)))]
        pq.write_table(edit(draw, pq.read_table(where / name)), where / name)
        sums = [f"{hashlib.blake2b((where / n).read_bytes()).hexdigest()}  {n}\n" for n in FILES]
        (where / CHECKSUMS).write_text("".join(sums))
        what = f"{name} {edit.__name__.replace('_', ' ')}"
    try:
        found = read_cohort(where, cache=False)
    except CohortError as error:
        return None if str(where) in str(error) else f"{what}: an error that names no folder: {error}"
    if not same(found, cohort):
        return f"{what}: taken for sound"
    return None if (folder / found.name).parent == folder and found.name else f"{what}: a name that leads away"


# One CSV ------------------------------------------------------------------------------------------------------------


def series(draw: Draw) -> bytes:
    """A few series of USHCN, as its file has them."""
    rows = [",".join(COLUMNS)]
    for i in range(3):
        for time in np.unique(draw.uniform(0, 200, 8).round(2)):
            mask = draw.integers(2, size=5)
            value = (draw.normal(size=5) * mask).round(3)
            rows.append(",".join([f"{i}.0", str(time), *map(str, value), *(f"{m}.0" for m in mask)]))
    return "\n".join([*rows, ""]).encode()


def slow_series(data: bytes) -> list[tuple[Any, ...]] | None:
    """(series, time, variable, value) of every observed value; None for a file that is none of USHCN."""
    try:
        lines = re.split("\r\n|\r|\n", data.decode())
    except UnicodeDecodeError:
        return None
    lines = lines[:-1] if not lines[-1] else lines
    if lines[:1] != [",".join(COLUMNS)] or len(lines) < 2:
        return None
    found, last = [], (-1.0, -1.0)
    for line in lines[1:]:
        cells = [cell.strip(" \t") for cell in line.split(",")]
        if len(cells) != len(COLUMNS) or not all(NUMBER.fullmatch(cell) for cell in cells):
            return None
        one, time, *rest = map(float, cells)
        masks, values = rest[5:], rest[:5]
        fine = one % 1 == 0 and one >= 0 and 0 <= time <= 200 and set(masks) <= {0.0, 1.0} and (one, time) > last
        if not fine or not np.isfinite(values).all() or one > 2**53:
            return None
        found += [(int(one), float(np.float32(time)), v, values[v]) for v in range(5) if masks[v]]
        last = (one, time)
    return found


NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def an_edited_ushcn_file(draw: Draw, folder: Path) -> str | None:
    path = folder / pick(draw, "series.csv", "series.csv.gz")
    data = series(draw)
    data = mutated(draw, data, series(draw), 2)
    packed = gzip.compress(data) if path.suffix == ".gz" else data
    if path.suffix == ".gz" and draw.integers(4) == 0:
        packed, data = mutated(draw, packed, packed, 1), b""
    path.write_bytes(packed)
    try:
        cohort = read_ushcn(path)
    except CohortError as error:
        expected = slow_series(data)
        return None if str(path) in str(error) and expected is None else f"refused: {error}"
    record_id = np.repeat(cohort.records.column("record_id").to_numpy(), np.diff(cohort.offsets))
    columns = (record_id.tolist(), cohort.time_hours.tolist(), cohort.variable.tolist(), cohort.value.tolist())
    found = list(zip(*columns, strict=True))
    expected = slow_series(gzip.decompress(packed) if path.suffix == ".gz" else packed)
    return None if found == expected else "read as something else"


ROWS = (
    Row(
        "a Parquet cohort edited: columns, types, nulls, values, order, counts, footer, bytes",
        "refused by its folder's name, or the same cohort",
        an_edited_parquet_cohort,
        80,
        1500,
    ),
    Row(
        "a USHCN file damaged in any way",
        "refused by its name, or what a naive reader makes of it",
        an_edited_ushcn_file,
        80,
        1500,
    ),
)
