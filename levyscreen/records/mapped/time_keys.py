"""What a mapping says of times: their unit and format, and where hour 0 is."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import dataclass

from levyscreen.config import MOST
from levyscreen.records.mapped.toml_table import Table

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


def time_of(table: Table, usual: str | None = None, alone: bool = True) -> Time:
    """The times of a table, in the unit `usual` where it names none; of one of several, hour 0 may be in another.

    Raises CohortError for what it cannot mean.
    """
    unit = table.get("unit", usual)
    if isinstance(unit, int | float) and not isinstance(unit, bool) and 0 < unit <= MOST:
        name, scale = f"{unit} seconds", (float(unit), 3600.0)
    else:
        name = table.one_of("unit", (TIMESTAMP, CLOCK, *UNITS), usual)
        scale = UNITS.get(name, UNITS["microseconds" if name == TIMESTAMP else "seconds"])
    origin = table.one_of("origin", ORIGINS, "first" if name == TIMESTAMP else "admission")
    column, code, form, zone = (table.text(key, None) for key in ("column", "code", "format", "zone"))
    for key, given in (("column", column), ("code", code)):
        if (given is None) == (origin == key) and (alone or given is not None):
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
