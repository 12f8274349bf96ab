"""A mapping file: how somebody's own tables are read as records of variables. Parsed, checked, and nothing else.

It is a TOML file and itself a cohort: it names its source, what stands for record, time, variable and value, and has a
table a variable. docs/mapping.md describes every key.
"""

from __future__ import annotations

import codecs
import datetime
import os
import re
import tomllib
import zoneinfo
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from levyscreen.config import MOST
from levyscreen.errors import CohortError
from levyscreen.names import expanded, file_name, printable
from levyscreen.records import quoting
from levyscreen.records.mapped.text import Form
from levyscreen.records.mapped.toml_table import Table
from levyscreen.records.units import canonical, same_unit
from levyscreen.variables import FACTS, LEAST_HORIZON, Repair, Variable, VariableSet

SUFFIX = ".toml"
KINDS = ("long", "wide", "meds")
DECIMALS = (".", ",")
MOST_SKIPPED = 1000  # lines above a header
FILE = "@file"  # in place of a column's name: the record is named by the file
# Units of a time that is a number, in hours: (times, divided by), so that 90 minutes are exactly 90 / 60.
UNITS = {
    "days": (24.0, 1.0),
    "hours": (1.0, 1.0),
    "minutes": (1.0, 60.0),
    "seconds": (1.0, 3600.0),
    "milliseconds": (1.0, 3.6e6),
    "microseconds": (1.0, 3.6e9),
    "nanoseconds": (1.0, 3.6e12),
}
TIMESTAMP, CLOCK = "timestamp", "HH:MM"
ORIGINS = ("admission", "first", "column", "code")
HORIZONS = {f"horizon_{unit}": UNITS[unit] for unit in ("hours", "days", "minutes", "seconds")}
MOST_VARIABLES = 5_000
MOST_TEXT = 4 << 20  # characters of a mapping
MEDS_COLUMNS = {"record": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}


@dataclass(frozen=True)
class Mixed:
    """Values in [low, high], as they are written, are in another unit than the others of their rule."""

    low: float
    high: float
    factor: float
    offset: float


@dataclass(frozen=True)
class Rule:
    """What is read as one variable or descriptor: value * factor + offset of its codes, or the number of a text."""

    name: str
    target: int  # position among the variables and, after them, the facts
    codes: tuple[str, ...]  # of a wide table, columns; * stands for any text
    factor: float = 1.0
    offset: float = 0.0
    values: Dict[str, float] = field(default_factory=dict)
    units: tuple[str, ...] | None = None  # that the unit column must say; None takes those that no other rule takes
    mixed: Mixed | None = None

    def takes(self, unit: str) -> bool:
        """Whether values in that unit are of this rule, however the unit is written."""
        return self.units is None or any(same_unit(unit, own, self.name) for own in self.units)


@dataclass(frozen=True)
class Columns:
    """Which column holds what; None where there is none."""

    record: str
    subject: str | None  # whose stay it is, where a record is a stay
    time: str
    variable: str | None  # of a wide table: qualifies the columns, whose codes are then 'qualifier/column'
    value: str | None  # None of a wide table
    unit: str | None = None  # says each value's unit, for rules with units


@dataclass(frozen=True)
class Static:
    """Another table, of a row a record, with some of the descriptors."""

    source: Path
    record: str  # the column that names the record
    delimiter: str | None = None  # of a text; None is the usual one, or the one of the source's files of that ending


@dataclass(frozen=True)
class Time:
    """What a time is, and where hour 0 is."""

    unit: str  # TIMESTAMP, CLOCK, or a number's
    scale: tuple[float, float]  # hours are number * scale[0] / scale[1]
    format: str | None  # of a timestamp in text, as of strptime; ISO 8601 without
    origin: str  # one of ORIGINS
    column: str | None  # where origin is "column"
    code: str | None  # where origin is "code"
    decimal: str = "."  # of a number in text
    zone: str | None = None  # of timestamps that say none


