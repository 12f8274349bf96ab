"""Which column of an unknown table is which: by the names that tables give them, else by what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.errors import CohortError
from levyscreen.records.drafted.aliases import known_as, short, tokens
from levyscreen.records.drafted.clocks import time_unit
from levyscreen.records.drafted.contents import (
    counts_rows,
    has_fractions,
    is_constant,
    is_identifier,
    is_numeric,
    known_words,
    names_records,
    names_things,
    qualifies,
    repeats,
    says_units,
    shared,
)
from levyscreen.records.drafted.datasets import data_set
from levyscreen.records.drafted.profile import Profile
from levyscreen.records.drafted.sources import source_of
from levyscreen.records.mapped.cells import words
from levyscreen.records.mapped.mapping import CLOCK, FILE, MEDS_COLUMNS, TIMESTAMP, UNITS, Time
from levyscreen.records.mapped.times import clock_seconds, times
from levyscreen.records.units import canonical, is_unit


def names_of(text: str) -> tuple[str, ...]:
    """The names of columns in a text, in plain letters."""
    return tuple(short(name) for name in text.split())


# In the order of preference.
STAY = names_of(
    """stay_id icustay_id patientunitstayid admissionid visit_detail_id hadm_id encounter_id encounter.reference
    visit_occurrence_id visit_id stay encounter fallnummer fall_id fallnr aufnahmenummer aufnahme_id case_number
    csn"""
)
SUBJECT = names_of(
    """subject_id subject.reference subject patient_id patient.reference patient person_id pid record_id record
    caseid episode_id series_id patienten_id patientennummer patientnr pat_id patnr mrn uniquepid id"""
)
TIME = names_of(
    """time charttime chart_time timestamp datetime date_time measured_at measurement_datetime observation_time
    measurement_date observation_datetime observation_date effectivedatetime effectiveinstant
    effectiveperiod.start effective_datetime issued observationoffset labresultoffset nursingchartoffset
    physicalexamoffset respchartoffset intakeoutputoffset measuredat offset hours hour iculos time_hours minutes
    minute zeitpunkt zeitstempel messzeitpunkt messzeit abnahmezeit datum_zeit datum_uhrzeit zeit recorded_at
    result_time event_time collected_at storetime date datum"""
)
TIME_PARTS = frozenset(
    names_of(
        "time timestamp datetime date dt at offset hours hour hrs minutes mins seconds secs days zeit zeitpunkt datum"
        " stunden minuten sekunden"
    )
)
VARIABLE = names_of(
    """variable parameter code.coding.0.code code_coding_code code.text code_text code.coding.0.display code itemid
    item variableid parameterid measurement_concept_id measurement_source_value observation_concept_id
    observation_source_value concept_code concept_id concept_name nursingchartcelltypevalname physicalexampath
    respchartvaluelabel celllabel label name measurement feature signal test labname test_name analyte loinc
    loinc_code parameter_name variable_name item_name lab_name measurement_name observation_name observation
    component component_name messgröße messwertname laborparameter bezeichnung vital_sign"""
)
VALUE = names_of(
    """valuenum numeric_value value_as_number valuequantity.value value_quantity_value nursingchartvalue
    physicalexamtext respchartvalue cellvaluenumeric value_num value_numeric value measurement_value labresult
    result result_value test_value observation_value messwert wert ergebnis val"""
)
VALUE_UNIT = names_of(
    """valueuom unit units uom einheit value_unit unit_of_measure units_of_measure result_unit result_units
    valuequantity.unit valuequantity.code value_quantity_unit measurement_unit unit_source_value unit_name
    labmeasurenamesystem labmeasurenameinterface"""
)
START = names_of(
    """intime icu_intime admittime admission_time admit_time admitdatetime icu_admission_time admission_datetime
    admission_date admit_date hospital_admission_time icu_start visit_start_datetime aufnahmezeit
    aufnahmezeitpunkt aufnahmedatum aufnahme"""
)
# Never a reading: outcomes, counters, other ids, and what says where somebody lay.
NO_READING = names_of(
    """sepsislabel label outcome mortality died hospital_expire_flag los unit1 unit2 hospadmtime iculos index
    unnamed0 index_level_0 recordid outtime dischtime storetime itemid hadm_id stay_id icustay_id"""
)
NO_START = names_of(
    "outtime dischtime discharge_time storetime dob dod deathtime date_of_birth date_of_death birth_date"
)
MOST_NUMERIC = 3  # columns of numbers in a long table that its columns' names do not tell
MOST_WAIT = 60 * 24 * 3.6e9  # microseconds from an admission to a reading


@dataclass(frozen=True)
class Roles:
    """A guess at the columns and at what a time is."""

    kind: str
    record: str
    subject: str | None
    time: str
    variable: str | None
    value: str | None
    value_unit: str | None  # column of the values' units
    start: str | None  # column of admission times
    unit: str | float  # of time
    format: str | None
    sure_record: bool = True  # whether it was known by name, and so on
    sure_time: bool = True
    sure_kind: bool = True
    sure_start: bool = True


def guess_roles(profile: Profile, record: str | None = None) -> Roles | None:
    """The roles of a source's columns, that of the `record` being known or not; None where no column can be a time."""
    names = list(profile.columns)
    stay, subject = (_record_named(profile, names, known) for known in (STAY, SUBJECT))
    stay = record or stay
    uom = _unit_column(profile, names)
    if profile.kind == "meds":
        found = (MEDS_COLUMNS["variable"], MEDS_COLUMNS["value"], uom)
        return Roles("meds", stay or "subject_id", "subject_id", "time", *found, None, TIMESTAMP, None)
    record = stay or subject or (FILE if profile.files > 1 else None)
    time = _time_column(profile, names, record)
    if time is None:
        return None
    record = record or _unnamed_record(profile, [n for n in names if n != time])
    unit = _unit_of_source(profile, time) or time_unit(profile.columns[time], time) or ("hours", None)
    if unit[0] == CLOCK:
        _refuse_a_time_of_day(profile, record, time)
    start = _start(profile, record, time, unit)
    rest = [n for n in names if n not in (record, subject, time, start, uom)]
    variable, value, sure_kind = _long(profile, rest, record, time, uom is not None)
    long = variable is not None and value is not None
    return Roles(
        kind="long" if long else "wide",
        record=record,
        subject=subject if stay and subject != stay else None,
        time=time,
        variable=variable if long else _by_content(profile, rest, qualifies) if profile.header else None,
        value=value,
        value_unit=uom if long else None,
        start=start,
        unit=unit[0],
        format=unit[1],
        sure_record=bool(stay or subject or (record == FILE and profile.files > 1)),
        sure_time=_named(names, TIME) is not None,
        sure_kind=sure_kind or not long,
        sure_start=start is None or short(start) in START,
    )


