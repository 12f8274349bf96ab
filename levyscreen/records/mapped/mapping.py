"""A mapping file: how somebody's own tables are read as records of variables. Parsed, checked, and nothing else.

It is a TOML file and itself a cohort: it names its source, what stands for record, time, variable and value, and has a
table a variable. docs/mapping.md describes every key.
"""

from __future__ import annotations

import codecs
import os
import tomllib
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levyscreen.errors import CohortError
from levyscreen.names import expanded, file_name, printable
from levyscreen.records import quoting
from levyscreen.records.mapped.rules import Mixed as Mixed
from levyscreen.records.mapped.rules import Rule, codes_of, refuse_a_code_twice, rules_of
from levyscreen.records.mapped.text import Form
from levyscreen.records.mapped.time_keys import CLOCK as CLOCK
from levyscreen.records.mapped.time_keys import TIMESTAMP, UNITS, Time, time_of
from levyscreen.records.mapped.toml_table import Table
from levyscreen.variables import FACTS, LEAST_HORIZON, Repair, Variable, VariableSet

SUFFIX = ".toml"
KINDS = ("long", "wide", "meds")
STATIC, JOINED = "static", "joined"  # a table of patients or stays among several; several as one
DECIMALS = (".", ",")
MOST_SKIPPED = 1000  # lines above a header
FILE = "@file"  # in place of a column's name: the record is named by the file
HORIZONS = {f"horizon_{unit}": UNITS[unit] for unit in ("hours", "days", "minutes", "seconds")}
MOST_VARIABLES = 5_000
MOST_TEXT = 4 << 20  # characters of a mapping
# Keys of a variable where tables are several: what it is, and how one table is read.
OF_VARIABLES = ("unit", "meaning", "low", "high", "repair")
OF_TABLES = ("codes", "columns", "units", "factor", "offset", "values", "mixed", "also")
MEDS_COLUMNS = {"record": "subject_id", "time": "time", "variable": "code", "value": "numeric_value"}


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
    tables: tuple[Mapping, ...] = ()  # whose rows are joined by the records' ids; () where it is one table itself

    @property
    def parts(self) -> tuple[Mapping, ...]:
        """The mapping of each table: the tables of several, or itself."""
        return self.tables or (self,)


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
    name = file_name(top.text("name", path.name[: -len(SUFFIX)] or "cohort"))
    horizon, negatives, windows = _horizon(top), top.flag("negatives", False), top.flag("windows", False)
    variables = top.table("variables")
    entries = {key: variables.table(key) for key in variables.keys()}  # noqa: SIM118
    found = [_variable(table, key) for key, table in entries.items()]
    if len(found) > MOST_VARIABLES:
        raise top.error("variables", f"names {len(found):,} variables, more than {MOST_VARIABLES:,}")
    if not found:
        raise top.error("variables", "names no variable: give each its own table, for instance [variables.HR]")
    variables.done()
    whole = _Whole(path, text, name, windows, VariableSet(name, 1, horizon, tuple(found), negatives))
    if top.has("table"):
        return _joined(top, entries, whole)
    facts = top.table("descriptors", {}).keys(tuple(FACTS))
    return _part(top, entries, facts, whole, time_of(top.table("time", {}), _usual_unit(top.one_of("kind", KINDS))))


@dataclass(frozen=True)
class _Whole:
    """What a mapping says once, of however many tables."""

    path: Path
    text: str
    name: str
    windows: bool
    variables: VariableSet


def _part(table: Table, entries: Dict[str, Table], facts: tuple[str, ...], whole: _Whole, time: Time) -> Mapping:
    """The mapping of one table; `entries` say what stands for which variable, `facts` are those of all tables.

    Raises CohortError for what it cannot mean, and for keys that there are not.
    """
    kind = table.one_of("kind", (KINDS if not table.name else (*KINDS, STATIC)))
    decimal = table.one_of("decimal", DECIMALS, ".")
    columns, own = _columns(table.table("columns", {}), kind), table.table("descriptors", {})
    wide, told = kind in ("wide", STATIC) and columns.variable is None, columns.unit is not None
    names = (*whole.variables.names, *facts)
    ruled = dict(entries) | {key: own.table(key) for key in own.keys(tuple(FACTS))}
    rules = [r for key, each in ruled.items() for r in rules_of(each, key, names.index(key), wide, told)]
    ignore = table.table("ignore", {})
    found = Mapping(
        path=whole.path,
        text=whole.text,
        name=whole.name,
        source=_beside(whole.path, table.text("source")),
        kind=kind,
        columns=columns,
        time=replace(time, decimal=decimal),
        form=_form(table),
        decimal=decimal,
        windows=whole.windows,
        variables=whole.variables,
        rules=tuple(rules),
        static=_static(table, columns) if not table.name and table.has("static") else None,
        facts=facts,
        ignored=codes_of(ignore, wide) or (),
    )
    for each in (table, own, ignore):
        each.done()
    refuse_a_code_twice(table, rules)
    return found


# Several tables -----------------------------------------------------------------------------------------------------


