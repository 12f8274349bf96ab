"""A first mapping of an unknown source, guessed from its layout, its columns' names and some of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from levyscreen.errors import CohortError
from levyscreen.records import quoting
from levyscreen.records.drafted.aliases import KNOWN
from levyscreen.records.drafted.described import described_beside
from levyscreen.records.drafted.pooling import Entry
from levyscreen.records.drafted.profile import Profile, Seen, by_code, look
from levyscreen.records.drafted.roles import Roles, familiar, guess_roles
from levyscreen.records.drafted.sorting import Sorted
from levyscreen.records.mapped.cells import Words, ids, words
from levyscreen.records.mapped.codes import literal, pattern
from levyscreen.records.mapped.mapping import CLOCK, FILE, TIMESTAMP, UNITS, Time
from levyscreen.records.mapped.meds import descriptions, is_meds
from levyscreen.records.mapped.times import times

HORIZON_HOURS = 48.0
LATE = 0.05  # of the records, of which more begin late where times count from elsewhere
LONG_RECORD = 5_000  # readings, beyond which windows are proposed
SEXES = {"f": 0.0, "female": 0.0, "w": 0.0, "woman": 0.0, "m": 1.0, "male": 1.0, "man": 1.0}
ADMISSIONS = ("ICU_ADMISSION", "ADMISSION//ICU", "HOSPITAL_ADMISSION", "ADMISSION")


@dataclass(frozen=True)
class Guess:
    """A first mapping; draft.py writes it."""

    profile: Profile
    roles: Roles
    origin: str
    code: str | None  # of hour 0
    horizon: tuple[str, float]  # key and number
    windows: bool
    negatives: bool
    variables: dict[str, list[Entry]] = field(default_factory=dict)
    facts: dict[str, list[Entry]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    left: tuple[Seen, ...] = ()  # what stays unmapped: texts, and what hardly occurs
    described: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)  # of variables, beyond their units
    mixes_zones: bool = False  # whether some times say a zone and others do not


def guess(source: Path, record: str | None = None, share: int = 1) -> Guess:
    """A first mapping; of one of several tables `record` names its records, and its rows are a `share` of those read.

    Raises CohortError where nothing there is a table, no column of it is a time, or nothing in it a reading.
    """
    kind = "meds" if source.is_dir() and is_meds(source) else None
    profile = look(source, kind, share)
    roles = guess_roles(profile, record)
    if roles is None:
        raise CohortError(
            f"{profile.source}: none of its columns can be a time ({_columns(profile)}); name one of them "
            f"time{_or_another(profile)}"
        )
    described = descriptions(source) if kind == "meds" else described_beside(profile, roles)
    labels = profile.file if roles.record == FILE else ids(profile.columns[roles.record], roles.record)
    seen = _seen(profile, roles, labels)
    found = Sorted(profile, roles, described)
    found.take(seen)
    variables, facts = found.variables, found.facts
    if not variables:
        raise CohortError(
            f"{profile.source}: nothing in it looks like a reading, numbers that come often under one name, among the "
            f"columns {_columns(profile)}; name the column of names variable, that of numbers "
            f"value{_or_another(profile)}"
        )
    span, count = _spans(profile, roles, labels, sum(s.count for n in variables.values() for e in n for s in e.seen))
    horizon, windows = _horizon(span, count)
    origin, code = _origin(profile, roles, seen, labels)
    entries = [(name, e) for name, of_one in variables.items() for e in of_one]
    return Guess(
        profile=profile,
        roles=roles,
        origin=origin,
        code=code,
        horizon=horizon,
        windows=windows,
        negatives=any(s.negative() > 0.02 for name, e in entries for s in e.seen if _may_be_negative(name)),
        variables=variables,
        facts=facts,
        ignored=(*map(literal, dict.fromkeys(found.ignored)), *_starts(roles, code)),
        left=tuple(s for s in found.left if not any(pattern(start).fits(s.code) for start in _starts(roles, code))),
        described=described,
        doubts=found.doubts,
        mixes_zones=_mixes_zones(profile, roles),
    )


def _columns(profile: Profile) -> str:
    names = list(profile.columns)
    return quoting.columns(names, familiar(names))


def _or_another(profile: Profile) -> str:
    """What else to do where the folder has other tables, of which this one was the first."""
    if not profile.skipped:
        return ""
    return f", or map the table of readings by itself; beside it are {', '.join(profile.skipped[:12])}"


def _starts(roles: Roles, code: str | None) -> tuple[str, ...]:
    """Codes of MEDS that say when something began, and hold no reading."""
    return ("MEDS_BIRTH*", *([code] if code else [])) if roles.kind == "meds" else ()


def _seen(profile: Profile, roles: Roles, record: Words) -> list[Seen]:
    if roles.kind != "wide":
        assert roles.variable is not None
        assert roles.value is not None
        code = words(profile.columns[roles.variable])
        unit = None if roles.value_unit is None else words(profile.columns[roles.value_unit])
        return by_code(profile, record, lambda _: code, [roles.value], wide=False, unit=unit)
    taken = {roles.record, roles.subject, roles.time, roles.variable, roles.start}
    measured = [name for name in profile.columns if name not in taken]
    if roles.variable is None:
        return by_code(profile, record, None, measured, wide=True)
    named = words(profile.columns[roles.variable])
    return by_code(
        profile, record, lambda name: Words(named.which, [f"{w}/{name}" for w in named.words]), measured, wide=True
    )


def _may_be_negative(name: str) -> bool:
    low = KNOWN[name].low if name in KNOWN else None
    return low is None or low < 0


# Time ---------------------------------------------------------------------------------------------------------------


def _spans(profile: Profile, roles: Roles, record: Words, values: int) -> tuple[float, float]:
    """Hours that most records last, at the 95th percentile, and how many values a record has."""
    time, scale = _read_times(profile, roles)
    there = ~np.isnan(time)
    low, high = np.full(len(record.words), np.inf), np.full(len(record.words), -np.inf)
    np.minimum.at(low, record.which[there], time[there])
    np.maximum.at(high, record.which[there], time[there])
    length = (high - low)[np.isfinite(low)] * scale[0] / scale[1]
    if not len(length):
        return 0.0, 0.0
    return float(np.quantile(length, 0.95)), values / len(length)


def _mixes_zones(profile: Profile, roles: Roles) -> bool:
    if roles.unit != TIMESTAMP:
        return False
    at = Time(TIMESTAMP, UNITS["microseconds"], roles.format, "first", None, None)
    named = [name for name in (roles.time, roles.start) if name is not None]
    said: frozenset[bool] = frozenset()
    return len(said.union(*(times(profile.columns[name], name, at).zoned for name in named))) > 1


def _read_times(profile: Profile, roles: Roles) -> tuple[np.ndarray, tuple[float, float]]:
    """The times of all rows, (N,), and their scale."""
    scale = UNITS.get(roles.unit, (1.0, 60.0)) if isinstance(roles.unit, str) else (roles.unit, 3600.0)
    if roles.unit == TIMESTAMP:
        scale = UNITS["microseconds"]
    unit = roles.unit if isinstance(roles.unit, str) else "seconds"
    read = times(profile.columns[roles.time], roles.time, Time(unit, scale, roles.format, "first", None, None))
    return read.time, read.scale


def _horizon(span: float, values: float) -> tuple[tuple[str, float], bool]:
    """48 hours as in intensive care, unless records are over in less than one; windows where they are very long."""
    windows = values > LONG_RECORD
    hours = span * 300 / values if windows and span < 1 else span
    if 0 < hours < 1:
        return ("horizon_seconds", _rounded_up(hours * 3600)), windows
    return ("horizon_hours", HORIZON_HOURS), windows and span > 2 * HORIZON_HOURS


def _rounded_up(value: float) -> float:
    """To two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step) * step, 9)


def _origin(profile: Profile, roles: Roles, seen: Sequence[Seen], record: Words) -> tuple[str, str | None]:
    if roles.start is not None:
        return "column", None
    if roles.kind == "meds":
        labels = len({record.words[i] for i in np.unique(record.which)})
        for start in ADMISSIONS:
            hit = [s for s in seen if s.code.startswith(start)]
            if len(set().union(*(s.records for s in hit))) >= 0.9 * labels:
                return "code", f"{start}*"
    if roles.unit in (TIMESTAMP, 1e-7) or (roles.unit != CLOCK and _begin_late(profile, roles, record)):
        return "first", None
    return "admission", None


def _begin_late(profile: Profile, roles: Roles, record: Words) -> bool:
    """Whether times do not count from the admission of each record: some records begin only after a stay's length."""
    time, scale = _read_times(profile, roles)
    there = ~np.isnan(time)
    first = np.full(len(record.words), np.inf)
    np.minimum.at(first, record.which[there], time[there])
    hours = first[np.isfinite(first)] * scale[0] / scale[1]
    return len(hours) > 0 and float((hours > HORIZON_HOURS).mean()) > LATE
