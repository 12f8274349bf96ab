"""Columns of somebody's table as labels, numbers and times; each distinct text is judged once, by the grammar."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records.grammar import BLANKS, FINE, judge_value
from levyscreen.records.mapped.mapping import CLOCK, TIMESTAMP, UNITS, Time
from levyscreen.types import LineClass

EMPTY = frozenset({"", "na", "nan", "null", "none", "<na>", "n/a", "."})  # how tables write that there is nothing
_CLOCK = re.compile(r"([0-9]{1,6}):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]*)?))?")
_WHOLE_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}")  # 12,000 is more likely twelve thousand
_SWAPPED = str.maketrans(",.", ".,")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Words(NamedTuple):
    """A column by its distinct texts: `words[which[i]]` is that of row i, blanks around it cut off; "" for none."""

    which: NDArray[np.int64]  # (N,)
    words: list[str]


class Numbers(NamedTuple):
    """A column as numbers, (N,) each."""

    value: NDArray[np.float64]
    refusal: NDArray[np.uint8]  # LineClass; FINE where it is a finite number
    empty: NDArray[np.bool_]  # whether nothing is there, which a wide table writes for "not measured"


class Times(NamedTuple):
    """A column as times: hours are time * scale[0] / scale[1], from wherever it counts; NaN where it is none."""

    time: NDArray[np.float64]  # (N,)
    scale: tuple[float, float]


def words(column: pa.Array) -> Words:
    """Labels, codes or categories; whole numbers lose what a float adds to them, so that 7 and 7.0 are one.

    Raises CohortError for a column of lists or the like.
    """
    if pt.is_nested(column.type):
        raise CohortError(f"a column holds {column.type}, neither numbers nor texts: name another in [columns]")
    coded = column if pt.is_dictionary(column.type) else column.dictionary_encode()
    if pt.is_fixed_size_binary(coded.dictionary.type):
        texts = [_hexadecimal(value) for value in coded.dictionary.to_pylist()]
    elif not pt.is_large_string(coded.dictionary.type) and not pt.is_string(coded.dictionary.type):
        texts = [_label(value) for value in coded.dictionary.to_pylist()]
    else:
        texts = [(text or "").strip(BLANKS) for text in coded.dictionary.to_pylist()]
    which = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return Words(which, [*texts, ""])


def _hexadecimal(value: bytes | None) -> str:
    """16 bytes as the UUID that they most likely are."""
    if value is None:
        return ""
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()


def _label(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def ids(column: pa.Array) -> Words:
    """Labels of records or subjects: 7.0 is 7 in text too, where pandas had made a float of it."""
    found = words(column)
    return Words(found.which, [word[:-2] if _WHOLE_FLOAT.fullmatch(word) else word for word in found.words])


def numbers(column: pa.Array, name: str, decimal: str = ".") -> Numbers:
    """Values; `decimal` is "." or "," and of texts. Raises CohortError for a column of neither numbers nor texts."""
    kind = column.type
    if _is_text(kind):
        return _judged(words(column), decimal)
    if pt.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not _is_number(kind):
        raise CohortError(f"column {name} holds {kind}, neither numbers nor texts: name another, or ignore it")
    value = (
        _decimal(column)
        if pt.is_float32(kind)
        else column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )
    null = column.is_null().to_numpy(zero_copy_only=False)
    refusal = np.where(np.isfinite(value), FINE, LineClass.NOT_FINITE).astype(np.uint8)
    refusal[null] = LineClass.NOT_A_NUMBER
    return Numbers(np.where(refusal == FINE, value, 0.0) + 0.0, refusal, null | np.isnan(value))


def can_be_numbers(kind: pa.DataType) -> bool:
    """Whether `numbers` takes a column of this type."""
    return _is_text(kind) or bool(pt.is_boolean(kind)) or _is_number(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or pt.is_null(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_dictionary(kind) or pt.is_string(kind) or pt.is_large_string(kind))


def _judged(found: Words, decimal: str) -> Numbers:
    verdicts = [judge(word, decimal) for word in found.words]
    value, refusal = (np.array(part) for part in zip(*verdicts, strict=True))
    empty = np.array([word.lower() in EMPTY for word in found.words])
    return Numbers(value[found.which], refusal.astype(np.uint8)[found.which], empty[found.which])


def judge(word: str, decimal: str) -> tuple[float, LineClass]:
    """With a decimal comma a point is no part of a number: 1.234 may be a thousand or one."""
    return judge_value(word if decimal == "." else word.translate(_SWAPPED))


def has_other_decimal(column: pa.Array, decimal: str) -> NDArray[np.bool_]:
    """Which values are texts that would be numbers if the decimal sign were the other one, (N,)."""
    if not _is_text(column.type):
        return np.zeros(len(column), bool)
    found = words(column)
    other = "." if decimal == "," else ","
    looks = [other in word and not THOUSANDS.fullmatch(word) and judge(word, other)[1] == FINE for word in found.words]
    return np.array(looks)[found.which]


def pointed(column: pa.Array) -> pa.Array:
    """A column whose texts that are numbers with a decimal comma have a point instead."""
    if not _is_text(column.type):
        return column
    found = words(column)
    swapped = [word.replace(",", ".") if "," in word and judge(word, ",")[1] == FINE else word for word in found.words]
    return pa.array(swapped, pa.string()).take(pa.array(found.which))


def _decimal(column: pa.Array) -> NDArray[np.float64]:
    """A float32 as the shortest decimal number that is that float32: 36.6, which was written, and not 36.599998."""
    coded = column.dictionary_encode()
    distinct = coded.dictionary.to_numpy(zero_copy_only=False)
    exact = np.append(distinct.astype(str).astype(np.float64), np.nan)
    return exact[coded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]


# Times --------------------------------------------------------------------------------------------------------------


def times(column: pa.Array, name: str, time: Time) -> Times:
    """Times in the mapping's unit; a column of timestamps or durations is what it is, whatever the mapping says.

    Raises CohortError where numbers are there for timestamps, or timestamps for numbers.
    """
    kind = column.type
    exact = UNITS["microseconds"]
    if pt.is_timestamp(kind) or pt.is_date(kind):
        if time.unit != TIMESTAMP:
            raise CohortError(
                f'column {name} holds timestamps: set unit = "{TIMESTAMP}" under [time], not {time.unit!r}'
            )
        return Times(
            _floats(column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())), exact
        )
    if pt.is_duration(kind) and time.unit != TIMESTAMP:
        return Times(_floats(column.cast(pa.duration("us"), safe=False).cast(pa.int64())), exact)
    if _is_text(kind):
        return Times(_parsed(column, time), time.scale)
    if time.unit in (TIMESTAMP, CLOCK) or not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        raise CohortError(
            f"column {name} holds {kind}, not {time.unit}: name their unit under [time], or another column"
        )
    return Times(_decimal(column) if pt.is_float32(kind) else _floats(column), time.scale)


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Whole microseconds are exact in a float64 until the year 2255."""
    found: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(found), found, np.nan)


