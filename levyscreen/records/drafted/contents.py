"""What is in a column of an unknown table: times and of what kind, numbers, names of things, ids."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.records.drafted.aliases import known_as
from levyscreen.records.drafted.profile import Profile
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import clock_minutes, microseconds, numbers, words
from levyscreen.records.mapped.mapping import CLOCK, FILE, TIMESTAMP
from levyscreen.records.units import canonical, is_unit

FORMATS = (
    "%d.%m.%Y %H:%M:%S:%f",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%d%b%Y:%H:%M:%S",
)
LOOKED_AT = 200  # texts, to tell their format
# Of a time that is a number: words of its name, a part of it, and the unit; an offset alone is eICU's, in minutes.
NUMBER_UNITS = (
    ({"s", "secs"}, "second", "seconds"),
    ({"sec"}, "sekunde", "seconds"),
    ({"min", "mins"}, "minute", "minutes"),
    ({"h", "hr", "hrs"}, "hour", "hours"),
    ({"std"}, "stunde", "hours"),
    ({"d"}, "day", "days"),
    (set[str](), "offset", "minutes"),
)
MANY_ROWS = 200  # in which whole numbers are not all different by chance
MOST_UNITS = 200
MOST_NAMES = 2000  # of a long table's variables


def short(name: str) -> str:
    """A column's name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def tokens(name: str) -> set[str]:
    """The words of a name: offset_hours, OffsetHours."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", name)}


def is_constant(profile: Profile, record: str | None, name: str) -> bool:
    """Whether a column says one thing in all rows of each record, and records have several rows."""
    of = profile.file if record == FILE else None if record is None else words(profile.columns[record])
    if of is None:
        return False
    said = words(profile.columns[name])
    pairs = np.unique(of.which * len(said.words) + said.which)
    return len(pairs) == len(np.unique(of.which)) < len(of.which)


def is_numeric(column: pa.Array) -> bool:
    """Whether most of what is there is numbers."""
    if pt.is_nested(column.type) or pt.is_temporal(column.type) or pt.is_binary(column.type):
        return False
    found = numbers(column, "")
    there = ~found.empty
    return bool(there.any()) and float((found.refusal[there] == FINE).mean()) > 0.5


def names_things(column: pa.Array) -> bool:
    """Whether a column may name what was measured: texts, a few of them, each again and again."""
    if not (pt.is_string(column.type) or pt.is_large_string(column.type) or pt.is_dictionary(column.type)):
        return False
    count = len(words(column).words) - 1
    return 2 <= count <= min(MOST_NAMES, len(column) / 5) and not is_numeric(column) and time_unit(column, "") is None


def has_fractions(column: pa.Array) -> bool:
    """Whether some of a column's numbers are no whole ones, as ids would be."""
    value = numbers(column, "").value
    return bool((value != np.floor(value)).any())


def says_units(column: pa.Array) -> bool:
    """Whether a column holds units: a few texts, nearly all of them units."""
    if not (pt.is_string(column.type) or pt.is_large_string(column.type) or pt.is_dictionary(column.type)):
        return False
    said = [word for word in words(column).words if canonical(word)]
    return 0 < len(said) <= MOST_UNITS and sum(map(is_unit, said)) > 0.8 * len(said) and not is_numeric(column)


def known_words(column: pa.Array) -> float:
    """Which part of a column's words are names of usual variables."""
    found = [known_as(word) is not None for word in words(column).words if word]
    return sum(found) / len(found)


def shared(profile: Profile, record: str, time: str) -> float:
    """Which part of the rows have a record and a time that another row has too."""
    of = profile.file if record == FILE else words(profile.columns[record])
    said = words(profile.columns[time])
    _, which, count = np.unique(of.which * len(said.words) + said.which, return_inverse=True, return_counts=True)
    return float((count[which] > 1).mean())


def counts_rows(column: pa.Array, name: str) -> bool:
    """Whether a column numbers its rows: whole numbers, each there once, in many rows or under a name of an id."""
    if not is_numeric(column):
        return False
    value = numbers(column, name).value
    distinct = len(np.unique(value)) == len(value) and bool((value == np.floor(value)).all())
    return distinct and (len(value) >= MANY_ROWS or short(name).endswith(("id", "index", "nr")))


def repeats(column: pa.Array) -> bool:
    """Whether a column may name records: some labels, each of several rows."""
    found = words(column)
    return 0 < len(found.words) - 1 <= len(column) / 2


def qualifies(column: pa.Array) -> bool:
    """Whether a text says whose value a row holds: a few words, of which neighbouring rows have different ones."""
    if not pt.is_string(column.type):
        return False
    found = words(column)
    changes = float((np.diff(found.which) != 0).mean()) if len(column) > 1 else 0.0
    return 2 <= len(found.words) - 1 <= 50 and changes > 0.5


def time_unit(column: pa.Array, name: str) -> tuple[str | float, str | None] | None:
    """Unit and format of a column of times; None where it is none."""
    kind = column.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return TIMESTAMP, None
    if pt.is_duration(kind):
        return "hours", None
    if pt.is_string(kind) or pt.is_large_string(kind):
        texts = [word for word in words(column).words if word][:LOOKED_AT]
        if texts and all(clock_minutes(text) == clock_minutes(text) for text in texts):
            return CLOCK, None
        for form in (None, *FORMATS):
            if texts and all(microseconds(text, form) == microseconds(text, form) for text in texts):
                # fromisoformat takes a plain number of eight digits for a date
                return (
                    None if all(text.isdigit() for text in texts) and form is None and not name else (TIMESTAMP, form)
                )
    elif not (pt.is_integer(kind) or pt.is_floating(kind)):
        return None
    found = numbers(column, name)
    return _number_unit(found.value[found.refusal == FINE], name)


def _number_unit(value: np.ndarray, name: str) -> tuple[str | float, str | None] | None:
    if not len(value):
        return None
    middle = float(np.median(np.abs(value)))
    epochs = (
        (9e8, 3e9, "seconds"),
        (9e11, 3e12, "milliseconds"),
        (9e14, 3e15, "microseconds"),
        (9e17, 3e18, "nanoseconds"),
    )
    for low, high, unit in epochs:
        if low <= middle <= high:
            return unit, None
    if 5e17 <= middle <= 7e17:
        return 1e-7, None  # ticks of 100 ns since the year 1
    said, plain = tokens(name), short(name)
    for of_words, part, unit in NUMBER_UNITS:
        if said & of_words or part in plain:
            return unit, None
    if not name:  # asked of a column that no name says to be a time
        return None
    return ("hours" if float(np.quantile(value, 0.99)) <= 2000 else "minutes"), None
