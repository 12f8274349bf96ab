"""A first mapping of a folder that holds several tables of the same patients: readings, stays, patients."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow.types as pt

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.archives import is_document
from levyscreen.records.drafted.aliases import FACT_ALIASES, KNOWN, known_as, short
from levyscreen.records.drafted.clocks import time_unit
from levyscreen.records.drafted.guess import Guess, guess
from levyscreen.records.drafted.pooling import Entry, pooled
from levyscreen.records.drafted.profile import DYNAMIC, Profile, by_code, look
from levyscreen.records.drafted.roles import START, STAY, SUBJECT, TIME, guess_roles
from levyscreen.records.drafted.sniff import sniff
from levyscreen.records.mapped.cells import ids, words
from levyscreen.records.mapped.mapping import TIMESTAMP
from levyscreen.records.mapped.meds import is_meds
from levyscreen.records.mapped.tables import TableFile, TableReader, ending_of, listing

_DIGITS = re.compile(r"[0-9]+")
MOST_TABLES = 30
IN_COMMON = 0.1  # of the ids of the smaller of two tables, that name the same records


@dataclass(frozen=True)
class Facts:
    """A table of stays or patients: whom a row is about, and what it says of them."""

    profile: Profile
    record: str | None
    subject: str | None
    start: str | None  # a column of hours 0
    format: str | None  # of its timestamps
    facts: dict[str, list[Entry]] = field(default_factory=dict)


@dataclass(frozen=True)
class Several:
    """A first mapping of several tables; draft_several.py writes it."""

    folder: Path
    readings: tuple[Guess, ...]
    static: tuple[Facts, ...]
    origin: str
    left: dict[str, str]  # files that are not mapped, and why

    @property
    def names(self) -> list[str]:
        """Files of the tables, those of readings first."""
        readings, static = ([each.profile.source.name for each in of] for of in (self.readings, self.static))
        return readings + static

    @property
    def one_name(self) -> bool:
        """Whether all tables of readings call the column of records alike."""
        return len({short(guess.roles.record) for guess in self.readings}) == 1


def guess_several(folder: Path) -> Several | None:
    """A mapping of all tables of readings in a folder that have ids in common, with those of stays and patients.

    None where there are no several, and the folder is of one table or of tables of one kind.
    """
    files = _different(folder)
    if not files:
        return None
    left: dict[str, str] = {}
    profiles = [found for file in files if (found := _looked(file, len(files), left)) is not None]
    keys = {profile.source: _keys(profile) for profile in profiles}
    static = [profile for profile in profiles if keys[profile.source]]
    records = _records([profile for profile in profiles if profile not in static], left)
    readings = _of_one_clock([found for found in _guesses(records, len(files), left)], left)
    facts = list(_facts(static, readings, keys, left))
    if not readings or len(readings) + len(facts) < 2:
        return None
    origin, facts = _origin(readings, facts)
    readings = [replace(found, origin=origin if found.roles.start else "first") for found in readings]
    return Several(folder, tuple(readings), tuple(facts), origin, left)


def _different(folder: Path) -> list[TableFile]:
    """The tables of a folder; none where all have the same columns, or they are too many to be different ones."""
    if not folder.is_dir() or is_meds(folder) or (folder / DYNAMIC).is_file():
        return []
    names = sorted(n for n in listing(folder) if ending_of(n) and not n.startswith(".") and not is_document(n))
    files = [TableFile(folder / n, printable(n), ending_of(n) or "") for n in names if (folder / n).is_file()]
    if not 2 <= len(files) <= MOST_TABLES:
        return []
    if len({_DIGITS.sub("0", file.name) for file in files}) == 1:  # chunks of one table
        return []
    return files if len({frozenset(_columns(file)) for file in files}) > 1 else []


def _columns(file: TableFile) -> list[str]:
    try:
        return TableReader(file, sniff(file).form).columns
    except CohortError:
        return [file.name]  # which is told when it is looked at


def _looked(file: TableFile, share: int, left: dict[str, str]) -> Profile | None:
    try:
        return look(file.path, None, share)
    except CohortError:
        left[file.name] = "cannot be read as a table, or has no rows"
        return None


def _named(profile: Profile, known: Sequence[str]) -> list[str]:
    """Columns of these names, in their order of preference."""
    by_short = {short(name): name for name in profile.columns if not pt.is_nested(profile.columns[name].type)}
    return [by_short[name] for name in known if name in by_short]


def _ids(profile: Profile, column: str) -> set[str]:
    return {word for word in ids(profile.columns[column], column).words if word}


# Readings -----------------------------------------------------------------------------------------------------------


def _keys(profile: Profile) -> list[str]:
    """Columns of ids in which no id comes twice, of a table without times: it is of stays or patients."""
    if _named(profile, [name for name in TIME if name not in ("hour", "hours", "date", "issued")]):
        return []
    found = []
    for column in _named(profile, (*STAY, *SUBJECT)):
        said = ids(profile.columns[column], column)
        rows = np.bincount(said.which, minlength=len(said.words))
        filled = [n for n, word in zip(rows.tolist(), said.words, strict=True) if word]
        if filled and max(filled) == 1:
            found.append(column)
    return found


def _records(profiles: Sequence[Profile], left: dict[str, str]) -> list[tuple[Profile, str]]:
    """Tables of readings, each with the column of ids by which most of them can be joined."""
    candidates = []
    for profile in profiles:
        roles = _roles(profile)
        if roles is not None:
            candidates.append((profile, roles))
        else:
            left[profile.source.name] = "no columns of ids, times and values that are known by their names"
    shared = Counter(short(name) for profile, _ in candidates for name in _named(profile, (*STAY, *SUBJECT)))
    most = max(shared.values(), default=0)
    best = next((name for name in (*STAY, *SUBJECT) if most > 1 and shared[name] == most), None)
    named = [(p, column) for p, _ in candidates for column in _named(p, (best,) if best else ())]
    chosen = named or [(profile, record) for profile, record in candidates]
    for profile, _ in candidates:
        if all(profile is not other for other, _ in chosen):
            left[profile.source.name] = "it has no column of the ids by which the others are joined"
    return _overlapping(chosen, left)


def _roles(profile: Profile) -> str | None:
    """The column of records of a table of readings whose roles are plain; None where they are not."""
    try:
        roles = guess_roles(profile)
    except CohortError:
        return None
    return roles.record if roles is not None and roles.sure_record and roles.sure_time else None


def _overlapping(tables: list[tuple[Profile, str]], left: dict[str, str]) -> list[tuple[Profile, str]]:
    """Those that name the same records as the largest."""
    if not tables:
        return []
    largest = max(tables, key=lambda table: len(table[0].columns[table[1]]))
    known, found = _ids(*largest), []
    for profile, column in tables:
        mine = _ids(profile, column)
        if len(mine & known) >= max(1, IN_COMMON * min(len(mine), len(known))):
            found.append((profile, column))
        else:
            left[profile.source.name] = "its ids are not those of the other tables"
    return found


def _guesses(records: Iterable[tuple[Profile, str]], share: int, left: dict[str, str]) -> Iterator[Guess]:
    for profile, record in records:
        try:
            yield guess(profile.source, record, share)
        except CohortError:
            left[profile.source.name] = "nothing in it looks like a reading"


def _of_one_clock(readings: list[Guess], left: dict[str, str]) -> list[Guess]:
    """Those whose times are timestamps, or all others: of the kind of the largest table."""
    if not readings:
        return []
    largest = max(readings, key=lambda found: len(found.profile.file.which))
    stamped = largest.roles.unit == TIMESTAMP
    for found in readings:
        if (found.roles.unit == TIMESTAMP) != stamped:
            left[found.profile.source.name] = "its times are numbers where others are timestamps, or the reverse"
    return [found for found in readings if (found.roles.unit == TIMESTAMP) == stamped]


# Stays and patients -------------------------------------------------------------------------------------------------


def _facts(
    profiles: Sequence[Profile], readings: Sequence[Guess], keys: dict[Path, list[str]], left: dict[str, str]
) -> Iterator[Facts]:
    """What tables of a row a stay, or a patient, say of the records of the readings."""
    records = set().union(*(_ids(found.profile, found.roles.record) for found in readings))
    subjects = set().union(*(_ids(f.profile, f.roles.subject) for f in readings if f.roles.subject))
    stamped = bool(readings) and readings[0].roles.unit == TIMESTAMP
    taken: set[str] = set()
    for by_record in (True, False):
        for profile in profiles:
            names = {short(found.roles.record if by_record else found.roles.subject or "") for found in readings}
            known = records if by_record else subjects
            key = _key(profile, keys[profile.source], names, known)
            if key is None or profile.source.name in taken:
                continue
            subject = next((n for n in _named(profile, SUBJECT) if n != key), None) if by_record else key
            if by_record and subject is not None:
                subjects |= _ids(profile, subject)
            start, form = _start(profile) if by_record and stamped else (None, None)
            found = Facts(profile, key if by_record else None, subject, start, form, _descriptors(profile, key))
            if found.facts or start or (by_record and subject):
                taken.add(profile.source.name)
                yield found
    left |= {p.source.name: "it says nothing of the records" for p in profiles if p.source.name not in taken}


def _key(profile: Profile, keys: Sequence[str], names: set[str], known: set[str]) -> str | None:
    """The column of ids that are those of the readings, rather one of the same name."""
    for column in sorted(keys, key=lambda name: short(name) not in names):
        mine = _ids(profile, column)
        if len(mine & known) >= max(1, IN_COMMON * min(len(mine), len(known))):
            return column
    return None


def _start(profile: Profile) -> tuple[str | None, str | None]:
    """A column of admission times that are timestamps, and their format."""
    for name in _named(profile, START):
        unit = time_unit(profile.columns[name], name)
        if unit is not None and unit[0] == TIMESTAMP:
            return name, unit[1]
    return None, None


def _descriptors(profile: Profile, key: str) -> dict[str, list[Entry]]:
    names = [n for n in profile.columns if known_as(n) in FACT_ALIASES and n != key]
    found: dict[str, list[Entry]] = {}
    for seen in by_code(profile, words(profile.columns[key]), None, names, wide=True):
        name = str(known_as(seen.code))
        if name not in found:
            entries = [Entry((seen,), "")] if name == "gender" else pooled(name, [seen], {})
            found[name] = [entry for entry in entries if not entry.strange]
    return {name: entries for name, entries in found.items() if entries}


def _origin(readings: Sequence[Guess], static: list[Facts]) -> tuple[str, list[Facts]]:
    """Where hour 0 is for all, and of the tables of stays that say it the first alone."""
    first = next((found for found in static if found.start), None)
    static = [found if found is first else replace(found, start=None, format=None) for found in static]
    if first is not None:
        return "column", static
    origins = {found.origin for found in readings}
    if origins == {"column"} or origins == {"admission"}:
        return origins.pop(), static
    return "first", static


def unit_of(name: str, entries: list[Entry]) -> str:
    """The unit of a variable that is made of these entries."""
    return KNOWN[name].unit if name in KNOWN else entries[0].unit
