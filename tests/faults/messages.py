"""Tables read as what they are not: whatever a message says of them, no value, id or word of a patient is in it."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from levyscreen.errors import MOST_CHARACTERS, LevyscreenError
from levyscreen.records.ushcn import read_ushcn
from levyscreen.report.who import read_outcomes
from tests.faults.hostile import pick
from tests.faults.mutations import Draw
from tests.faults.privacy import said
from tests.faults.row import Row

ID, VALUE, WORD = CANARIES = ("CANARYID", "72.8125", "Zebrafish")
ENCODINGS = (
    *("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1", "cp1252", "cp037", "cp500", "utf-7"),
    *("mac-roman", "shift_jis"),
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
HEADER = ("id", "t", "what", "x", "u", "note")
MAPPING = """{top}source = "{source}"
kind = "{kind}"
[columns]
{columns}
[time]
unit = "{unit}"
{variables}"""
HR = '[variables.HR]\nunit = "bpm"\n'


# What a table is, and what a mapping takes it for --------------------------------------------------------------------


def rows(draw: Draw) -> list[list[str]]:
    """A long table all of whose cells but times and two codes are canaries."""
    return [
        [f"{ID}{i % 7}", str(i), pick(draw, "HR", WORD, f"{WORD}{i}"), VALUE, pick(draw, "bpm", WORD, VALUE), WORD]
        for i in range(40)
    ]


def written(draw: Draw, folder: Path, header: bool) -> str:
    """The table as a text in some encoding, packed or not, or as Parquet; returns the file's name."""
    cells = rows(draw)
    if draw.random() < 0.2:
        pq.write_table(stored(draw, cells), folder / "t.parquet")
        return "t.parquet"
    text = io.StringIO()
    csv.writer(text, lineterminator=pick(draw, "\n", "\r\n"), quoting=pick(draw, 0, 1)).writerows(
        [list(HEADER)] * header + cells
    )
    data = text.getvalue().encode(pick(draw, *ENCODINGS), "ignore")
    name = pick(draw, "t.csv", "t.tsv", "t.csv.gz")
    (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return name


def stored(draw: Draw, cells: list[list[str]]) -> pa.Table:
    """As Parquet, one column of a type whose name says a canary, or by a name that does."""
    columns = {name: pa.array([row[i] for row in cells]) for i, name in enumerate(HEADER)}
    columns["t"] = pa.array(range(len(cells)))
    odd = (
        pa.array([{WORD: 1}] * len(cells)),
        pa.array([[VALUE]] * len(cells)),
        pa.array([0] * len(cells), pa.timestamp("us", WORD)),
        columns["x"],
    )
    name = pick(draw, *HEADER)
    columns[name] = odd[int(draw.integers(len(odd)))]
    if draw.random() < 0.5:
        columns[f"{ID}{VALUE}"] = columns.pop(name)
    return pa.table(columns)


def mapping(draw: Draw, source: str) -> str:
    """One that may swap columns, name some that are not there, and get encoding, header, kind or units wrong."""
    names = list(HEADER)
    if draw.random() < 0.6:
        draw.shuffle(names)
    keys = dict(zip(("record", "time", "variable", "value", "unit"), names, strict=False))
    kind = pick(draw, "long", "long", "wide")
    for key in {"wide": ("value", "unit"), "long": ()}[kind]:
        keys.pop(key)
    if draw.random() < 0.3:
        keys["record"] = pick(draw, "what", "recrod", "ID", WORD[:4])
    if draw.random() < 0.3:
        keys.pop("unit", None)
    tops = ("", f'encoding = "{pick(draw, *ENCODINGS)}"\n', 'header = ["a", "b"]\n', "quote = true\n")
    codes = pick(draw, "", 'codes = ["*"]\n', 'codes = ["HR", "Z*"]\n')
    other = '[variables.Temp]\nunit = "C"\ncodes = ["*fish*"]\n' if draw.random() < 0.3 else ""
    return MAPPING.format(
        top=pick(draw, *tops),
        source=source,
        kind=kind,
        columns="\n".join(f'{key} = "{name}"' for key, name in keys.items()),
        unit=pick(draw, "hours", "timestamp", "HH:MM"),
        variables=HR + codes + other,
    )


def of_a_mapping(draw: Draw, folder: Path) -> Iterator[str]:
    source = written(draw, folder, header=draw.random() < 0.6)
    (folder / "m.toml").write_text(mapping(draw, source))
    yield said(folder, "validate", "m.toml", "--no-cache")[1]
    yield said(folder, "map", source, "-o", "out.toml")[1]
    yield said(folder, "validate", "out.toml", "--no-cache")[1]
    yield said(folder, "screen", source, "--no-cache")[1]


def of_other_readers(draw: Draw, folder: Path) -> Iterator[str]:
    """The same table given for the outcomes of a cohort, for a list of records, for a mapping, for USHCN."""
    source = folder / written(draw, folder, header=draw.random() < 0.6)
    for read in (read_outcomes, read_ushcn):
        yield error_of(lambda read=read: read(source))
    (folder / "as.toml").write_bytes(source.read_bytes())
    yield said(folder, "validate", "as.toml", "--no-cache")[1]
    (folder / "ward").mkdir()
    (folder / "ward" / "1.txt").write_bytes(source.read_bytes())
    yield said(folder, "validate", "ward", "--no-cache")[1]
    yield said(folder, "continuum", "ward", "--records", str(source))[1]


def of_meds(draw: Draw, folder: Path) -> Iterator[str]:
    """A MEDS folder whose tables have other columns than MEDS says."""
    for name in ("data/a.parquet", "metadata/codes.parquet"):
        (folder / "meds" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(stored(draw, rows(draw)), folder / "meds" / name)
    yield said(folder, "map", "meds", "-o", "out.toml")[1]
    yield said(folder, "validate", "out.toml", "--no-cache")[1]


def error_of(read: Callable[[], object]) -> str:
    try:
        read()
    except LevyscreenError as error:
        return str(error)
    return ""


# Looked for ----------------------------------------------------------------------------------------------------------


def found_in(message: str) -> str | None:
    """Which canary stands in a message, or comes out where it is turned back into the bytes of some encoding."""
    plain = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), message)
    for text in {message, plain}:
        for written_in in ENCODINGS:
            data = text.encode(written_in, "ignore")
            for canary in CANARIES:
                if any(canary.encode(read_in) in data for read_in in ENCODINGS):
                    return f"{canary}, by {written_in}"
    return None


def a_misread_table(draw: Draw, folder: Path) -> str | None:
    """Every message of several commands on one such table."""
    kind = pick(draw, of_a_mapping, of_a_mapping, of_other_readers, of_meds)
    with mock.patch.dict(os.environ, {"LEVYSCREEN_CACHE_DIR": str(folder / "cache")}):
        for message in kind(draw, folder):
            if canary := found_in(message):
                return f"{canary} in: {message[:300]}"
            if too_long := [line for line in message.splitlines() if len(line) > MOST_CHARACTERS + 100]:
                return f"a message of {len(too_long[0])} characters"
            if "this is a bug" in message:
                return message[-600:]
    return None


ROWS: tuple[Row, ...] = (
    Row(
        "a table read as what it is not: another encoding, no header, columns swapped, for outcomes, MEDS, a mapping",
        "no canary in any message, turned back through 12 encodings; every message of bounded length",
        a_misread_table,
        30,
        800,
    ),
)
