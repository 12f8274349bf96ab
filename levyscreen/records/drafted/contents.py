"""What is in a column of an unknown table: times and of what kind, numbers, names of things, ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.records.drafted.aliases import known_as, one_word_each, short, words_in
from levyscreen.records.drafted.clocks import time_unit
from levyscreen.records.drafted.profile import Profile
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import can_be_numbers, ids, numbers, words
from levyscreen.records.mapped.mapping import FILE
from levyscreen.records.units import canonical, is_unit

MANY_ROWS = 200  # in which whole numbers are not all different by chance
MOST_UNITS = 200
MOST_NAMES = 2000  # of a long table's variables
NEARLY_ALL = 0.5  # of the rows: labels of records that are more than that are labels of rows
FEW_ROWS = 20  # in which a record may have one row by chance
# Words that end the names of columns of identifiers, codes and states.
_OF_IDENTIFIERS = one_word_each(
    "id ids key keys sk uuid guid status type concept code cd seq sequence version index csn mrn hash"
)
_ENDS_IN_ID = ("acid", "fluid", "lipid", "thyroid", "steroid", "opioid", "chlorid", "bromid", "rapid", "solid", "valid")


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
    if not can_be_numbers(column.type):
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
    """Whether a column numbers its rows: whole numbers, nearly each of them there once, in many rows or by its name."""
    if not is_numeric(column):
        return False
    value = numbers(column, name).value
    if not (value == np.floor(value)).all():
        return False
    share = len(np.unique(value)) / len(value)
    return share > (0.9 if len(value) >= MANY_ROWS else 0.999) and (
        len(value) >= MANY_ROWS or short(name).endswith(("id", "index", "nr"))
    )


def is_identifier(name: str) -> bool:
    """Whether a column is named as one of identifiers, codes or states, of which none is a measurement."""
    said = words_in(name)
    if not said or known_as(name):
        return False
    return said[-1] in _OF_IDENTIFIERS or (said[-1].endswith("id") and not said[-1].endswith(_ENDS_IN_ID))


def identifies(column: pa.Array, name: str) -> bool:
    """Whether a column of an unknown name holds identifiers: by its name, or by whole numbers that hardly repeat."""
    if is_identifier(name) and not (is_numeric(column) and has_fractions(column)):
        return True
    return counts_rows(column, name)


def repeats(column: pa.Array) -> bool:
    """Whether a column may name records: some labels, each of several rows."""
    if pt.is_nested(column.type):
        return False
    found = words(column)
    return 0 < len(found.words) - 1 <= len(column) / 2


def names_records(column: pa.Array, name: str) -> bool:
    """Whether a column that is called as one of records may be it: filled in most rows, with labels that repeat."""
    if pt.is_nested(column.type):
        return False
    found = ids(column, name)
    filled = np.array([bool(word) for word in found.words])[found.which]
    distinct = len(np.unique(found.which[filled]))
    if 2 * filled.sum() < len(column) or not distinct:
        return False
    return distinct <= NEARLY_ALL * filled.sum() or len(column) < FEW_ROWS


def qualifies(column: pa.Array) -> bool:
    """Whether a text says whose value a row holds: a few words, of which neighbouring rows have different ones."""
    if not pt.is_string(column.type):
        return False
    found = words(column)
    changes = float((np.diff(found.which) != 0).mean()) if len(column) > 1 else 0.0
    return 2 <= len(found.words) - 1 <= 50 and changes > 0.5
