"""Somebody's own tables, and the mappings that describe them, damaged: refused, or every value accounted for."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped.mapping import parse_mapping, read_mapping
from levyscreen.records.mapped.reading import read_mapped
from tests.faults.hostile import pick
from tests.faults.mutations import Draw, mutated
from tests.faults.row import Row
from tests.records.mapped_files import slow_long
from tests.records.record_files import accounts

MAPPING = """
source = "t.csv"
kind = "long"
horizon_hours = 48
[columns]
record = "id"
time = "t"
variable = "what"
value = "x"
[time]
unit = "hours"
[variables.HR]
unit = "bpm"
low = 1
high = 295
[variables.Temp]
codes = ["tc", "t c*"]
unit = "degC"
also = [{ codes = ["tf"], factor = 0.5555555555555556, offset = -17.77777777777778 }]
[descriptors]
age = { codes = ["Age"] }
gender = { codes = ["sex"], values = { F = 0, M = 1 } }
[ignore]
codes = ["note"]
"""
PLAIN = MAPPING.replace(', "t c*"', "").replace(", values = { F = 0, M = 1 }", "")  # what the slow twin knows
TOLD = PLAIN.replace('value = "x"', 'value = "x"\nunit = "u"').replace(
    'codes = ["tc"]', 'codes = ["tc"]\nunits = ["C"]'
)
TOLD = TOLD.replace('codes = ["tf"]', 'codes = ["tc", "tf"], units = ["F", "degF"]')
HEADER = ("id", "t", "what", "x")
CODES = ("HR", "HR", "tc", "tf", "Age", "sex", "note", "strange")
FIGURES = re.compile(r"([0-9,]+) (?:values?|rows?) (?:under codes|in rows|with another)")


def table(draw: Draw, rows: int = 60, told: bool = False) -> bytes:
    """A long table as hospitals export them: a few records, none of whose rows need stand together; units, or not."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*HEADER, "u") if told else HEADER)
    for _ in range(rows):
        hours, value = round(float(draw.uniform(-1, 50)), 2), round(float(draw.uniform(-1, 120)), 1)
        unit = (pick(draw, "C", "\u00b0F", "degC", "K", ""),) if told else ()
        writer.writerow((f"p{draw.integers(6)}", hours, CODES[int(draw.integers(len(CODES)))], value, *unit))
    return text.getvalue().encode()


def values_of(cohort: Cohort) -> int:
    """How many values a cohort accounts for: as lines of its records, or in notes on what it does not read."""
    lines = sum(sum(found[1].values()) for found in accounts(cohort).values() if found is not None)
    return lines + sum(int(n.replace(",", "")) for note in cohort.notes for n in FIGURES.findall(note))


def a_damaged_table(draw: Draw, folder: Path) -> str | None:
    """What a plain reading of the text finds is found, or the file is refused by its name."""
    told = bool(draw.integers(2))
    data = mutated(draw, table(draw, told=told), table(draw, told=told))
    (folder / "t.csv").write_bytes(data)
    (folder / "m.toml").write_text(TOLD if told else PLAIN)
    try:
        found = read_cohort(folder / "m.toml", cache=False)
    except CohortError as error:
        return None if "t.csv" in str(error) else f"an error that names no file: {error}"
    rows, malformed = slow_rows(data, (*HEADER, "u") if told else HEADER)
    said = sum(int(n.replace(",", "")) for note in found.notes for n in re.findall("([0-9,]+) rows? with", note))
    if said != malformed:
        return f"{said} rows of another number of fields, and there are {malformed}"
    within = sum(int(n.replace(",", "")) for note in found.notes for n in re.findall("([0-9,]+) lines? within", note))
    lines = len(re.findall(rb"[^\r\n]+", data.removeprefix(b"\xef\xbb\xbf")))
    if within != lines - 1 - len(rows) - malformed:
        return f"{lines} lines: {len(rows)} rows, {malformed} of them malformed, {within} within fields"
    twin = {printable(name): account for name, account in slow_long(rows, read_mapping(folder / "m.toml")).items()}
    mine = {name: (sorted(kept), counts) for name, (kept, counts) in accounts(found).items()}
    return None if mine == twin else "another reading than that of a row at a time"


def slow_rows(data: bytes, names: tuple[str, ...] = HEADER) -> tuple[list[Any], int]:
    """What is named of every row that has as many fields as the header, and how many have not."""
    csv.field_size_limit(1 << 30)
    found = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row]
    header = [name.strip() for name in found[0]]
    whole = [row for row in found[1:] if len(row) == len(header)]
    place = [header.index(name) for name in names]
    return [tuple(row[i] for i in place) for row in whole], len(found) - 1 - len(whole)