def _joined(top: Table, entries: Dict[str, Table], whole: _Whole) -> Mapping:
    """The mapping of several tables: what a variable is stands at the top, what stands for it in each table's own."""
    for entry in entries.values():
        _refuse_misplaced(entry, OF_TABLES, "says how one table is read: put it under [table.variables] of that table")
        entry.done()
    for key in ("static", "descriptors", "columns", "ignore"):
        if top.has(key):
            raise top.error(key, f"is of one table: with [[table]] put it into one, {STATIC!r} being a kind of table")
    tables = [Table(top.path, f"table {i}", each.data) for i, each in enumerate(top.tables("table"), 1)]
    named = [each.table("descriptors", {}).keys(tuple(FACTS)) for each in tables]
    facts = tuple(fact for fact in FACTS if any(fact in of_one for of_one in named))
    shared = top.table("time", {}).data
    parts = [_part(each, _entries(each, whole), facts, whole, _time(each, shared)) for each in tables]
    top.done()
    _refuse_what_cannot_be_joined(top, parts)
    first = next(part for part in parts if part.kind != STATIC)
    subject = next((part.columns.subject for part in parts if part.columns.subject), None)
    scales = {part.time.scale for part in parts if part.kind != STATIC}
    return replace(
        first,
        source=whole.path,
        kind=JOINED,
        columns=replace(first.columns, subject=subject),
        time=replace(first.time, scale=first.time.scale if len(scales) == 1 else UNITS["hours"]),
        rules=(),
        ignored=(),
        tables=tuple(parts),
    )


def _entries(table: Table, whole: _Whole) -> dict[str, Table]:
    """What stands for which variable in one of several tables."""
    variables = table.table("variables", {})
    entries = {key: variables.table(key) for key in variables.keys(whole.variables.names)}
    for name, entry in entries.items():
        where = f"[variables.{name}] at the top"
        _refuse_misplaced(entry, OF_VARIABLES, f"says what the variable is in every table: put it under {where}")
    return entries


def _refuse_misplaced(table: Table, keys: Sequence[str], why: str) -> None:
    for key in keys:
        if key in table.data:
            raise table.error(key, why)


def _time(table: Table, shared: dict[str, Any]) -> Time:
    """The times of one of several tables: what it does not say itself is said at the top, and hour 0 is one for all."""
    own, kind = table.table("time", {}), table.get("kind", None)
    _refuse_misplaced(own, ("origin",), "is one for all tables: say it under [time] at the top")
    usual = {"unit": TIMESTAMP} if kind in ("meds", STATIC) else {}
    if kind == STATIC and not {"column"} & own.data.keys():  # it says no time
        return Time(TIMESTAMP, UNITS["microseconds"], None, "first", None, None)
    return time_of(Table(own.path, own.name, usual | shared | own.data), alone=False)


def _refuse_what_cannot_be_joined(top: Table, parts: Sequence[Mapping]) -> None:
    """Raises CohortError where tables do not make records together."""
    read = [part for part in parts if part.kind != STATIC]
    if not read:
        raise top.error("table", f"names no table of readings: all are {STATIC}")
    timed = read + [part for part in parts if part.kind == STATIC and part.time.column]
    if len({part.time.unit == TIMESTAMP for part in timed}) > 1:
        raise top.error(
            "table", "has timestamps in one table and numbers as times in another, with no hour 0 in common"
        )
    for key in ("column", "code"):
        if read[0].time.origin == key and not any(getattr(part.time, key) for part in timed):
            raise top.error("time", f'has origin = "{key}", and no table names its {key} under [table.time]')
    ruled = {rule.name for part in parts for rule in part.rules}
    for name in read[0].variables.names:
        if name not in ruled:
            raise top.error(f"variables.{name}", "is read from no table: name it under [table.variables] of one")


def _beside(path: Path, source: str) -> Path:
    return Path(os.path.normpath(path.parent / expanded(source)))


def _usual_unit(kind: str) -> str | None:
    return TIMESTAMP if kind == "meds" else None


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


def _form(table: Table) -> Form:
    """How a text is written, and which sheet of a workbook it is."""
    header, sheet = table.texts("header", None), table.text("sheet", None)
    return Form(header, _delimiter(table), _quote(table), _encoding(table), _skip(table), sheet)


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
    if kind == STATIC:
        return _static_columns(table, found)
    for key in ("record", "time", *(() if kind == "wide" else ("variable", "value"))):
        if not getattr(found, key):
            raise table.error(key, f"is missing: name the column that holds the {key}")
    for key in ("value", "unit"):
        if kind == "wide" and getattr(found, key) is not None:
            raise table.error(key, "is no key of a wide table, whose columns are the variables: delete it")
    table.done()
    return found


def _static_columns(table: Table, found: Columns) -> Columns:
    """Of a table of patients or stays: whom a row is about, and nothing else."""
    for key in ("time", "variable", "value", "unit"):
        if getattr(found, key):
            raise table.error(key, f"is no key of a {STATIC} table, whose columns are the descriptors: delete it")
    if not found.record and not found.subject:
        raise table.error("record", "is missing: name the column that holds the record, or as subject the patient's")
    table.done()
    return replace(found, time=found.record or found.subject or "")


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
