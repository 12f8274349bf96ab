"""What is in a cohort, what is odd about it, and what would be rejected; no model needed. Nothing is printed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from levyscreen.config import OURS, PAPER
from levyscreen.records.cohort import WINDOW_RECORDS, Cohort, repeats
from levyscreen.schema import COUNTED_CLASSES
from levyscreen.types import LineClass
from levyscreen.variables import VariableSet

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
    LineClass.BAD_TIME: "no time that can be read",
    LineClass.OUTSIDE_STAY: "before the start or after the end of the stay",
    LineClass.MALFORMED: "another number of fields than the header, or not to be told apart",
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
    """Count a cohort by class, variable and record. Medians and limits are of readings, repaired ones included.

    Holds a window of records at a time, and how often each variable has each value. Raises CohortError if the lines
    of a cohort on disk cannot be read any more.
    """
    tally = _tallied(cohort.part(0, 0))
    for _, part in cohort.windows(WINDOW_RECORDS):
        tally = tally.plus(_tallied(part))
    unreadable = cohort.records.column("problem").is_valid().to_numpy()
    return Summary(
        classes=_by_class(cohort),
        variables=_by_variable(cohort.variables, tally),
        records=_by_status(np.concatenate(tally.readings), unreadable),
        problems=cohort.records.select(["file", "problem"]).filter(unreadable).to_pandas(),
        same_time=tally.same_time,
        notes=(*cohort.notes, *_oddities(cohort.variables, tally)),
    )


@dataclass(frozen=True)
class _Tally:
    """What is counted of some records, R in all, of V variables."""

    readings: list[NDArray[np.int64]]  # (R,) together: readings of each record, without repetitions
    lines: NDArray[np.int64]  # (V, 4): numeric lines by variable and class
    records: NDArray[np.int64]  # (V,): records that have a reading of the variable
    zeros: NDArray[np.int64]  # (V,): zeros that are implausible
    frequency: pd.Series[int]  # how many readings there are of each (variable, value), sorted
    same_time: int
    repeated: int  # of these, the lines that say the same value again
    at_end: int  # lines at the very end of the stay

    def plus(self, other: _Tally) -> _Tally:
        """Of the records of both."""
        return _Tally(
            readings=self.readings + other.readings,
            lines=self.lines + other.lines,
            records=self.records + other.records,
            zeros=self.zeros + other.zeros,
            frequency=pd.concat([self.frequency, other.frequency]).groupby(level=[0, 1]).sum(),
            same_time=self.same_time + other.same_time,
            repeated=self.repeated + other.repeated,
            at_end=self.at_end + other.at_end,
        )

    @property
    def readings_of(self) -> NDArray[np.int64]:
        """Readings of each variable, (V,)."""
        return self.lines[:, LineClass.READING] + self.lines[:, LineClass.REPAIRED]


def _tallied(part: Cohort) -> _Tally:
    variables, lines = part.variables, part.load()
    record = np.repeat(np.arange(len(part)), np.diff(part.offsets))
    usable = np.isin(lines.line_class, (LineClass.READING, LineClass.REPAIRED))
    zero = (lines.value == 0) & (lines.line_class == LineClass.IMPLAUSIBLE)
    _, value = variables.judge(lines.variable, lines.value)
    readings = pd.DataFrame({"variable": lines.variable, "value": value})[usable]
    seen = np.bincount(record[usable] * len(variables) + lines.variable[usable], minlength=len(part) * len(variables))
    by_class = np.bincount(lines.variable * np.int64(4) + lines.line_class, minlength=4 * len(variables))
    columns = (record, lines.time_hours, lines.variable)
    again = repeats(*columns, value)
    return _Tally(
        readings=[np.bincount(record[usable & ~again], minlength=len(part))],
        lines=by_class.reshape(-1, 4),
        records=(seen.reshape(-1, len(variables)) > 0).sum(axis=0),
        zeros=np.bincount(lines.variable[zero], minlength=len(variables)),
        frequency=readings.groupby(["variable", "value"]).size(),
        same_time=int(np.logical_and.reduce([c[1:] == c[:-1] for c in columns]).sum()),
        repeated=int(again.sum()),
        at_end=int((lines.time_hours == variables.horizon_hours).sum()),
    )


def _by_class(cohort: Cohort) -> pd.DataFrame:
    lines = [cohort.count(c) for c in COUNTED_CLASSES]
    names = [c.name.lower() for c in COUNTED_CLASSES]
    return pd.DataFrame({"line_class": names, "lines": lines, "meaning": [MEANINGS[c] for c in COUNTED_CLASSES]})


def _by_status(readings: NDArray[np.int64], unreadable: NDArray[np.bool_]) -> pd.DataFrame:
    n = readings[~unreadable]
    few = n < FEWEST
    rows = [
        ("empty", "0", n == 0),
        ("too_few", f"1 to {FEWEST - 1}", few & (n > 0)),
        ("scored", f"{FEWEST} to {LONGEST}", ~few & (n <= LONGEST)),
        ("scored", f"more than {LONGEST}", ~few & (n > LONGEST)),
        ("unreadable", "", unreadable),
    ]
    return pd.DataFrame([(s, r, int(hit.sum())) for s, r, hit in rows], columns=["status", "readings", "records"])


def _by_variable(variables: VariableSet, tally: _Tally) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "variable": variables.names,
            "unit": [v.unit for v in variables.variables],
            "records": tally.records,
            "readings": tally.readings_of,
            "negative": tally.lines[:, LineClass.NEGATIVE],
            "implausible": tally.lines[:, LineClass.IMPLAUSIBLE],
            "repaired": tally.lines[:, LineClass.REPAIRED],
            **_limits(tally.frequency, len(variables)),
        }
    )


def _limits(frequency: pd.Series[int], size: int) -> dict[str, NDArray[np.float64]]:
    """Median and limits of each variable's readings, NaN where it has none."""
    variable, value = (frequency.index.get_level_values(level).to_numpy() for level in (0, 1))
    count = frequency.to_numpy()
    found = {name: np.full(size, np.nan) for name in ("median", "min", "max")}
    for v in np.unique(variable):
        x, up_to = value[variable == v], np.cumsum(count[variable == v])
        middle = x[np.searchsorted(up_to, [(up_to[-1] - 1) // 2, up_to[-1] // 2], "right")]
        found["median"][v], found["min"][v], found["max"][v] = middle.mean(), x[0], x[-1]
    return found


def _oddities(variables: VariableSet, tally: _Tally) -> list[str]:
    several = tally.same_time - tally.repeated
    absent = [v for v, n in zip(variables.names, tally.readings_of, strict=True) if n == 0]
    said = [
        (tally.repeated, f"{_lines(tally.repeated)} there before, at the same time with the same value; used once"),
        (several, f"{_lines(several)} with a second value of a variable at one time; all are kept"),
        (tally.at_end, f"{_lines(tally.at_end)} at the very end of the stay; kept"),
        (len(absent), f"no reading at all of {', '.join(absent)}"),
        *(_zeros(variables, tally, name, what) for name, what in (("HR", "cardiac"), ("RespRate", "respiratory"))),
    ]
    return [text for count, text in said if count]


def _lines(count: int) -> str:
    return f"{count:,} line{'s' if count != 1 else ''}"


def _zeros(variables: VariableSet, tally: _Tally, name: str, what: str) -> tuple[int, str]:
    """Zeros that are rejected as recording errors, but which somebody should look at."""
    if name not in variables.names:
        return 0, ""
    count = int(tally.zeros[variables.names.index(name)])
    return count, f"{_lines(count)} with {name} 0: rejected as implausible, but it could be a {what} arrest"