def a_damaged_mapping(draw: Draw, folder: Path) -> str | None:
    """Refused by its own name or that of the table, or it accounts for every value there is."""
    rows = 60
    (folder / "t.csv").write_bytes(table(draw, rows))
    (folder / "m.toml").write_bytes(mutated(draw, MAPPING.encode(), PLAIN.encode()))
    try:
        found = read_cohort(folder / "m.toml", cache=False)
    except CohortError as error:
        return None if str(folder) in str(error) else f"an error that names no file: {error}"
    if any(problem is not None for problem in found.records["problem"].to_pylist()):
        return None if any("not readable" in note for note in found.notes) else "records not readable, and nobody said"
    return None if values_of(found) == rows else f"{values_of(found)} of {rows} values accounted for: {found.notes}"


def a_damaged_parquet_table(draw: Draw, folder: Path) -> str | None:
    """Columns of any type, nulls, and bytes changed in the file."""
    rows = 60
    cells = [row.split(",") for row in table(draw, rows).decode().splitlines()[1:]]
    columns = {name: pa.array([row[i] for row in cells]) for i, name in enumerate(HEADER)}
    name = HEADER[int(draw.integers(len(HEADER)))]
    columns[name] = _of_a_type(draw, columns[name])
    pq.write_table(pa.table(columns), folder / "t.parquet", write_page_checksum=True)
    if draw.integers(3) == 0:
        data = (folder / "t.parquet").read_bytes()
        (folder / "t.parquet").write_bytes(mutated(draw, data, data, 1))
    (folder / "m.toml").write_text(MAPPING.replace("t.csv", "t.parquet"))
    try:
        found = read_cohort(folder / "m.toml", cache=False)
    except CohortError as error:
        return None if str(folder) in str(error) else f"an error that names no file: {error}"
    return None if values_of(found) == rows else f"{values_of(found)} of {rows} values accounted for: {found.notes}"


def a_first_mapping_of_anything(draw: Draw, folder: Path) -> str | None:
    """`levyscreen map` refuses the table by its name, or writes a mapping that can be read as it is."""
    where = folder / pick(draw, "t.csv", "t.psv", "t.tsv")
    names = pick(draw, "subject_id,hours,item,value", "stay,time,code,valuenum", "id,charttime,HR,Temp").encode()
    data = table(draw, told=bool(draw.integers(2))).replace(b"id,t,what,x", names).replace(b",u\n", b",valueuom\n", 1)
    where.write_bytes(mutated(draw, data, MAPPING.encode()))
    try:
        text = draft(guess(where), folder)
    except CohortError as error:
        return None if where.name in str(error) else f"an error that names no file: {error}"
    mapping = parse_mapping(folder / "m.toml", text, tomllib.loads(text))
    try:
        read_mapped(mapping)
    except CohortError as error:
        return None if str(folder) in str(error) else f"an error that names no file: {error}"
    return None


TYPES = (
    *(pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
    *(pa.large_string(), pa.binary(), pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.duration("ms")),
    *(pa.decimal128(12, 2), pa.time64("us"), pa.list_(pa.int64()), pa.struct([("a", pa.int64())])),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.float64())),
)


def _of_a_type(draw: Draw, column: pa.Array) -> pa.Array:
    """The column as another type, some of it null; what does not become one of that type is whole numbers of it."""
    kind = TYPES[int(draw.integers(len(TYPES)))]
    gone = draw.random(len(column)) < draw.choice([0.0, 0.3])
    cells = [None if none else value for none, value in zip(gone, column.to_pylist(), strict=True)]
    for made in (cells, [None if c is None else i % 50 for i, c in enumerate(cells)]):
        try:
            return pa.array(made).cast(kind, safe=False)
        except (pa.ArrowException, OverflowError):
            continue
    return pa.array([None] * len(cells), kind) if draw.integers(2) else column


ROWS: tuple[Row, ...] = (
    Row(
        "levyscreen map of a damaged table",
        "refused by its name, or a mapping that can be read as it is",
        *(a_first_mapping_of_anything, 40, 1000),
    ),
    Row(
        "a table of somebody's own damaged in any way",
        "refused by its name, or what a reading of a row at a time finds; every row counted",
        *(a_damaged_table, 40, 2000),
    ),
    Row(
        "a Parquet table of somebody's own, of any types, nulls, bytes",
        "refused by its name, or every value counted",
        *(a_damaged_parquet_table, 40, 1000),
    ),
    Row(
        "a mapping damaged in any way",
        "refused by its name, or every value counted",
        *(a_damaged_mapping, 40, 2000),
    ),
)
