"""Which codes are one variable, each by which factor: by the unit that they say or, where they say none, by the median.

A unit that is neither the variable's own nor leads to it is never pooled with the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levyscreen.records.drafted.aliases import FACT_UNITS, KNOWN, is_urea, range_of, unit_in
from levyscreen.records.drafted.profile import Seen
from levyscreen.records.units import (
    CONVERSIONS,
    UREA,
    Conversion,
    canonical,
    conversion,
    held_in,
    is_typical,
    likely,
    same_unit,
)

ENOUGH = 30  # values, from which on their median says a unit that nothing else says
MIXED = 0.01  # of the values, at least, that are in another unit where a column mixes two
_LEAST_MIXED = 3


@dataclass(frozen=True)
class Mixture:
    """Values from low to high, as they are written, that can only be in another unit than the rest."""

    low: float
    high: float
    factor: float
    offset: float
    other: str


@dataclass(frozen=True)
class Entry:
    """Some codes that become one variable or descriptor by one factor."""

    seen: tuple[Seen, ...]
    unit: str  # that they are in once the factor is applied; "" where nobody says it
    way: Conversion | None = None  # from the unit that they come in
    told: bool = False  # whether a column or the codes say that unit
    strange: bool = False  # whether it is not the variable's own, and no way to that is known
    odd: bool = False  # whether the median is unusual even so
    units: tuple[str, ...] | None = None  # that a column must say
    maybe: Conversion | None = None  # from the unit that they look like, where they are too few to say so
    mixed: Mixture | None = None


@dataclass(frozen=True)
class _Way:
    """What is to be done with values of one code and unit; those of which it is the same are one entry."""

    unit: str
    way: Conversion | None
    strange: bool
    by_column: bool
    rest: bool  # whether a column says no unit here, and one elsewhere under the same code


def pooled(name: str, seen: Sequence[Seen], described: dict[str, str]) -> list[Entry]:
    """The entries of a variable or descriptor: those in its own unit first, strange ones last, else as they came."""
    own = _own_unit(name, seen)
    split = {s.code for s in seen if _column_says(s)}
    groups: dict[_Way, list[Seen]] = {}
    for each in seen:
        urea = name == "BUN" and is_urea(each.code, described.get(each.code, ""))
        groups.setdefault(_way(name, own, each, urea, split), []).append(each)
    entries = [_entry(name, way, group) for way, group in groups.items()]
    return sorted(entries, key=lambda e: (e.strange, not (e.told and e.way is None)))


def _own_unit(name: str, seen: Sequence[Seen]) -> str:
    """In what the values of a variable should be; of one that is not known, in what most of them are said to be."""
    if name in KNOWN:
        return held_in(name, KNOWN[name].unit)
    said: Counter[str] = Counter()
    for each in seen:
        said[_said(each) or ""] += each.count
    del said[""]
    return FACT_UNITS.get(name) or next((unit for unit, _ in said.most_common(1)), "")


def _column_says(seen: Seen) -> bool:
    return seen.unit is not None and canonical(seen.unit) != ""


def _said(seen: Seen) -> str | None:
    """The unit that a column says or, where it says none, a part of the code or the documents of the data set."""
    return seen.unit if _column_says(seen) else unit_in(seen.code) or seen.fixed


def _way(name: str, own: str, seen: Seen, urea: bool, split: set[str]) -> _Way:
    said, by_column = _said(seen), _column_says(seen)
    rest = seen.unit is not None and not by_column and seen.code in split
    if said is None:
        return _Way(own, _guessed(name, seen, urea), False, by_column, rest)
    if urea and same_unit(said, "mg/dL"):
        said = UREA
    if same_unit(said, own, name):
        return _Way(own, None, False, by_column, rest)
    way = conversion(name, said, own)
    return _Way(own if way else said, way, way is None, by_column, rest)


def _guessed(name: str, seen: Seen, urea: bool) -> Conversion | None:
    """The way from the unit that values look like; of a few values only where they are implausible in the own one."""
    found = _likely(name, _median(seen), urea)
    return found if urea or seen.numeric >= ENOUGH or not _is_plausible(name, _median(seen)) else None


def _is_plausible(name: str, value: float) -> bool:
    low, high, _ = range_of(name)
    return (low is None or value >= low) and (high is None or value <= high)


def _likely(name: str, median: float, urea: bool) -> Conversion | None:
    """The way from the unit that a median looks like; by that alone urea in mg/dL cannot be told from BUN."""
    if not urea:
        return likely(name, median)[1]
    molar = conversion(name, "mmol/L", "mg/dL")
    return molar if molar and is_typical(name, median * molar.factor) else conversion(name, UREA, "mg/dL")


def _entry(name: str, way: _Way, group: list[Seen]) -> Entry:
    units = tuple(dict.fromkeys(s.unit or "" for s in group)) if way.by_column or way.rest else None
    odd = not way.strange and any(_is_odd(name, way.way, s) for s in group)
    told = all(_said(s) is not None for s in group)
    maybe = None if told or way.way else next((w for s in group if (w := _likely(name, _median(s), False))), None)
    mixed = None if way.strange else _mixture(name, way.way, group)
    return Entry(tuple(group), way.unit, way.way, told, way.strange, odd, units, maybe, mixed)


def _mixture(name: str, way: Conversion | None, group: list[Seen]) -> Mixture | None:
    """Of values that the variable cannot have, those that are plausible in a unit that no other value can be in."""
    low, high, _ = range_of(name)
    if low is None or high is None or name not in KNOWN:
        return None
    own = held_in(name, KNOWN[name].unit)
    as_it_is = Conversion((name,), own, own, 1.0)
    values = np.concatenate([*(v for s in group for v in s.values), np.empty(0)])
    start, stop = _written(way or as_it_is, low, high)
    for other in (as_it_is, *(c for c in CONVERSIONS if name in c.variables and c.other != UREA)):
        first, last = _written(other, low, high)
        hit = (values >= first) & (values <= last)
        if (last < start or first > stop) and hit.sum() >= max(_LEAST_MIXED, MIXED * len(values)):
            return Mixture(first, last, other.factor, other.offset, other.other)
    return None


def _written(way: Conversion, low: float, high: float) -> tuple[float, float]:
    """Between what a value is written in a unit, to be within a variable's plausible range."""
    first, last = ((limit - way.offset) / way.factor for limit in (low, high))
    return float(f"{first:.6g}"), float(f"{last:.6g}")


def _median(seen: Seen) -> float:
    return seen.quantiles()[1]


def _is_odd(name: str, way: Conversion | None, seen: Seen) -> bool:
    """Whether a median is unusual; where documents state the unit, only one that is implausible."""
    factor, offset = (way.factor, way.offset) if way else (1.0, 0.0)
    median = _median(seen) * factor + offset
    fits = _is_plausible if seen.fixed is not None and not _column_says(seen) else is_typical
    return not math.isnan(median) and not fits(name, median)
