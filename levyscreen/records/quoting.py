"""What a message may quote of a file's own text: names that the mapping or the schema knows, and nothing else.

A table that is read in the wrong encoding, without its header or with two columns swapped has patients' values and ids
where names of columns, codes and units are expected. So whatever the mapping and the schema do not know is told of by
its place, which lets its owner look it up, and a library's own message, which may quote a row, is put in our words.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import zlib
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from levyscreen.names import printable
from levyscreen.records.units import SPELLINGS, canonical
from levyscreen.variables import DESCRIPTORS, FACTS, PHYSIONET2012

SCHEMA = frozenset((*PHYSIONET2012.names, *DESCRIPTORS, *FACTS))
NAMED = 12  # columns in a message
_IN_UNIT = re.compile(r"(.*) \[(.*)\]", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\((?!at )[^)]*\)""")
_WORD = re.compile(r"[a-z]+[0-9]*")
# What Arrow and Python say of a damaged file, by a part of it, and what that means.
_REASONS = (
    ("straddl", "a row is longer than 4 MB"),
    ("invalid UTF8", "it holds bytes that are no UTF-8"),
    ("field larger than field limit", "a field of its first row is longer than 128 kB"),
    ("Expected", "its rows have different numbers of fields"),
    ("magic bytes", "it does not begin and end as Parquet does"),
    ("CRC", "a checksum does not hold"),
    ("memory", "there is not enough memory"),
)


def shown(name: str, known: Collection[str]) -> str | None:
    """A name as a message may have it, where it is among the `known` or the schema's; None where it may be data.

    So is a code with the unit of its values, `glu [g/L]`, where the code is known and the unit is one.
    """
    if name in known or name in SCHEMA:
        return printable(name)[:60]
    found = _IN_UNIT.fullmatch(name)
    if found and found[1] in known and (found[2] == "no unit" or canonical(found[2]) in SPELLINGS):
        return printable(name)[:60]
    return None


def columns(names: Sequence[str], known: Collection[str] = ()) -> str:
    """The columns that a table has, for a message: those that are known, and how many others."""
    named = [text for name in names if (text := shown(name, known)) is not None]
    others = len(names) - len(named[:NAMED])
    said = f"{others} column{'' if others == 1 else 's'} of names that are not shown, for they may be data"
    return ", ".join([*named[:NAMED], *([said] if others else [])])


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Which of a table's columns has a name like this one, by its place, the first being column 1."""
    near = difflib.get_close_matches(name, [other for other in names if len(other) <= 4 * len(name) + 20], 1)
    return f"column {names.index(near[0]) + 1}" if near else None


def places(numbers: Iterable[int]) -> str:
    """Places of columns, counted from 1."""
    return " and ".join(map(str, numbers))


def kind(of: pa.DataType) -> str:
    """A column's type by its first word: what follows holds names of fields and time zones, which are a file's text."""
    found = _WORD.match(str(of))
    return found[0] if found else "another type"


def reason(error: BaseException) -> str:
    """Why a file cannot be read, in our words; an error of the system says so itself."""
    if isinstance(error, OSError) and error.strerror and error.errno is not None:
        return error.strerror
    if isinstance(error, EOFError | zlib.error) or type(error).__name__ == "BadGzipFile":
        return "what is packed in it is damaged or cut short"
    if isinstance(error, UnicodeError):
        return "it holds bytes that are not of its encoding"
    if isinstance(error, Bounded):
        return str(error)
    if isinstance(error, tomllib.TOMLDecodeError):
        return _QUOTED.sub("...", str(error))
    return next((said for part, said in _REASONS if part in str(error)), f"it is damaged ({type(error).__name__})")


class Bounded(ValueError):
    """A file asks for more than is taken in at once; the text is ours, and quotes nothing."""
