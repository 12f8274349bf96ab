"""Columns of somebody's table as times: timestamps, digits of a date, clocks, and numbers of some unit."""

from __future__ import annotations

import datetime
import math
import re
import zoneinfo
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records import quoting
from levyscreen.records.grammar import BLANKS, FINE
from levyscreen.records.mapped.cells import Words, exact_decimals, is_number, is_text, judge, words
from levyscreen.records.mapped.mapping import CLOCK, TIMESTAMP, UNITS, Time

HL7 = "HL7"  # in place of a format: digits of a date and, as far as they are there, of a time
_HL7 = re.compile(r"([0-9]{8})(?:([0-9]{2})(?:([0-9]{2})(?:([0-9]{2})(\.[0-9]{1,6})?)?)?)?([+-][0-9]{4})?")
_CLOCK = re.compile(r"(?:([0-9]{1,5}) days?,? )?([0-9]{1,6}):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]*)?))?")
_LENGTHS = {"%Y%m%d": 8, "%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}  # which strptime does not hold to
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
# Microseconds of what a timestamp may be: the years 1 to 9999.
CALENDAR = tuple(
    (each.replace(tzinfo=datetime.UTC) - _EPOCH) / _MICROSECOND
    for each in (datetime.datetime.min, datetime.datetime.max)
)
# Microseconds of each temporal unit: (times, divided by).
_PARTS = {"day": (86_400e6, 1), "s": (1e6, 1), "ms": (1e3, 1), "us": (1.0, 1), "ns": (1.0, 1_000)}


class Times(NamedTuple):
    """A column as times: hours are time * scale[0] / scale[1], from wherever it counts; NaN where it is none."""

    time: NDArray[np.float64]  # (N,)
    scale: tuple[float, float]
    zoned: frozenset[bool] = frozenset()  # of timestamps, whether they say a zone, as far as nothing else says it


def times(column: pa.Array, name: str, time: Time) -> Times:
    """Times in the mapping's unit; a column of timestamps or durations is what it is, whatever the mapping says.

    Raises CohortError where numbers are there for timestamps, or timestamps for numbers.
    """
    kind = column.type
    if pt.is_null(kind):
        return Times(np.full(len(column), np.nan), time.scale)
    if pt.is_timestamp(kind) or pt.is_date(kind):
        if time.unit != TIMESTAMP:
            raise CohortError(
                f'column {name} holds timestamps: set unit = "{TIMESTAMP}" under [time], not {time.unit!r}'
            )
        return _stored_timestamps(column, time.zone)
    if pt.is_duration(kind) and time.unit != TIMESTAMP:
        return Times(_microseconds(column), UNITS["microseconds"])
    if time.unit == TIMESTAMP and time.format is not None and is_number(kind):
        return _parsed(_digits(column), time)
    if is_text(kind):
        return _parsed(column, time)
    if time.unit in (TIMESTAMP, CLOCK) or not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        raise CohortError(
            f"column {name} holds {quoting.kind(kind)}, not {time.unit}: name the unit under [time], or another column"
        )
    return Times(exact_decimals(column) if pt.is_float32(kind) else _floats(column), time.scale)


def _digits(column: pa.Array) -> pa.Array:
    """Whole numbers as texts: the digits of a date."""
    return column.cast(pa.int64(), safe=False).cast(pa.string())


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Whole microseconds are exact in a float64 until the year 2255."""
    found: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(found), found, np.nan)


def _stored_timestamps(column: pa.Array, zone: str | None) -> Times:
    """Timestamps of Parquet, whose column has a zone or none."""
    own = getattr(column.type, "tz", None)
    moments = _in_calendar(_microseconds(column))
    if own is None and zone is not None:
        moments = _from_zone(moments, zone)
    return Times(moments, UNITS["microseconds"], _zoned({own is not None}, zone))


def _from_zone(moments: NDArray[np.float64], zone: str) -> NDArray[np.float64]:
    """Microseconds since 1970 as a clock of that zone counts them, in UTC."""
    local = pa.array(moments, from_pandas=True).cast(pa.int64()).cast(pa.timestamp("us"))
    return _floats(pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64()))


def _in_calendar(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Timestamps, NaN where they lie outside the years that there are."""
    return np.where((time >= CALENDAR[0]) & (time <= CALENDAR[1]), time, np.nan)


def _microseconds(column: pa.Array) -> NDArray[np.float64]:
    """Timestamps, dates or durations, (N,), NaN for none; not by a cast of Arrow's, in which what is large wraps."""
    plain = column.view(pa.int32() if pt.is_date32(column.type) else pa.int64())
    count = plain.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    times, by = _PARTS["day" if pt.is_date32(column.type) else getattr(column.type, "unit", "ms")]
    found = np.floor_divide(count, by).astype(np.float64) * times
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), found, np.nan)


