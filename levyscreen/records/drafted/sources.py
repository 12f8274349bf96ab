"""Data sets that are known by the columns of their tables, and what is fixed there: codes, units, meanings of words."""

from __future__ import annotations

from collections.abc import Iterable

from levyscreen.records.drafted.aliases import KNOWN, short
from levyscreen.records.drafted.dictionaries import DICTIONARIES
from levyscreen.records.drafted.profile import DYNAMIC, Profile, Seen
from levyscreen.records.units import held_in

# Columns, any set of which is in the tables of one data set alone; the first that fits.
_LAYOUTS: tuple[tuple[str, tuple[frozenset[str], ...]], ...] = (
    ("eicu", (frozenset({"patientunitstayid"}),)),
    ("hirid", (frozenset({"patientid", "variableid"}),)),
    ("aumc", (frozenset({"admissionid", "itemid", "measuredat"}),)),
    ("omop", (frozenset({"personid", "measurementconceptid"}), frozenset({"personid", "observationconceptid"}))),
    ("mimic3", (frozenset({"icustayid", "itemid"}), frozenset({"rowid", "subjectid", "itemid"}))),
    ("physionet2019", (frozenset({"iculos", "hospadmtime"}), frozenset({"iculos", "sepsislabel"}))),
)
RICU = "ricu"
EICU_VITALS = {"patientunitstayid", "observationoffset"}
_RICU_UNITS = {"FiO2": "%"}  # of the others the variable's own
TIME_UNITS = {"eicu": "minutes", "aumc": "milliseconds", "physionet2019": "hours"}
_NOT_FIXED = {"physionet2019": ("FiO2",)}  # said to be in %, and in fact a fraction


def source_of(profile: Profile) -> str | None:
    """The data set that a table is of; None where its columns do not say."""
    if profile.source.name == DYNAMIC:
        return RICU
    names = {short(name) for name in profile.columns}
    return next((source for source, layouts in _LAYOUTS if any(layout <= names for layout in layouts)), None)


def listed_as(source: str | None, code: str) -> str | None:
    """The variable or descriptor that the data set's own dictionary lists under a code."""
    found = DICTIONARIES.get(source or "", {}).get(whole(code))
    return found[0] if found else None


def whole(code: str) -> str:
    """A code that is a whole number without what a float adds to it."""
    return code.removesuffix(".0")


def fixed_unit(source: str | None, name: str, seen: Seen) -> str | None:
    """The unit that the data set's documents state for values without one; None where they state none."""
    listed = DICTIONARIES.get(source or "", {}).get(whole(seen.code))
    if listed and listed[1]:
        return listed[1]
    if name not in KNOWN or name in _NOT_FIXED.get(source or "", ()):
        return None
    own = held_in(name, KNOWN[name].unit)
    if source == RICU:
        return _RICU_UNITS.get(name, own)
    return own if source == "physionet2019" or (listed and source in ("hirid", "aumc")) else None


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
