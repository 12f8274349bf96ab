"""A first mapping of an unknown source, guessed from its layout, its columns' names and some of its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.drafted.aliases import FACT_ALIASES, KNOWN, known_as
from levyscreen.records.drafted.profile import Profile, Seen, by_code, look
from levyscreen.records.drafted.roles import NO_READING, Roles, guess_roles, short
from levyscreen.records.mapped.cells import Words, times, words
from levyscreen.records.mapped.mapping import CLOCK, FILE, TIMESTAMP, UNITS, Time
from levyscreen.records.mapped.meds import descriptions, is_meds
from levyscreen.records.units import Conversion, conversion, likely, same_unit

MOST_VARIABLES = 200
LEAST_VALUES = 20  # under a code that is not known by name
LONG_RECORD = 5_000  # readings, beyond which windows are proposed
SEXES = {"f": 0.0, "female": 0.0, "w": 0.0, "woman": 0.0, "m": 1.0, "male": 1.0, "man": 1.0}
ADMISSIONS = ("ICU_ADMISSION", "ADMISSION//ICU", "HOSPITAL_ADMISSION", "ADMISSION")


@dataclass(frozen=True)
class Entry:
    """Some codes that become one variable or descriptor by one factor."""

    seen: tuple[Seen, ...]
    unit: Conversion | None = None  # that the values seem to be in
    odd: bool = False  # whether the median is unusual, and in no unit that is known


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


def guess(source: Path) -> Guess:
    """Raises CohortError where nothing there is a table, no column of it is a time, or nothing in it a reading."""
    kind = "meds" if source.is_dir() and is_meds(source) else None
    profile = look(source, kind)
    roles = guess_roles(profile)
    if roles is None:
        raise CohortError(
            f"{source}: none of its columns can be a time ({', '.join(list(profile.columns)[:12])}); "
            "name one of them time"
        )
    described = descriptions(source) if kind == "meds" else {}
    record = profile.file if roles.record == FILE else words(profile.columns[roles.record])
    seen = _seen(profile, roles, record)
    variables, facts, ignored, left = _sorted_out(seen.values(), roles, described)
    if not variables:
        raise CohortError(
            f"{source}: nothing in it looks like a reading, numbers that come often under one name, among the columns "
            f"{', '.join(list(profile.columns)[:12])}; name the column of names variable, that of numbers value"
        )
    span, count = _spans(profile, roles, record, sum(s.count for n in variables.values() for e in n for s in e.seen))
    horizon, windows = _horizon(span, count)
    origin, code = _origin(profile, roles, seen, record)
    entries = [(name, e) for name, found in variables.items() for e in found]
    negatives = any(s.negative() > 0.02 for name, e in entries for s in e.seen if _may_be_negative(name))
    return Guess(profile, roles, origin, code, horizon, windows, negatives, variables, facts, ignored, left, described)


def _seen(profile: Profile, roles: Roles, record: Words) -> dict[str, Seen]:
    if roles.kind != "wide":
        assert roles.variable is not None
        assert roles.value is not None
        code = words(profile.columns[roles.variable])
        return by_code(profile, record, lambda _: code, [roles.value], wide=False)
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


def _sorted_out(
    seen: Iterable[Seen], roles: Roles, described: dict[str, str]
) -> tuple[dict[str, list[Entry]], dict[str, list[Entry]], tuple[str, ...], tuple[Seen, ...]]:
    """Variables, descriptors, what is ignored, and what is left; the most frequent codes first."""
    variables: dict[str, list[Entry]] = {}
    facts: dict[str, list[Entry]] = {}
    ignored, left = [], []
    for each in sorted(seen, key=lambda s: -s.count):
        name = known_as(each.code, described.get(each.code, ""))
        is_number = each.numeric > 0.5 * each.count
        if name in FACT_ALIASES:
            _add(facts, name, each)
        elif short(each.code.rsplit("/", 1)[-1]) in NO_READING or (not name and roles.kind == "wide" and not is_number):
            ignored.append(each.code)
        elif is_number and (name or each.count >= LEAST_VALUES) and len(variables) < MOST_VARIABLES:
            _add(variables, name or variable_name(each.code), each)
        else:
            left.append(each)
    return variables, facts, tuple(ignored), tuple(left)


def variable_name(code: str) -> str:
    """A code as a variable's name: all of it shows, and nothing in it separates names in a list."""
    return printable(code).replace(",", "_").replace(";", "_")


