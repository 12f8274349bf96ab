"""Times that are numbers: an epoch, digits of a date, or an offset, and in which unit; by the whole column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levyscreen.records.drafted.aliases import short, tokens
from levyscreen.records.mapped.mapping import TIMESTAMP
from levyscreen.records.mapped.times import HL7

Unit = tuple[str | float, str | None]

_EPOCHS = (  # from 1979 on, for dates are shifted to protect patients
    (3e8, 8e9, "seconds"),
    (3e11, 8e12, "milliseconds"),
    (3e14, 8e15, "microseconds"),
    (9e17, 8e18, "nanoseconds"),
)
_TICKS = (5e17, 7e17)  # of 100 ns since the year 1
_SERIAL_DAYS = (20_000, 120_000)  # since 1900, as spreadsheets count: 1954 to 2228
_JULIAN_DAYS = (2_415_000, 2_600_000)  # since 4713 BC: 1899 to 2406
_DIGITS = (8, 10, 12, 14)
MOST = 0.9  # of the numbers, at least, that fit
# Of a time that is a number: words of its name, a part of it, and the unit.
NUMBER_UNITS = (
    ({"ms", "msec", "millis"}, "millisec", "milliseconds"),
    ({"s", "secs"}, "second", "seconds"),
    ({"sec"}, "sekunde", "seconds"),
    ({"min", "mins"}, "minute", "minutes"),
    ({"h", "hr", "hrs"}, "hour", "hours"),
    ({"std"}, "stunde", "hours"),
    ({"d"}, "day", "days"),
)
_HOURS = 2_000  # an offset up to which is one in hours
_STAY_HOURS = 336  # two weeks
_LONGEST_HOURS = 720
_SHORTEST_HOURS = 4  # of a stay: an offset with fractions that ends before is one in days


def number_unit(value: NDArray[np.float64], name: str) -> Unit | None:
    """Unit and format of a column of numbers; None where it is no time. Without a name only what is plain counts."""
    if not len(value):
        return None
    plain = _plain_date(value)
    if plain is not None and (name or plain[0] != TIMESTAMP):
        return plain
    said = _named_unit(value, name)
    if said is not None or not name:
        return said
    if _within(value, *_SERIAL_DAYS) or (_within(value, *_JULIAN_DAYS) and _have_fractions(value)):
        return "days", None
    return _by_span(value), None


def _plain_date(value: NDArray[np.float64]) -> Unit | None:
    if _are_digits_of_dates(value):
        return TIMESTAMP, HL7
    for low, high, unit in _EPOCHS:
        if _within(value, low, high):
            return unit, None
    return (1e-7, None) if _within(value, *_TICKS) else None


def _within(value: NDArray[np.float64], low: float, high: float) -> bool:
    """Whether the numbers lie in a range, and none near 0, as offsets of each record do."""
    least, middle = np.quantile(np.abs(value), [0.02, 0.5])
    return bool(low <= middle <= high and least >= low)


def _are_digits_of_dates(value: NDArray[np.float64]) -> bool:
    """Whether numbers are dates written without signs between: 202103040506."""
    if (value != np.floor(value)).any() or (value < 1e7).any():
        return False
    count = np.floor(np.log10(value)) + 1
    day = np.floor(value / 10.0 ** (count - 8))
    year, month, of_month = day // 10_000, day // 100 % 100, day % 100
    fine = np.isin(count, _DIGITS) & (year >= 1900) & (year < 2300)
    fine &= (month >= 1) & (month <= 12) & (of_month >= 1) & (of_month <= 31)
    for place, most in ((10, 23), (12, 59), (14, 59)):
        fine &= (count < place) | (np.floor(value / 10.0 ** (count - place)) % 100 <= most)
    return bool(fine.mean() >= MOST)


def _named_unit(value: NDArray[np.float64], name: str) -> Unit | None:
    """The unit that a name says; an offset of which no more is known is in minutes, as far as that can be."""
    said, plain = tokens(name), short(name)
    for of_words, part, unit in NUMBER_UNITS:
        if said & of_words or part in plain:
            return unit, None
    top = float(np.quantile(np.abs(value), 0.95))
    too_short = top < 60 * _SHORTEST_HOURS and _have_fractions(value)
    if "offset" in plain and not too_short and top <= 60 * _LONGEST_HOURS:
        return "minutes", None
    return None


def _by_span(value: NDArray[np.float64]) -> str:
    """The unit in which most stays are as long as stays are, and in which the numbers are as whole as clocks are."""
    size = np.abs(value)
    top = float(np.quantile(size, 0.95))
    if float(np.quantile(size, 0.99)) <= _HOURS:
        return "days" if _are_days(size[size > 0], top) else "hours"
    every_minute = bool((size % 60 == 0).mean() >= MOST)
    every_hour = bool((size % 3600 == 0).mean() >= MOST)
    if not every_hour and top / 60 <= (_STAY_HOURS if every_minute else _LONGEST_HOURS):
        return "minutes"
    return next(
        unit
        for most, unit in ((1e7, "seconds"), (3e10, "milliseconds"), (3e13, "microseconds"), (np.inf, "nanoseconds"))
        if top < most
    )


def _are_days(size: NDArray[np.float64], top: float) -> bool:
    """Whether numbers with fractions are days: of these hours and minutes are parts, where of hours minutes are."""
    if not len(size) or not _have_fractions(size) or _parts(size, 60, 0.011):
        return False
    return top <= _SHORTEST_HOURS or _parts(size, 24, 0.02) or _parts(size, 1440, 0.1)


def _have_fractions(size: NDArray[np.float64]) -> bool:
    return bool((size == np.floor(size)).mean() <= 0.5)


def _parts(size: NDArray[np.float64], of: int, tolerance: float) -> bool:
    """Whether most numbers are whole multiples of one part of so many."""
    return bool((np.abs(size * of - np.round(size * of)) <= tolerance).mean() >= MOST)