def _record_named(profile: Profile, names: list[str], known: Sequence[str]) -> str | None:
    """A column by its name, of which the labels repeat: one that has nearly all of its own names rows, not records."""
    free = [n for n in names if short(n) in known and (profile.kind == "meds" or names_records(profile.columns[n], n))]
    return _named(free, known)


def _unnamed_record(profile: Profile, names: list[str]) -> str:
    """A column by what is in it: labels that repeat, and no measurements; a file where there is none.

    Raises CohortError where nothing repeats but there are names of records: each of their rows would be a record.
    """
    others = (*VARIABLE, *VALUE, *VALUE_UNIT)
    free = [n for n in names if known_as(n) is None and short(n) not in others]
    free = [n for n in free if not pt.is_nested(profile.columns[n].type)]
    free = [
        n
        for n in free
        if is_identifier(n) or not is_numeric(profile.columns[n]) or not has_fractions(profile.columns[n])
    ]
    found = _by_content(profile, free, repeats)
    named = [n for n in names if short(n) in (*STAY, *SUBJECT)]
    if found is None and named:
        raise CohortError(
            f"{profile.source}: nearly every row has another value of {' and '.join(named)}, so each would be a record "
            "of its own; name the column of stays or patients stay_id"
        )
    return found or FILE


def _time_column(profile: Profile, names: list[str], record: str | None) -> str | None:
    """By its name, a part of it, or what is in it: rather one that changes within records than a time of admission."""
    named = _named(names, TIME)
    if named is not None:
        return named
    free = [n for n in names if n != record and short(n) not in (*START, *NO_START)]
    parts = [n for n in free if _says_time(n) and time_unit(profile.columns[n], n) is not None]
    by_content = [n for n in free if time_unit(profile.columns[n], "") is not None]
    for found in (parts, by_content):
        for name in found:
            if not is_constant(profile, record, name):
                return name
    return next(iter(parts + by_content), None)


def _unit_of_source(profile: Profile, time: str) -> tuple[str | float, str | None] | None:
    """The unit in which a data set that is known writes times that are numbers."""
    source = source_of(profile)
    unit = data_set(source).time_unit if source else None
    return (unit, None) if unit is not None and is_numeric(profile.columns[time]) else None


def _refuse_a_time_of_day(profile: Profile, record: str, time: str) -> None:
    """Raises CohortError where a column of dates stands beside one of clocks: every day would be the first one."""
    others = [n for n in profile.columns if n not in (record, time) and short(n) not in (*START, *NO_START)]
    read = np.array([clock_seconds(word) for word in words(profile.columns[time]).words])
    dates = (n for n in others if (time_unit(profile.columns[n], n) or [None])[0] == TIMESTAMP)
    day = next((n for n in dates if not is_constant(profile, record, n)), None)
    if day is not None and np.nanmax(read) < 86_400:
        raise CohortError(
            f"{profile.source}: the day and the time of day stand in two columns, {day!r:.80} and {time!r:.80}; make "
            "them one, such as 2021-03-04 05:06, and name it time"
        )