@dataclass(frozen=True)
class Mapping:
    """A whole mapping file."""

    path: Path
    text: str
    name: str
    source: Path
    kind: str
    columns: Columns
    time: Time
    form: Form  # of a text
    decimal: str  # what stands before the decimals of a number in text
    windows: bool  # a record goes on after the horizon, as another record
    variables: VariableSet
    rules: tuple[Rule, ...]  # of each variable in the set's order, then of each fact; one or more
    static: Static | None
    facts: tuple[str, ...]  # of RECORDS, in the order of the targets after the variables
    ignored: tuple[str, ...]


def is_mapping(path: Path) -> bool:
    """Whether a path names a mapping file."""
    return path.name.lower().endswith(SUFFIX) and not os.path.isdir(path)


def read_mapping(path: Path) -> Mapping:
    """The mapping in a file. Raises CohortError, naming file, table and key, for whatever it cannot mean."""
    try:
        text = _text(path)
        data = tomllib.loads(text)
    except FileNotFoundError:
        raise CohortError(f"{path}: no such mapping file; levyscreen map COHORT writes a first one") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CohortError(f"{path} is not a readable TOML file: {quoting.reason(error)}") from error
    return parse_mapping(path, text, data)


def _text(path: Path) -> str:
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(MOST_TEXT + 1)
    if len(text) > MOST_TEXT:
        raise quoting.Bounded(f"it is longer than {MOST_TEXT >> 20} MB")
    return text


def parse_mapping(path: Path, text: str, data: dict[str, Any]) -> Mapping:
    """The mapping that plain tables describe; `path` is where they stand, or would."""
    top = Table(path, "", data)
    kind = top.one_of("kind", KINDS)
    name = file_name(top.text("name", path.name[: -len(SUFFIX)] or "cohort"))
    horizon, negatives = _horizon(top), top.flag("negatives", False)
    decimal = top.one_of("decimal", DECIMALS, ".")
    columns, facts = _columns(top.table("columns", {}), kind), top.table("descriptors", {})
    tables = top.table("variables")
    wide = kind == "wide" and columns.variable is None
    entries = {key: tables.table(key) for key in tables.keys()}  # noqa: SIM118
    variables = [_variable(table, key) for key, table in entries.items()]
    if len(variables) > MOST_VARIABLES:
        raise top.error("variables", f"names {len(variables):,} variables, more than {MOST_VARIABLES:,}")
    if not variables:
        raise top.error("variables", "names no variable: give each its own table, for instance [variables.HR]")
    entries |= {key: facts.table(key) for key in facts.keys(tuple(FACTS))}
    told = columns.unit is not None
    rules = [r for target, (key, table) in enumerate(entries.items()) for r in _rules(table, key, target, wide, told)]
    ignore = top.table("ignore", {})
    found = Mapping(
        path=path,
        text=text,
        name=name,
        source=_beside(path, top.text("source")),
        kind=kind,
        columns=columns,
        time=replace(_time(top.table("time", {}), kind), decimal=decimal),
        form=Form(top.texts("header", None), _delimiter(top), _quote(top), _encoding(top), _skip(top)),
        decimal=decimal,
        windows=top.flag("windows", False),
        variables=VariableSet(name, 1, horizon, tuple(variables), negatives),
        rules=tuple(rules),
        static=_static(top, columns) if top.has("static") else None,
        facts=facts.keys(tuple(FACTS)),
        ignored=_codes(ignore, wide) or (),
    )
    for table in (top, tables, facts, ignore):
        table.done()
    _refuse_a_code_twice(top, rules)
    return found


def _beside(path: Path, source: str) -> Path:
    return Path(os.path.normpath(path.parent / expanded(source)))


def _static(top: Table, columns: Columns) -> Static:
    table = top.table("static")
    found = Static(_beside(table.path, table.text("source")), table.text("record", columns.record), _delimiter(table))
    table.done()
    return found


