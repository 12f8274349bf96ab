"""Which column of an unknown table is which: by the names that tables give them, else by what is in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.names import printable
from levyscreen.records.drafted.profile import Profile
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import EMPTY, clock_minutes, microseconds, numbers, words
from levyscreen.records.mapped.mapping import CLOCK, FILE, MEDS_COLUMNS, TIMESTAMP


def short(name: str) -> str:
    """A column's name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _names(text: str) -> tuple[str, ...]:
    return tuple(short(name) for name in text.split())


# In the order of preference.
STAY = _names("stay_id icustay_id patientunitstayid admissionid hadm_id encounter_id visit_occurrence_id visit_id stay")
SUBJECT = _names("subject_id subject patient_id patient person_id pid record_id record caseid episode_id series_id id")
TIME = _names(
    """time charttime chart_time timestamp datetime date_time measured_at measurement_datetime observation_time
    observationoffset labresultoffset offset hours hour iculos time_hours minutes minute storetime date"""
)
VARIABLE = _names(
    "variable parameter code item itemid concept_code concept_id label name measurement feature signal test"
)
VALUE = _names("value valuenum numeric_value value_as_number measurement_value result val")
START = _names("intime icu_intime admittime admission_time admit_time admitdatetime icu_admission_time")
# Never a reading: outcomes, counters, other ids, and what says where somebody lay.
NO_READING = _names(
    """sepsislabel label outcome mortality died hospital_expire_flag los unit1 unit2 hospadmtime iculos index unnamed0
    recordid outtime dischtime storetime itemid hadm_id stay_id icustay_id"""
)
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
    "%d%b%Y:%H:%M:%S",
)
LOOKED_AT = 200  # texts, to tell their format
FEW = 20  # of these, to tell which formats are worth a trial
MOST = 0.9  # of the texts, at least, that are in a column's format


@dataclass(frozen=True)
class Roles:
    """A guess at the columns and at what a time is."""

    kind: str
    record: str
    subject: str | None
    time: str
    variable: str | None
    value: str | None
    start: str | None  # column of admission times
    unit: str | float  # of time
    format: str | None
    sure: bool  # whether record and time were known by name


def guess_roles(profile: Profile) -> Roles | None:
    """The roles of a source's columns; None where no column can be a time."""
    names = list(profile.columns)
    if profile.kind == "meds":
        stay = _named(names, STAY)
        return Roles("meds", stay or "subject_id", "subject_id", "time", *_meds(names), None, TIMESTAMP, None, True)
    time = _named(names, TIME) or _by_content(profile, names, lambda c: _time_unit(c, "") is not None)
    if time is None:
        return None
    stay, subject = _named(names, STAY), _named(names, SUBJECT)
    record = stay or subject
    if record is None:
        record = FILE if profile.files > 1 else _by_content(profile, [n for n in names if n != time], _repeats)
    variable, value = _named(names, VARIABLE), _named(names, VALUE)
    long = variable is not None and value is not None and variable != value
    start = _named(names, START)
    rest = [n for n in names if n not in (record, subject, time, start)]
    found = _time_unit(profile.columns[time], time) or ("hours", None)
    return Roles(
        kind="long" if long else "wide",
        record=record or names[0],
        subject=subject if stay and subject != stay else None,
        time=time,
        variable=variable if long else _by_content(profile, rest, _qualifies) if profile.header else None,
        value=value if long else None,
        start=start if start and _time_unit(profile.columns[start], start) == found else None,
        unit=found[0],
        format=found[1],
        sure=bool((stay or subject or record == FILE) and _named(names, TIME)),
    )


def _meds(names: Iterable[str]) -> tuple[str, str]:
    return MEDS_COLUMNS["variable"], MEDS_COLUMNS["value"]


def _named(names: Iterable[str], known: Iterable[str]) -> str | None:
    by_short = {short(name): name for name in names}
    return next((by_short[k] for k in known if k in by_short), None)


def _by_content(profile: Profile, names: Iterable[str], fits: Callable[[pa.Array], bool]) -> str | None:
    return next((name for name in names if fits(profile.columns[name])), None)


def _repeats(column: pa.Array) -> bool:
    """Whether a column may name records: some labels, each of several rows."""
    found = words(column)
    return 0 < len(found.words) - 1 <= len(column) / 2


def _qualifies(column: pa.Array) -> bool:
    """Whether a text says whose value a row holds: a few words, of which neighbouring rows have different ones."""
    if not pt.is_string(column.type):
        return False
    found = words(column)
    changes = float((np.diff(found.which) != 0).mean()) if len(column) > 1 else 0.0
    return 2 <= len(found.words) - 1 <= 50 and changes > 0.5


def _time_unit(column: pa.Array, name: str) -> tuple[str | float, str | None] | None:
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
            return None if all(text.isdigit() for text in texts) and form is None and not name else (TIMESTAMP, form)
    elif not (pt.is_integer(kind) or pt.is_floating(kind)):
        return None
    found = numbers(column, name)
    value = found.value[found.refusal == FINE]
    if 2 * len(value) < (~found.empty).sum():
        return (TIMESTAMP, None) if name else None  # in a form that nobody knows
    return _number_unit(value, name)


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
    read = [clock_minutes(text) if unit == CLOCK else microseconds(text, form) for text in texts]
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
    by_name = (("sec", "seconds"), ("min", "minutes"), ("offset", "minutes"), ("day", "days"), ("hour", "hours"))
    for part, unit in by_name:
        if part in short(name):
            return unit, None
    if not name:  # asked of a column that no name says to be a time
        return None
    return ("hours" if float(np.quantile(value, 0.99)) <= 2000 else "minutes"), None