def _says_time(name: str) -> bool:
    """Whether a name, or the end of one without a break, says that a column holds times."""
    return bool(tokens(name) & TIME_PARTS) or short(name).endswith(("offset", "datetime", "timestamp"))


def _start(profile: Profile, record: str, time: str, unit: tuple[str | float, str | None]) -> str | None:
    """A column of admission times: by its name or, of timestamps, constant within records and the last before them."""
    names = [n for n in profile.columns if n not in (record, time)]
    named = _named(names, START)
    if named is not None and time_unit(profile.columns[named], named) == unit:
        return named
    if unit[0] != TIMESTAMP:
        return None
    at = Time(TIMESTAMP, UNITS["microseconds"], unit[1], "first", None, None)
    read = times(profile.columns[time], time, at).time
    waits = {}
    for name in names:
        if short(name) in NO_START or pt.is_nested(profile.columns[name].type):
            continue
        if is_constant(profile, record, name) and time_unit(profile.columns[name], "") == unit:
            wait = read - times(profile.columns[name], name, at).time
            if np.isfinite(wait).any() and np.nanquantile(wait, 0.05) >= 0 and np.nanmedian(wait) < MOST_WAIT:
                waits[name] = float(np.nanmedian(wait))
    return min(waits, key=lambda name: waits[name]) if waits else None


# Long or wide -------------------------------------------------------------------------------------------------------


def _long(
    profile: Profile, names: list[str], record: str, time: str, told: bool
) -> tuple[str | None, str | None, bool]:
    """Columns of names and of values of a long table, and whether their names say so; none of a wide table.

    `told`: whether a column says units, as only a long table's does.
    """
    variable, value = _named(names, VARIABLE), _named(names, VALUE)
    if variable is not None and value is not None:
        return variable, value, True
    numeric = [n for n in names if is_numeric(profile.columns[n]) and not counts_rows(profile.columns[n], n)]
    numeric = [n for n in numeric if not is_constant(profile, record, n) and not tokens(n) & TIME_PARTS]
    numeric = [
        n
        for n in numeric
        if n != variable
        and short(n) not in NO_READING
        and not is_identifier(n)
        and time_unit(profile.columns[n], "") is None
    ]
    worded = [n for n in names if names_things(profile.columns[n]) or (told and n == variable)]
    if not worded or not 1 <= len(numeric) <= MOST_NUMERIC or any(known_as(n) for n in numeric):
        return None, None, True
    known = {n: known_words(profile.columns[n]) for n in worded}
    variable = variable if variable in worded else max(worded, key=lambda n: known[n])
    told = told or value is not None or known[variable] >= 0.3
    if not told and (len(numeric) > 1 or shared(profile, record, time) < 0.3):
        return None, None, True
    fractions = [n for n in numeric if has_fractions(profile.columns[n])]
    return variable, value if value in numeric else (fractions or numeric)[0], False


def _unit_column(profile: Profile, names: list[str]) -> str | None:
    """A column that says units, by its name; one that may be of care units, by most of what it says too."""
    for known in VALUE_UNIT:
        name = _named(names, (known,))
        if name is None or pt.is_nested(profile.columns[name].type):
            continue
        found = words(profile.columns[name])
        said = [i for i, word in enumerate(found.words) if canonical(word)]
        rows = np.bincount(found.which, minlength=len(found.words))
        units = [i for i in said if is_unit(found.words[i]) or known not in ("unit", "units")]
        if rows[units].sum() > 0.5 * rows[said].sum():
            return name
    free = [n for n in names if short(n) not in (*VARIABLE, *VALUE)]
    return None if profile.kind == "meds" else _by_content(profile, free, says_units)


def familiar(names: Iterable[str]) -> set[str]:
    """Which of a table's columns have a name that tables usually give them, and no patient's value or id."""
    usual = {*STAY, *SUBJECT, *TIME, *VARIABLE, *VALUE, *VALUE_UNIT, *START, *NO_READING, *NO_START}
    return {name for name in names if short(name) in usual}


def _named(names: Iterable[str], known: Iterable[str]) -> str | None:
    by_short = {short(name): name for name in names}
    return next((by_short[k] for k in known if k in by_short), None)


def _by_content(profile: Profile, names: Iterable[str], fits: Callable[[pa.Array], bool]) -> str | None:
    return next((name for name in names if fits(profile.columns[name])), None)
