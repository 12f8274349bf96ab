"""What is fixed in the tables of a data set that is known: codes, units, meanings of words."""

from __future__ import annotations

from collections.abc import Iterable

from levyscreen.records.drafted.aliases import KNOWN, short
from levyscreen.records.drafted.datasets import data_set, known_everywhere, with_columns
from levyscreen.records.drafted.profile import DYNAMIC, Profile, Seen
from levyscreen.records.units import held_in

RICU = "ricu"
EICU_VITALS = {"patientunitstayid", "observationoffset"}


def source_of(profile: Profile) -> str | None:
    """The data set that a table is of; None where neither the user nor its columns say."""
    if profile.data_set is not None:
        return profile.data_set
    return RICU if profile.source.name == DYNAMIC else with_columns(list(profile.columns))


def listed_as(source: str | None, code: str) -> str | None:
    """The variable or descriptor that the data set's own list has under a code."""
    found = data_set(source).codes.get(whole(code)) if source else None
    return found[0] if found else None


def whole(code: str) -> str:
    """A code that is a whole number without what a float adds to it."""
    return code.removesuffix(".0")


def fixed_unit(source: str | None, name: str, seen: Seen) -> str | None:
    """The unit that the data set's documents state for values without one; None where they state none."""
    known = data_set(source) if source else None
    listed = known.codes.get(whole(seen.code)) if known else None
    listed = listed or known_everywhere().get(whole(seen.code))
    if listed and listed[1]:
        return listed[1]
    if known is None or name not in KNOWN or name in known.not_fixed:
        return None
    fixed = known.units_of_variables or (known.units_of_codes and whole(seen.code) in known.codes)
    return known.units.get(name, held_in(name, KNOWN[name].unit)) if fixed else None


def is_of_laboratory(columns: Iterable[str], variable: str | None) -> bool:
    """Whether the codes of a table are those of a laboratory, which measures no pulse oximetry."""
    names = {short(name) for name in columns}
    return variable is not None and (short(variable).startswith("lab") or "labresult" in names or "labid" in names)


def other_meaning(name: str, columns: Iterable[str], wide: bool, variable: str | None) -> str:
    """What a word means in this table where it means something else than elsewhere; by default what it is known as."""
    names = {short(each) for each in columns}
    if name == "SaO2" and wide and names >= EICU_VITALS:
        return "SpO2"
    if name == "SpO2" and not wide and is_of_laboratory(columns, variable):
        return "SaO2"
    return name