def _zoned(found: set[bool], zone: str | None) -> frozenset[bool]:
    """Whether times say a zone; all do where the mapping says that of those without."""
    return frozenset() if zone is not None else frozenset(found)


def _parsed(column: pa.Array, time: Time) -> Times:
    if time.unit == TIMESTAMP and time.format is None and not pt.is_dictionary(column.type):
        try:  # at once, where all are plain ISO 8601 without a zone
            return _stored_timestamps(pc.cast(column, pa.timestamp("us")), time.zone)
        except pa.ArrowInvalid:
            pass
    found = words(column)
    if time.unit == TIMESTAMP:
        return _timestamps(found, time)
    parse: Callable[[str], float] = clock_seconds if time.unit == CLOCK else lambda text: _number(text, time.decimal)
    return Times(np.array([parse(word) for word in found.words])[found.which], time.scale)


def _timestamps(found: Words, time: Time) -> Times:
    read = [_moment(word, time.format) for word in found.words]
    zone = None if time.zone is None else zoneinfo.ZoneInfo(time.zone)
    said = {moment.tzinfo is not None for moment in read if moment is not None}
    values = [math.nan if moment is None else _since_1970(moment, zone) for moment in read]
    return Times(np.array(values)[found.which], time.scale, _zoned(said, time.zone))


def _number(text: str, decimal: str) -> float:
    value, refusal = judge(text, decimal)
    return value if refusal == FINE else math.nan


def clock_seconds(text: str) -> float:
    """Seconds of HH:MM or HH:MM:SS, of any number of hours, or of 1 days 05:06:07; NaN where it is none."""
    found = _CLOCK.fullmatch(text.strip(BLANKS))
    if not found:
        return math.nan
    return int(found[1] or 0) * 86_400 + int(found[2]) * 3600 + int(found[3]) * 60 + float(found[4] or 0)


def microseconds(text: str, form: str | None) -> float:
    """Microseconds since 1970 of an ISO 8601 or otherwise formatted timestamp, in UTC if it says no zone; or NaN."""
    read = _moment(text, form)
    return math.nan if read is None else _since_1970(read, None)


def _moment(text: str, form: str | None) -> datetime.datetime | None:
    return _hl7(text) if form == HL7 else _as_formatted(text, form)


def _since_1970(read: datetime.datetime, zone: datetime.tzinfo | None) -> float:
    """Microseconds; of a time without a zone in the zone given, by default UTC."""
    if read.tzinfo is None:
        read = read.replace(tzinfo=zone or datetime.UTC)
    return float((read - _EPOCH) // _MICROSECOND)


def _as_formatted(text: str, form: str | None) -> datetime.datetime | None:
    """A text read by fromisoformat or strptime; digits alone are as many as their format has, or none of its dates."""
    if form in _LENGTHS and len(text) != _LENGTHS[form]:
        return None
    try:
        return datetime.datetime.fromisoformat(text) if form is None else datetime.datetime.strptime(text, form)
    except ValueError:
        return None


def _hl7(text: str) -> datetime.datetime | None:
    """YYYYMMDD[HH[MM[SS[.S]]]][+ZZZZ], as HL7 and many exports write times; a float's .0 behind it says nothing."""
    found = _HL7.fullmatch(text.removesuffix(".0"))
    if found is None:
        return None
    day, hour, minute, second, fraction, zone = (part or "" for part in found.groups())
    clock = f"{day}{hour or '00'}{minute or '00'}{second or '00'}{fraction or '.0'}{zone}"
    return _as_formatted(clock, "%Y%m%d%H%M%S.%f" + ("%z" if zone else ""))
