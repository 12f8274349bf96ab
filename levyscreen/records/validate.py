"""What is in a cohort, what is odd about it, and what would be rejected; no model needed. Nothing is printed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from levyscreen.config import OURS, PAPER
from levyscreen.records.cohort import Cohort
from levyscreen.schema import COUNTED_CLASSES, count_column
from levyscreen.types import LineClass

FEWEST = OURS.min_readings
LONGEST = PAPER.max_readings or 512

MEANINGS = {
    LineClass.READING: "a reading of a variable",
    LineClass.NEGATIVE: "negative: the value is missing",
    LineClass.IMPLAUSIBLE: "outside the variable's plausible range",
    LineClass.REPAIRED: "a lost decimal point, put back",
    LineClass.DESCRIPTOR: "a constant fact about the patient",
    LineClass.UNKNOWN_PARAMETER: "no known parameter",
    LineClass.BLANK_PARAMETER: "no parameter",
    LineClass.NOT_A_NUMBER: "blank or text in place of a number",
    LineClass.NOT_FINITE: "not finite: NaN, infinite or too large",
    LineClass.BAD_TIME: "a time that is not HH:MM",
    LineClass.OUTSIDE_STAY: "after the end of the stay",
    LineClass.MALFORMED: "other than three fields",
}


@dataclass(frozen=True)
class Summary:
    """What `summarise` gives; every frame is complete, rows that count nothing included, except `problems`."""

    classes: pd.DataFrame  # line_class, lines, meaning: a row for each LineClass
    variables: pd.DataFrame  # variable, unit, records, readings, negative, implausible, repaired, median, min, max
    records: pd.DataFrame  # status, readings, records: how many records have how many readings
    problems: pd.DataFrame  # file, problem: a row for each unreadable file
    same_time: int  # lines whose record, time and variable are those of another line before them; all are kept
    notes: tuple[str, ...]  # what is odd, in sentences


def summarise(cohort: Cohort) -> Summary:
    """Count a cohort by class, variable and record. Medians and limits are of readings, repaired ones included."""
    record = np.repeat(np.arange(len(cohort)), np.diff(cohort.offsets))
    readings = np.bincount(record[_usable(cohort)], minlength=len(cohort))
    unreadable = cohort.records.column("problem").is_valid().to_numpy()
    same_time = _same_time(cohort, record)
    return Summary(
        classes=_by_class(cohort),
        variables=_by_variable(cohort, record),
        records=_by_status(readings, unreadable),
        problems=cohort.records.select(["file", "problem"]).to_pandas()[unreadable].reset_index(drop=True),
        same_time=same_time,
        notes=(*cohort.notes, *_oddities(cohort, same_time)),
    )


def _usable(cohort: Cohort) -> NDArray[np.bool_]:
    return np.isin(cohort.line_class, (LineClass.READING, LineClass.REPAIRED))


def _same_time(cohort: Cohort, record: NDArray[np.int64]) -> int:
    columns = (record, cohort.time_hours, cohort.variable)
    return int(np.logical_and.reduce([c[1:] == c[:-1] for c in columns]).sum())


def _by_class(cohort: Cohort) -> pd.DataFrame:
    lines = [int(cohort.records.column(count_column(c)).to_numpy().sum()) for c in COUNTED_CLASSES]
    names = [c.name.lower() for c in COUNTED_CLASSES]
    return pd.DataFrame({"line_class": names, "lines": lines, "meaning": [MEANINGS[c] for c in COUNTED_CLASSES]})


def _by_status(readings: NDArray[np.int64], unreadable: NDArray[np.bool_]) -> pd.DataFrame:
    n = readings[~unreadable]
    usual = (n >= FEWEST) & (n <= LONGEST)
    rows = [
        ("empty", "0", n == 0),
        ("too_few", f"1 to {FEWEST - 1}", (n > 0) & (n < FEWEST)),
        ("scored", f"{FEWEST} to {LONGEST}", usual),
        ("scored", f"more than {LONGEST}", n > LONGEST),
        ("unreadable", "", unreadable),
    ]
    return pd.DataFrame([(s, r, int(hit.sum())) for s, r, hit in rows], columns=["status", "readings", "records"])


def _by_variable(cohort: Cohort, record: NDArray[np.int64]) -> pd.DataFrame:
    _, value = cohort.variables.judge(cohort.variable, cohort.value)
    lines = pd.DataFrame({"variable": cohort.variable, "value": value, "record": record})
    index = pd.RangeIndex(len(cohort.variables))

    def count(line_class: LineClass) -> NDArray[np.int64]:
        return np.bincount(cohort.variable[cohort.line_class == line_class], minlength=len(index))

    groups = lines[_usable(cohort)].groupby("variable")
    limits = groups["value"].agg(["median", "min", "max"]).reindex(index)
    return pd.DataFrame(
        {
            "variable": cohort.variables.names,
            "unit": [v.unit for v in cohort.variables.variables],
            "records": groups["record"].nunique().reindex(index, fill_value=0),
            "readings": count(LineClass.READING) + count(LineClass.REPAIRED),
            "negative": count(LineClass.NEGATIVE),
            "implausible": count(LineClass.IMPLAUSIBLE),
            "repaired": count(LineClass.REPAIRED),
            **{column: limits[column] for column in limits},
        }
    )


def _oddities(cohort: Cohort, same_time: int) -> list[str]:
    readings = np.bincount(cohort.variable[_usable(cohort)], minlength=len(cohort.variables))
    absent = [v for v, n in zip(cohort.variables.names, readings, strict=True) if n == 0]
    at_end = int((cohort.time_hours == cohort.variables.horizon_hours).sum())
    said = [
        (same_time, f"{_lines(same_time)} with a second value of a variable at one time; all are kept"),
        (at_end, f"{_lines(at_end)} at the very end of the stay; kept"),
        (len(absent), f"no reading at all of {', '.join(absent)}"),
        *(_zeros(cohort, name, what) for name, what in (("HR", "cardiac"), ("RespRate", "respiratory"))),
    ]
    return [text for count, text in said if count]


def _lines(count: int) -> str:
    return f"{count:,} line{'s' if count != 1 else ''}"


def _zeros(cohort: Cohort, name: str, what: str) -> tuple[int, str]:
    """Zeros that are rejected as recording errors, but which somebody should look at."""
    if name not in cohort.variables.names:
        return 0, ""
    hit = (cohort.variable == cohort.variables.names.index(name)) & (cohort.value == 0)
    count = int((hit & (cohort.line_class == LineClass.IMPLAUSIBLE)).sum())
    return count, f"{_lines(count)} with {name} 0: rejected as implausible, but it could be a {what} arrest"
