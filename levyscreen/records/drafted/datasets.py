"""The data sets and code systems that a first mapping knows: their tables, codes and units, from published lists.

Each is a TOML file in `published`, which names what it was taken from. Codes of LOINC and of MIMIC-IV mean nothing else
anywhere, and are known in every table; those of the others, such as 200, in their own tables alone.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "published"
# In the order in which a layout is looked for: tables of MIMIC-III have the columns of MIMIC-IV's, and others.
NAMES = ("eicu", "hirid", "aumc", "omop", "mimic3", "mimic4", "physionet2019", "fhir", "ricu", "meds")
EVERYWHERE = ("loinc", "mimic4")
Known = tuple[str, str]  # variable or descriptor, and the unit that its values are in, "" for the variable's own


def short(name: str) -> str:
    """A column's name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class DataSet:
    """What is published of one data set or code system."""

    key: str
    name: str
    published: str
    layouts: tuple[frozenset[str], ...]  # columns, any set of which is in its tables alone
    tables: tuple[str, ...]  # of readings, the most frequent first
    static: tuple[str, ...]  # tables of patients and stays
    descriptions: tuple[tuple[str, str, str], ...]  # table, its column of codes, and of what they mean
    time_unit: str | None  # of times that are numbers
    units_of_codes: bool  # whether values of a listed code are in the unit listed, where no column says one
    units_of_variables: bool  # the same of every known variable, however its column is called
    not_fixed: tuple[str, ...]  # variables of which neither holds
    no_code: str | None  # what stands for no code
    units: dict[str, str] = field(default_factory=dict)  # of variables, where it is not their own
    codes: dict[str, Known] = field(default_factory=dict)

    def fits(self, columns: list[str]) -> bool:
        """Whether a table of these columns is one of the data set's."""
        names = {short(name) for name in columns}
        return any(layout <= names for layout in self.layouts)


@cache
def data_set(key: str) -> DataSet:
    """What is published of a data set, by its key, one of NAMES, or of a code system."""
    found = tomllib.loads((FOLDER / f"{key}.toml").read_text(encoding="utf-8"))
    codes: dict[str, Known] = {}
    for base in found.get("extends", ()):
        codes |= data_set(base).codes
    return DataSet(
        key=key,
        name=found["name"],
        published=found["published"],
        layouts=tuple(frozenset(map(short, layout.split())) for layout in found.get("layouts", ())),
        tables=tuple(found.get("tables", ())),
        static=tuple(found.get("static", ())),
        descriptions=tuple(map(tuple, found.get("descriptions", ()))),
        time_unit=found.get("time_unit"),
        units_of_codes=found.get("units_of_codes", False),
        units_of_variables=found.get("units_of_variables", False),
        not_fixed=tuple(found.get("not_fixed", ())),
        no_code=found.get("no_code"),
        units=found.get("units", {}),
        codes=codes | _listed(found),
    )


def _listed(found: dict[str, Any]) -> dict[str, Known]:
    """Each code under [codes], in its variable's own unit, and under [codes_in.UNIT]."""
    by_unit = {"": found.get("codes", {})} | found.get("codes_in", {})
    return {
        code: (name, unit) for unit, names in by_unit.items() for name, codes in names.items() for code in codes.split()
    }


def with_columns(columns: list[str]) -> str | None:
    """The data set that a table of these columns is of; None where they do not say."""
    return next((key for key in NAMES if data_set(key).fits(columns)), None)


def known_everywhere() -> dict[str, Known]:
    """Codes that mean one thing in every table."""
    return {code: known for key in EVERYWHERE for code, known in data_set(key).codes.items()}
