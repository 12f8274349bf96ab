"""The records of a folder of PhysioNet files as the tables that other people have: long, wide, and MEDS."""

from __future__ import annotations

import csv
import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from levyscreen.records.mapped.mapping import Mapping, Rule
from levyscreen.records.units import same_unit
from levyscreen.variables import DESCRIPTORS
from tests.records.record_files import slow_number

BLANKS = " \t"
ADMITTED = datetime.datetime(2031, 5, 17, 22, 43)  # each record a day after the one before

# The start of a mapping of t.csv; further columns may follow it.
LONG_HEAD = """
source = "t.csv"
kind = "long"
horizon_hours = 48
[columns]
record = "id"
time = "t"
variable = "what"
value = "x"
"""


def lines(folder: Path) -> Iterator[tuple[int, int, str, str]]:
    """(record, minutes, name, value as written) of every line but the RecordID."""
    for path in sorted(folder.glob("*.txt")):
        for clock, name, value in list(csv.reader(path.read_text().splitlines()))[1:]:
            hours, minutes = clock.split(":")
            if name != "RecordID":
                yield int(path.stem), int(hours) * 60 + int(minutes), name, value


def write_long(folder: Path, target: Path, order: int = 1) -> Path:
    """A row a reading; with `order` -1 the last row first, so that no record stands together in the order of time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = [(record, f"{m // 60:02}:{m % 60:02}", name, value) for record, m, name, value in lines(folder)]
    if order < 0:
        rows = sorted(rows, key=lambda row: (row[1], row[3], row[0]), reverse=True)
    with target.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("subject", "time", "variable", "value"), *rows])
    return target


def wide_rows(folder: Path) -> tuple[list[str], dict[int, list[dict[str, str]]]]:
    """Columns, and of each record a row a time, or several where a variable has several values at one time."""
    found: dict[int, dict[tuple[int, int], dict[str, str]]] = defaultdict(dict)
    names: dict[str, None] = {}
    for record, minutes, name, value in lines(folder):
        names[name] = None
        place = 0
        while name in found[record].setdefault((minutes, place), {"minutes": str(minutes)}):
            place += 1
        found[record][minutes, place][name] = value
    return [*names], {record: [row for _, row in sorted(rows.items())] for record, rows in found.items()}


def write_psv(folder: Path, target: Path) -> Path:
    """A folder of a file a record, as of PhysioNet 2019: columns split by |, NaN for what was not measured."""
    names, records = wide_rows(folder)
    target.mkdir(parents=True)
    for record, rows in records.items():
        with (target / f"{record}.psv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [*names, "minutes"], "NaN", delimiter="|", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return target


def write_dyn(folder: Path, target: Path) -> Path:
    """One wide Parquet table as of ricu and YAIB: stay_id, a duration, a column a variable."""
    names, records = wide_rows(folder)
    rows = [{"stay_id": record, **row} for record, rows in records.items() for row in rows]
    columns: dict[str, pa.Array] = {"stay_id": pa.array([row["stay_id"] for row in rows], pa.int32())}
    seconds = [60 * int(row["minutes"]) for row in rows]
    columns["time"] = pa.array(seconds, pa.duration("s"))
    for name in names:
        columns[name] = pa.array([float(row[name]) if name in row else None for row in rows], pa.float64())
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), target, row_group_size=1000)
    return target


def write_meds(folder: Path, target: Path, shards: int = 3) -> Path:
    """A MEDS folder: events sorted by subject and time, facts without a time, an admission, codes with descriptions."""
    from meds import CodeMetadataSchema, DataSchema

    (target / "data" / "train").mkdir(parents=True)
    (target / "metadata").mkdir()
    by_subject: dict[int, list[tuple[datetime.datetime | None, str, float | None]]] = defaultdict(list)
    for record, minutes, name, value in lines(folder):
        rows = by_subject[record]
        admitted = ADMITTED + datetime.timedelta(days=len(by_subject))
        if not rows:
            rows += [(None, "MEDS_BIRTH", None), (admitted, "ICU_ADMISSION//medical", None)]
        static = name in DESCRIPTORS and minutes == 0
        rows.append(
            (None if static else admitted + datetime.timedelta(minutes=minutes), f"CHART//{name}", float(value))
        )
    subjects = sorted(by_subject)
    for shard in range(shards):
        rows = [
            {"subject_id": subject, "time": time, "code": code, "numeric_value": value}
            for subject in subjects[shard::shards]
            for time, code, value in sorted(by_subject[subject], key=lambda row: row[0] or datetime.datetime.min)
        ]
        table = pa.Table.from_pylist(rows, pa.schema(list(DataSchema.schema())[:4]))
        DataSchema.validate(table)
        pq.write_table(table, target / "data" / "train" / f"{shard}.parquet", row_group_size=500)
    codes = sorted({code for rows in by_subject.values() for _, code, _ in rows})
    described = pa.table({"code": codes, "description": [code.rsplit("/", 1)[-1] for code in codes]})
    CodeMetadataSchema.validate(described)
    pq.write_table(described, target / "metadata" / "codes.parquet")
    return target


def slow_long(rows: list[tuple[str, ...]], mapping: Mapping) -> dict[str, tuple[list[Any], Counter[str]]]:
    """What a long table of texts holds of each record, in the form of record_files.accounts: a row at a time.

    Rows are (subject, time, code, value) or, where a column says units, with the unit too. Takes times in hours from
    admission and mappings without patterns, texts or windows.
    """
    names = mapping.variables.names
    found: dict[str, tuple[list[Any], Counter[str]]] = {}
    for subject, time, code, value, *unit in rows:
        if not subject.strip(BLANKS):
            continue
        kept, counts = found.setdefault(_slow_id(subject.strip(BLANKS)), ([], Counter()))
        rule = _slow_rule(mapping, code.strip(BLANKS), "".join(unit).strip(BLANKS))
        word, number = _slow_class(rule, time, code, value, mapping)
        if word != "ignored":
            counts[word] += 1
        if word in ("reading", "negative", "implausible", "repaired") and rule is not None and rule.name in names:
            kept.append((float(np.float32(float(time))), names.index(rule.name), number, word))
    return {subject: (sorted(kept), counts) for subject, (kept, counts) in found.items()}


def _slow_id(text: str) -> str:
    """An id without the .0 of a float."""
    head, point, tail = text.partition(".")
    whole = head.removeprefix("-").isdecimal() and head.isascii() and str(int(head)) == head
    return head if point and tail == "0" and (whole or head == "-0") else text


def _slow_rule(mapping: Mapping, code: str, unit: str) -> Rule | None:
    """Of the rules with that code the one with that unit, or else the one without units."""
    named = [rule for rule in mapping.rules if code in rule.codes]
    told = [rule for rule in named for own in rule.units or () if same_unit(unit, own, rule.name)]
    return next(iter(told + [rule for rule in named if rule.units is None]), None)


def _slow_class(rule: Rule | None, time: str, code: str, value: str, mapping: Mapping) -> tuple[str, float]:
    if code.strip(BLANKS) in mapping.ignored:
        return "ignored", 0.0
    if rule is None:
        return ("unknown_parameter" if code.strip(BLANKS) else "blank_parameter"), 0.0
    fact = rule.target >= len(mapping.variables)
    hours = float(time) if _is_number(time) else None
    if hours is None and not fact:
        return "bad_time", 0.0
    if not _is_number(value):
        return ("not_a_number" if slow_number(value.strip(BLANKS)) is None else "not_finite"), 0.0
    number = float(value) * rule.factor + rule.offset
    if fact:
        return ("negative" if number < 0 else "descriptor"), number
    if not 0 <= hours <= mapping.variables.horizon_hours:
        return "outside_stay", number
    variable = mapping.variables.variables[rule.target]
    if number < 0 and not mapping.variables.negatives:
        return "negative", number
    low, high = variable.low, variable.high
    outside = (low is not None and number < low) or (high is not None and number > high)
    return ("implausible" if outside else "reading"), number


def _is_number(text: str) -> bool:
    number = slow_number(text.strip(BLANKS))
    return number is not None and math.isfinite(number)