def _horizon(top: Table) -> float:
    given = [key for key in HORIZONS if top.has(key)]
    if len(given) > 1:
        raise top.error(given[1], f"says again what {given[0]} says: keep one of them")
    if not given:
        return 48.0
    times, by = HORIZONS[given[0]]
    hours = top.number(given[0]) * times / by
    if not LEAST_HORIZON <= hours < 1e6:
        raise top.error(given[0], f"must be {LEAST_HORIZON * 3.6e6:g} milliseconds or more, and below a million hours")
    return hours


def _delimiter(table: Table) -> str | None:
    delimiter = table.text("delimiter", None)
    if delimiter is not None and len(delimiter) != 1:
        raise table.error("delimiter", "must be one character, for instance ';'")
    return delimiter


def _quote(top: Table) -> bool | None:
    return top.flag("quote", True) if top.has("quote") else None


def _skip(top: Table) -> int:
    lines = top.number("skip_lines", 0.0)
    if lines < 0 or lines != int(lines) or lines > MOST_SKIPPED:
        raise top.error("skip_lines", f"must be a whole number of lines from 0 to {MOST_SKIPPED}")
    return int(lines)


def _encoding(top: Table) -> str:
    encoding = top.text("encoding", "utf-8")
    try:
        "a".encode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError):
        raise top.error(
            "encoding", f"is {encoding!r:.40}, which Python does not know; usual ones are cp1252, utf-16"
        ) from None
    return encoding


def _columns(table: Table, kind: str) -> Columns:
    usual: dict[str, str] = MEDS_COLUMNS if kind == "meds" else {}
    found = Columns(
        record=table.text("record", usual.get("record", "")) or "",
        subject=table.text("subject", usual.get("record")),
        time=table.text("time", usual.get("time", "")) or "",
        variable=table.text("variable", usual.get("variable")),
        value=table.text("value", usual.get("value")),
        unit=table.text("unit", None),
    )
    for key in ("record", "time", *(() if kind == "wide" else ("variable", "value"))):
        if not getattr(found, key):
            raise table.error(key, f"is missing: name the column that holds the {key}")
    for key in ("value", "unit"):
        if kind == "wide" and getattr(found, key) is not None:
            raise table.error(key, "is no key of a wide table, whose columns are the variables: delete it")
    table.done()
    return found


def _time(table: Table, kind: str) -> Time:
    unit = table.get("unit", TIMESTAMP if kind == "meds" else None)
    if isinstance(unit, int | float) and not isinstance(unit, bool) and 0 < unit <= MOST:
        name, scale = f"{unit} seconds", (float(unit), 3600.0)
    else:
        name = table.one_of("unit", (TIMESTAMP, CLOCK, *UNITS), TIMESTAMP if kind == "meds" else None)
        scale = UNITS.get(name, UNITS["microseconds" if name == TIMESTAMP else "seconds"])
    origin = table.one_of("origin", ORIGINS, "first" if name == TIMESTAMP else "admission")
    column, code, form, zone = (table.text(key, None) for key in ("column", "code", "format", "zone"))
    for key, given in (("column", column), ("code", code)):
        if (given is None) == (origin == key):
            needed = f'is missing: origin = "{key}" needs it' if given is None else f'is for origin = "{key}" alone'
            raise table.error(key, needed)
    if form is not None and form != "HL7":
        _check_format(table, form)
    if origin == "admission" and name == TIMESTAMP:
        raise table.error("origin", 'cannot be "admission" where times are timestamps: say "first", "column" or "code"')
    if zone is not None:
        _check_zone(table, zone)
    table.done()
    return Time(name, scale, form, origin, column, code, zone=zone)


def _check_zone(table: Table, zone: str) -> None:
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise table.error(
            "zone", f'is {zone!r:.40}, which is no time zone; for instance "UTC", "Europe/Berlin"'
        ) from None