def _add(found: dict[str, list[Entry]], name: str, seen: Seen) -> None:
    """One more code of a variable: with those in the same unit, or on its own."""
    usual, unit = likely(name, seen.quantiles()[1])
    said = _said_unit(name, seen.code)
    unit = said if said is not None else unit
    entries = found.setdefault(name, [])
    for i, entry in enumerate(entries):
        if entry.unit == unit:
            entries[i] = Entry((*entry.seen, seen), unit, entry.odd)
            return
    odd = not usual and unit is None and not math.isnan(seen.quantiles()[1])
    entries.append(Entry((seen,), unit, odd))


def _said_unit(name: str, code: str) -> Conversion | None:
    """The unit that a part of a code names, as in LAB//50931//mmol/L, where it is another than the variable's own."""
    own = KNOWN[name].unit if name in KNOWN else None
    for part in code.split("//")[1:]:
        if own is not None and not same_unit(part, own):
            found = conversion(name, part, own)
            if found is not None and found.factor != 1:
                return found
    return None


# Time ---------------------------------------------------------------------------------------------------------------


def _spans(profile: Profile, roles: Roles, record: Words, values: int) -> tuple[float, float]:
    """Hours that most records last, at the 95th percentile, and how many values a record has."""
    scale = UNITS.get(roles.unit, (1.0, 60.0)) if isinstance(roles.unit, str) else (roles.unit, 3600.0)
    if roles.unit == TIMESTAMP:
        scale = UNITS["microseconds"]
    unit = roles.unit if isinstance(roles.unit, str) else "seconds"
    read = times(profile.columns[roles.time], roles.time, Time(unit, scale, roles.format, "first", None, None))
    there = ~np.isnan(read.time)
    low, high = np.full(len(record.words), np.inf), np.full(len(record.words), -np.inf)
    np.minimum.at(low, record.which[there], read.time[there])
    np.maximum.at(high, record.which[there], read.time[there])
    length = (high - low)[np.isfinite(low)] * read.scale[0] / read.scale[1]
    if not len(length):
        return 0.0, 0.0
    return float(np.quantile(length, 0.95)), values / len(length)


def _horizon(span: float, values: float) -> tuple[tuple[str, float], bool]:
    """48 hours as in intensive care, unless records are over in less than one; windows where they are very long."""
    windows = values > LONG_RECORD
    hours = span * 300 / values if windows and span < 1 else span
    if 0 < hours < 1:
        return ("horizon_seconds", _rounded_up(hours * 3600)), windows
    return ("horizon_hours", 48.0), windows and span > 96


def _rounded_up(value: float) -> float:
    """To two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step) * step, 9)


def _origin(profile: Profile, roles: Roles, seen: dict[str, Seen], record: Words) -> tuple[str, str | None]:
    if roles.start is not None:
        return "column", None
    if roles.kind == "meds":
        labels = len({record.words[i] for i in np.unique(record.which)})
        for start in ADMISSIONS:
            hit = [s for s in seen.values() if s.code.startswith(start)]
            if len(set().union(*(s.records for s in hit))) >= 0.9 * labels:
                return "code", f"{start}*"
    if roles.unit in (TIMESTAMP, 1e-7) or (
        isinstance(roles.unit, str) and roles.unit != CLOCK and _is_epoch(profile, roles)
    ):
        return "first", None
    return "admission", None


def _is_epoch(profile: Profile, roles: Roles) -> bool:
    """Whether times that are numbers count from 1970 rather than from an admission."""
    found = words(profile.columns[roles.time]).words
    sample = [
        abs(float(word)) for word in found[:100] if word.isascii() and word.replace(".", "", 1).lstrip("-").isdigit()
    ]
    return bool(sample) and float(np.median(sample)) > 5e8
