"""Small record files for the tests, and the slow twin of the reader: plain Python, a line at a time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levyscreen.records.cohort import Cohort
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, VariableSet

HEAD = "Time,Parameter,Value\n"
FACTS = "00:00,RecordID,{id}\n00:00,Age,54\n00:00,Gender,0\n00:00,Height,-1\n00:00,ICUType,4\n00:00,Weight,-1\n"


def record(record_id: int, *lines: str) -> str:
    """A well-formed record file with some further lines."""
    return HEAD + FACTS.format(id=record_id) + "".join(line + "\n" for line in lines)


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def accounts(cohort: Cohort) -> dict[str, tuple[list[tuple[Any, ...]], Counter[str]] | None]:
    """What a cohort holds of each file, in the form of `slow_cohort`."""
    found: dict[str, Any] = {}
    for row, record in enumerate(cohort.records.to_pylist()):
        lines = cohort.part(row, row + 1).load()
        words = [LineClass(c).name.lower() for c in lines.line_class]
        columns = (lines.time_hours.tolist(), lines.variable.tolist(), lines.value.tolist(), words)
        kept = list(zip(*columns, strict=True))
        found[record["file"]] = (kept, Counter(counts(cohort, row))) if record["problem"] is None else None
    return found


def rows(cohort: Cohort) -> list[tuple[Any, ...]]:
    """(file, hours, variable, value, class) of every line kept, in their order."""
    files = np.repeat(np.array(cohort.records["file"].to_pylist()), np.diff(cohort.offsets))
    names = np.array(cohort.variables.names)[cohort.variable]
    return list(zip(files, cohort.time_hours, names, cohort.value, cohort.line_class, strict=True))


def counts(cohort: Cohort, row: int = 0) -> dict[str, int]:
    """How many lines of a record ended in which class; what counts nothing is left out."""
    record = cohort.records.slice(row, 1).to_pylist()[0]
    return {k[2:]: v for k, v in record.items() if k.startswith("n_") and k != "n_lines" and v}


def same(a: Cohort, b: Cohort) -> bool:
    """Whether two cohorts hold the same rows, records and rejects."""
    arrays = ("offsets", "time_hours", "variable", "value", "line_class")
    return (
        all(np.array_equal(getattr(a, f), getattr(b, f)) for f in arrays)
        and a.records.equals(b.records)
        and a.rejects.equals(b.rejects)
    )


# The slow twin ------------------------------------------------------------------------------------------------------


def slow_reading(text: str, variables: VariableSet) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """(hours, variable, value, class name) of the kept lines of a readable file, sorted; and counts by class."""
    kept, found = [], Counter[str]()
    for line in re.split("\r\n|\r|\n", text.removeprefix("\ufeff"))[1:]:
        if not line.strip(" \t"):
            continue
        word, row = _slow_line(line, variables)
        found[word] += 1
        if row is not None:
            kept.append((*row, word))
    return sorted(kept), found


def slow_cohort(
    files: Mapping[str, bytes], variables: VariableSet
) -> dict[str, tuple[list[tuple[Any, ...]], Counter[str]] | None]:
    """`slow_reading` of each file; None for a file that cannot be read as a record, or whose record is another's."""
    found: dict[str, Any] = dict.fromkeys(files)
    owners: dict[int, str] = {}
    for name in sorted(files):
        text = _slow_text(files[name])
        record_id = None if text is None else _slow_id(name, text, variables)
        if record_id is not None and owners.setdefault(record_id, name) == name:
            found[name] = slow_reading(str(text), variables)
    return found


def _slow_text(data: bytes) -> str | None:
    """A record file's text; None where it is not UTF-8, is empty, or does not start with the header."""
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    header = re.split("\r\n|\r|\n", text)[0]
    return text if [field.strip(" \t") for field in header.split(",")] == HEAD.strip().split(",") else None


def _slow_id(name: str, text: str, variables: VariableSet) -> int | None:
    """What the RecordID lines say, else the number that the file is named by; None for neither, or for several."""
    said = set()
    for line in re.split("\r\n|\r|\n", text)[1:]:
        fields = [field.strip(" \t") for field in line.split(",")]
        if _slow_line(line, variables)[0] == "descriptor" and fields[1] == "RecordID":
            said.add(float(fields[2]))
    said = {value for value in said if value == int(value) and value < 2**53}
    if said:
        return int(said.pop()) if len(said) == 1 else None
    stem = name.removesuffix(".txt")
    return int(stem) if re.fullmatch("[0-9]{1,15}", stem) else None


def _slow_line(line: str, variables: VariableSet) -> tuple[str, tuple[Any, ...] | None]:
    fields = [field.strip(" \t") for field in line.split(",")]
    if len(fields) != 3:
        return "malformed", None
    clock, name, number = fields
    if not re.fullmatch("[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?", clock):
        return "bad_time", None
    hours, minute, second = [*map(int, clock.split(":")), 0][:3]
    minutes = hours * 60 + minute + second / 60
    if minutes > 60 * variables.horizon_hours:
        return "outside_stay", None
    if name not in variables.names and name not in DESCRIPTORS:
        return ("unknown_parameter" if name else "blank_parameter"), None
    value = slow_number(number)
    if value is None or not math.isfinite(value):
        return ("not_a_number" if value is None else "not_finite"), None
    if name in DESCRIPTORS:
        return ("negative" if value < 0 else "descriptor"), None
    variable = variables.variables[variables.names.index(name)]
    row = (float(np.float32(minutes / 60)), variables.names.index(name), value)
    return _slow_judgement(variable, value), row


def slow_number(text: str) -> float | None:
    """A number in the grammar of a value; not finite where it is too large; None for any other text."""
    if not text.isascii() or "_" in text or text != text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _slow_judgement(variable: Any, value: float) -> str:
    if variable.repair and variable.repair.low <= value <= variable.repair.high:
        return "repaired"
    if value < 0:
        return "negative"
    low, high = variable.low, variable.high
    return "implausible" if (low is not None and value < low) or (high is not None and value > high) else "reading"
