"""What a column of an unknown table says of time: its unit, its format, and texts that are in no form that is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.names import printable
from levyscreen.records.drafted.offsets import number_unit
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import EMPTY, numbers, words
from levyscreen.records.mapped.mapping import CLOCK, TIMESTAMP
from levyscreen.records.mapped.times import HL7, clock_seconds, microseconds

_SLASHED = ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%I:%M:%S %p", "%I:%M %p")
_DIGITS = "%Y%m%d%H%M%S"
FORMATS = (
    "%d.%m.%Y %H:%M:%S:%f",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%y %H:%M:%S",
    "%d.%m.%y %H:%M",
    "%d.%m.%Y, %H:%M",
    "%d.%m.%Y",
    *(f"{day} {clock}" for day in _SLASHED for clock in _CLOCKS),
    *_SLASHED,
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %I:%M:%S %p",
    "%Y-%m-%d %I:%M %p",
    "%d-%m-%Y %H:%M:%S",
    "%d-%m-%Y %H:%M",
    "%d-%b-%Y %H:%M:%S",
    "%d-%b-%Y %H:%M",
    "%d-%b-%y %H:%M:%S",
    "%d-%b-%y %H:%M",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M",
    "%b %d %Y %I:%M%p",
    _DIGITS,
    HL7,
    "%d%b%Y:%H:%M:%S",
)
LOOKED_AT = 200  # texts, to tell their format
FEW = 20  # of these, to tell which formats are worth a trial
MOST = 0.9  # of the texts, at least, that are in a column's format


def time_unit(column: pa.Array, name: str) -> tuple[str | float, str | None] | None:
    """Unit and format of a column of times; None where it is none."""
    kind = column.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return TIMESTAMP, None
    if pt.is_duration(kind):
        return "hours", None
    if pt.is_string(kind) or pt.is_large_string(kind):
        texts = _some_texts(column)
        if _share(texts, CLOCK, None) >= MOST:
            return CLOCK, None
        form, share = _best_format(texts)
        if share >= MOST:
            # fromisoformat takes a plain number of eight digits for a date
            bare = form in (None, HL7) and all(text.isdigit() for text in texts)
            return None if bare and not name else (TIMESTAMP, form)
    elif not (pt.is_integer(kind) or pt.is_floating(kind)):
        return None
    found = numbers(column, name)
    value = found.value[found.refusal == FINE]
    if 2 * len(value) < (~found.empty).sum():
        return (TIMESTAMP, None) if name else None  # in a form that nobody knows
    return number_unit(value, name)


def _some_texts(column: pa.Array) -> list[str]:
    """Distinct texts of a column, evenly spaced."""
    texts = [word for word in words(column).words if word.lower() not in EMPTY]
    return texts[:: max(1, len(texts) // LOOKED_AT)]


def _best_format(texts: list[str]) -> tuple[str | None, float]:
    """The format that most texts have, the first of several, None for ISO 8601; and how many have it."""
    few = texts[:: max(1, len(texts) // FEW)]
    worth = [form for form in (None, *FORMATS) if _share(few, TIMESTAMP, form) >= 0.5]
    return max(
        ((form, _share(texts, TIMESTAMP, form)) for form in worth), key=lambda each: each[1], default=(None, 0.0)
    )


def _share(texts: list[str], unit: str, form: str | None) -> float:
    """How many of the texts are such times."""
    if form == _DIGITS:  # strptime would take many a number for digits of a time
        texts = [text if len(text) == 14 else "" for text in texts]
    read = [clock_seconds(text) if unit == CLOCK else microseconds(text, form) for text in texts]
    return float(np.mean(~np.isnan(read))) if read else 0.0


def unread_form(column: pa.Array, unit: str | float, form: str | None) -> str | None:
    """The commonest form of a column's texts where most of them are no timestamps of this format, and else None.

    A form has 0 for each digit and a for each letter: no patient's time stands in it.
    """
    if unit != TIMESTAMP or not (pt.is_string(column.type) or pt.is_large_string(column.type)):
        return None
    texts = _some_texts(column)
    if not texts or _share(texts, TIMESTAMP, form) >= 0.5:
        return None
    forms = Counter("".join("0" if c.isdigit() else "a" if c.isalpha() else c for c in text) for text in texts)
    return printable(forms.most_common(1)[0][0])[:40]