def _parsed(column: pa.Array, time: Time) -> NDArray[np.float64]:
    if time.unit == TIMESTAMP and time.format is None and not pt.is_dictionary(column.type):
        try:  # at once, where all are plain ISO 8601
            return _floats(pc.cast(column, pa.timestamp("us")).cast(pa.int64()))
        except pa.ArrowInvalid:
            pass
    found = words(column)
    return np.array([_one(word, time) for word in found.words])[found.which]


def _one(word: str, time: Time) -> float:
    parse: Callable[[str], float] = {
        TIMESTAMP: lambda text: microseconds(text, time.format),
        CLOCK: clock_seconds,
    }.get(time.unit, lambda text: _number(text, time.decimal))
    return parse(word)


def _number(text: str, decimal: str) -> float:
    value, refusal = judge(text, decimal)
    return value if refusal == FINE else math.nan


def clock_seconds(text: str) -> float:
    """Seconds of HH:MM or HH:MM:SS, of any number of hours; NaN where it is none."""
    found = _CLOCK.fullmatch(text.strip(BLANKS))
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3] or 0) if found else math.nan


def microseconds(text: str, form: str | None) -> float:
    """Microseconds since 1970 of an ISO 8601 or otherwise formatted timestamp, in UTC if it says no zone; or NaN."""
    try:
        read = datetime.datetime.fromisoformat(text) if form is None else datetime.datetime.strptime(text, form)
    except ValueError:
        return math.nan
    if read.tzinfo is None:
        read = read.replace(tzinfo=datetime.UTC)
    return float((read - _EPOCH) // _MICROSECOND)
