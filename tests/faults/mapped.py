"""Somebody's own tables, and the mappings that describe them, damaged: refused, or every value accounted for."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
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
from tests.records.mapped_files import LONG_HEAD, slow_long
from tests.records.record_files import accounts

MAPPING = (
    LONG_HEAD
    + """
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
)
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
    said = said_of("rows? with", found)
    if (said, found.unread) != (malformed, malformed):
        return f"{said} rows of another number of fields or of fields in doubt, and there are {malformed}"
    within = said_of("lines? within", found)
    lines = len(re.findall(rb"[^\r\n]+", data.removeprefix(b"\xef\xbb\xbf")))
    if within != lines - 1 - len(rows) - malformed:
        return f"{lines} lines: {len(rows)} rows, {malformed} of them malformed, {within} within fields"
    twin = {printable(name): account for name, account in slow_long(rows, read_mapping(folder / "m.toml")).items()}
    mine = {name: (sorted(kept), counts) for name, (kept, counts) in accounts(found).items()}
    return None if mine == twin else "another reading than that of a row at a time"


def said_of(what: str, cohort: Cohort) -> int:
    """How many of something the notes tell of."""
    return sum(int(n.replace(",", "")) for note in cohort.notes for n in re.findall(f"([0-9,]+) {what}", note))


def slow_rows(data: bytes, names: tuple[str, ...] = HEADER) -> tuple[list[Any], int]:
    """What is named of every row that has as many fields as the header and none in doubt, and how many have not."""
    csv.field_size_limit(1 << 30)
    found = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row]
    header = [name.strip() for name in found[0]]
    whole = [row for row in found[1:] if len(row) == len(header) and not in_doubt(row)]
    place = [header.index(name) for name in names]
    return [tuple(row[i] for i in place) for row in whole], len(found) - 1 - len(whole)


def in_doubt(row: list[str]) -> bool:
    """Whether a line of the row, as it stands in the text, may be a row that a stray quote swallowed."""
    for place, field in enumerate(row):
        lines = re.split("\r\n|\r|\n", field)
        if len(lines) > 1:
            after = len(row) - 1 - place
            commas = [line.count(",") for line in lines]
            could = [after > 0 and commas[0] >= after, place > 0 and commas[-1] >= place]
            if any(could) or any(count >= len(row) - 1 for count in commas[1:-1]):
                return True
    return False


def stray_quotes(draw: Draw, folder: Path) -> str | None:
    """No reading is of another record, time or value than a row of the table has, and no line is lost unsaid."""
    place = int(draw.integers(5))
    rows = [[f"p{i // 20}", str(i % 20), pick(draw, "HR", "tc"), str(30 + i % 70)] for i in range(200)]
    words = ["", "", "", "", '"left', '5" cuff', '"awake, calm"', '"', '"a\nb"', '"a, b', 'say ""', '"say ""no"""']
    notes = [words[int(draw.integers(len(words)))] if draw.random() < 0.3 else "" for _ in rows]
    lines = [",".join([*row[:place], note, *row[place:]]) for row, note in zip(rows, notes, strict=True)]
    header = ",".join([*HEADER[:place], "note", *HEADER[place:]])
    data = "\n".join([header, *lines]).encode()
    (folder / "t.csv").write_bytes(data)
    (folder / "m.toml").write_text(PLAIN)
    try:
        found = read_cohort(folder / "m.toml", cache=False)
    except CohortError as error:
        return None if "t.csv" in str(error) else f"an error that names no file: {error}"
    true = {(row[0], float(row[1]), row[2], float(row[3])) for row in rows}
    record = np.repeat(np.array(found.records["file"].to_pylist()), np.diff(found.offsets)).tolist()
    codes = [{"HR": "HR", "Temp": "tc"}[found.variables.names[v]] for v in found.variable]
    wrong = set(zip(record, found.time_hours.tolist(), codes, found.value.tolist(), strict=True)) - true
    if wrong:
        return f"{len(wrong)} readings that no row has, of {len(found.value)}"
    told = len(found.value) + said_of("rows? with", found) + said_of("lines? within", found)
    there = len(re.findall(rb"[^\n]+", data)) - 1
    return None if told == there else f"{told} of {there} lines accounted for: {found.notes}"


