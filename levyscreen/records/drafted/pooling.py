"""Which codes are one variable, each by which factor: by the unit that they say or, where they say none, by the median.

A unit that is neither the variable's own nor leads to it is never pooled with the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from levyscreen.records.drafted.aliases import FACT_UNITS, KNOWN, is_urea, unit_in
from levyscreen.records.drafted.profile import Seen
from levyscreen.records.units import UREA, Conversion, canonical, conversion, held_in, is_typical, likely, same_unit


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
    """The unit that a column says or, where it says none, a part of the code."""
    return seen.unit if _column_says(seen) else unit_in(seen.code)


def _way(name: str, own: str, seen: Seen, urea: bool, split: set[str]) -> _Way:
    said, by_column = _said(seen), _column_says(seen)
    rest = seen.unit is not None and not by_column and seen.code in split
    if said is None:
        return _Way(own, _likely(name, _median(seen), urea), False, by_column, rest)
    if urea and same_unit(said, "mg/dL"):
        said = UREA
    if same_unit(said, own, name):
        return _Way(own, None, False, by_column, rest)
    way = conversion(name, said, own)
    return _Way(own if way else said, way, way is None, by_column, rest)


def _likely(name: str, median: float, urea: bool) -> Conversion | None:
    """The way from the unit that a median looks like; by that alone urea in mg/dL cannot be told from BUN."""
    if not urea:
        return likely(name, median)[1]
    molar = conversion(name, "mmol/L", "mg/dL")
    return molar if molar and is_typical(name, median * molar.factor) else conversion(name, UREA, "mg/dL")


def _entry(name: str, way: _Way, group: list[Seen]) -> Entry:
    units = tuple(dict.fromkeys(s.unit or "" for s in group)) if way.by_column or way.rest else None
    odd = not way.strange and any(_is_odd(name, way.way, _median(s)) for s in group)
    return Entry(tuple(group), way.unit, way.way, all(_said(s) for s in group), way.strange, odd, units)


def _median(seen: Seen) -> float:
    return seen.quantiles()[1]


def _is_odd(name: str, way: Conversion | None, median: float) -> bool:
    factor, offset = (way.factor, way.offset) if way else (1.0, 0.0)
    return not math.isnan(median) and not is_typical(name, median * factor + offset)