def _check_format(table: Table, form: str) -> None:
    """Raises CohortError where strptime could never read by it, whatever the time."""
    try:
        datetime.datetime.strptime("", form)
    except re.error:
        raise table.error("format", f"{form!r:.40} has a directive twice: %m is the month, %M the minute") from None
    except ValueError as error:
        if "directive" in str(error) or "stray" in str(error):
            raise table.error("format", f"{error}; see the directives of Python's strptime") from None


def _variable(table: Table, name: str) -> Variable:
    if not name.strip() or name != printable(name) or set(name) & {",", ";"}:
        raise table.error("", "has a name that cannot be shown in a list: leave out commas, semicolons and line ends")
    low, high = table.number("low", None), table.number("high", None)
    if low is not None and high is not None and low > high:
        raise table.error("low", f"is above high: {low:g} > {high:g}")
    return Variable(name, table.text("unit", ""), table.text("meaning", name), low, high, _repair(table))


def _repair(table: Table) -> Repair | None:
    if not table.has("repair"):
        return None
    repair = table.table("repair")
    found = Repair(*(repair.number(key) for key in ("low", "high", "factor")))
    repair.done()
    return found


def _rules(table: Table, name: str, target: int, wide: bool, told: bool) -> list[Rule]:
    """The rule of a table, and those under its key `also`, whose codes come in other units; told by a column or not."""
    tables = [table, *table.tables("also")]
    rules = [_rule(each, name, target, wide) for each in tables]
    for each, rule in zip(tables, rules, strict=True):
        if rule.units == ():
            raise each.error("units", "is empty, and so takes no value: delete it to take every unit")
        if rule.units is not None and not told:
            raise each.error("units", "is for a table that says units: name that column as unit under [columns]")
        each.done()
    return rules


def _rule(table: Table, name: str, target: int, wide: bool) -> Rule:
    codes = _codes(table, wide)
    factor, offset = table.number("factor", 1.0), table.number("offset", 0.0)
    if factor == 0:
        raise table.error("factor", "is 0, which would make every value the same")
    units = table.texts("units", None)
    codes = (name,) if codes is None else codes
    return Rule(name, target, codes, factor, offset, _values(table), units, _mixed(table))


def _mixed(table: Table) -> Mixed | None:
    if not table.has("mixed"):
        return None
    mixed = table.table("mixed")
    found = Mixed(mixed.number("low"), mixed.number("high"), mixed.number("factor", 1.0), mixed.number("offset", 0.0))
    if found.low > found.high or found.factor == 0:
        raise mixed.error(
            "low", "is above high, or factor is 0: values from low to high become value * factor + offset"
        )
    mixed.done()
    return found


def _codes(table: Table, wide: bool) -> tuple[str, ...] | None:
    """What stands for a variable; in a wide table these are columns, and may be called so."""
    if wide and table.has("columns"):
        return table.texts("columns", None)
    return table.texts("codes", None)


def _values(table: Table) -> dict[str, float]:
    if not table.has("values"):
        return {}
    values = table.table("values")
    found = {key: values.number(key) for key in values.keys()}  # noqa: SIM118
    values.done()
    return found


def _refuse_a_code_twice(top: Table, rules: list[Rule]) -> None:
    """Raises CohortError where two rules take the same code in the same unit, or both in those that no other takes."""
    taken: dict[tuple[str, str | None], str] = {}
    for rule in rules:
        units = {None} if rule.units is None else {canonical(unit, rule.name) for unit in rule.units}
        for code in rule.codes:
            for unit in units:
                said = f"the code {code!r}" + (f" in {unit or 'no unit'}" if unit is not None else "")
                other = taken.get((code, unit))
                if other == rule.name:
                    raise top.error("variables", f"gives {rule.name} {said} twice: keep one")
                if other is not None:
                    raise top.error("variables", f"gives {said} to {other} and to {rule.name}: keep one")
                taken[code, unit] = rule.name