def a_text_of_another_land(draw: Draw, folder: Path) -> str | None:
    """Read by its first mapping as the same table in plain CSV is by its own, or refused by its name."""
    decimal, delimiter = pick(draw, (",", ";"), (",", "\t"), (",", "|"), (".", ";"), (".", "\t"), (",", ","))
    encoding = pick(draw, "utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16")
    ends = pick(draw, "\n", "\r\n", "\r")
    rows = [
        (f"p{i // 30}", i % 30 + 0.5, "HR" if i % 2 else "Temp", round(60 + 30 * draw.random() - 40 * (i % 2 == 0), 1))
        for i in range(120)
    ]
    if encoding in ("cp1252", "latin-1"):
        rows = [(f"{name} Müller", *rest) for name, *rest in rows]
    found = []
    for name, sign, split, code, end in (("a", ".", ",", "utf-8", "\n"), ("b", decimal, delimiter, encoding, ends)):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=split, lineterminator=end, quoting=pick(draw, 0, 1, 2))
        writer.writerow(("stay_id", "hours", "parameter", "value"))
        writer.writerows((i, str(t).replace(".", sign), what, str(x).replace(".", sign)) for i, t, what, x in rows)
        where = folder / f"{name}.csv"
        where.write_bytes(text.getvalue().encode(code))
        (folder / f"{name}.toml").write_text(draft(guess(where), folder))
        found.append(accounts(read_cohort(folder / f"{name}.toml", cache=False)))
    return None if found[0] == found[1] else "another reading than that of plain CSV"


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


CANARIES = ("CANARYID", "98765.4321")


def a_table_of_canaries(draw: Draw, folder: Path) -> str | None:
    """No id and no value of a patient is in a note, a reject or an error, whatever the damage."""
    plain = [row.split(",") for row in table(draw).decode().splitlines()[1:]]
    rows = [",".join([CANARIES[0] + row[0], *row[1:3], CANARIES[1]]) for row in plain]
    header = [",".join(HEADER)] if draw.integers(4) else []
    data = "\n".join([*header, *rows, ""]).encode()
    (folder / "t.csv").write_bytes(mutated(draw, data, data, 2) if draw.integers(4) else data)
    (folder / "m.toml").write_text(MAPPING)
    said = ""
    for work in (lambda: _said_of_reading(folder / "m.toml"), lambda: str(guess(folder / "t.csv").roles)):
        try:
            said += work()
        except CohortError as error:
            said += str(error)
    return next((f"{canary} in: {said[:200]}" for canary in CANARIES if canary in said), None)


def _said_of_reading(path: Path) -> str:
    found = read_cohort(path, cache=False)
    return f"{found.notes} {found.records['problem'].to_pylist()} {found.rejects.to_pylist()}"


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
        "stray quotes in a column of comments, wherever it stands",
        "no value ever ends with another record, time or variable; every line counted",
        *(stray_quotes, 40, 2000),
    ),
    Row(
        "levyscreen map of a damaged table",
        "refused by its name, or a mapping that can be read as it is",
        *(a_first_mapping_of_anything, 40, 1000),
    ),
    Row(
        "a table in another land's CSV: delimiter, decimal comma, encoding, line ends",
        "its first mapping reads what that of plain CSV reads",
        *(a_text_of_another_land, 40, 1000),
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
        "a damaged table whose ids and values are canaries",
        "0 canaries in notes, rejects and errors",
        *(a_table_of_canaries, 60, 1000),
    ),
    Row(
        "a mapping damaged in any way",
        "refused by its name, or every value counted",
        *(a_damaged_mapping, 40, 2000),
    ),
)
