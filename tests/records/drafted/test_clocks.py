"""What a time is: by the whole column where its name does not say it, and by the data set where that is known."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.offsets import number_unit
from tests.records.drafted.test_sources import START, mapped, written

HOURS = np.tile(np.arange(49.0), 10)
MINUTES = np.random.default_rng(0).integers(0, 2880, 500).astype(float)  # of stays of two days


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        *[(HOURS, "hours"), (np.round(MINUTES / 60, 2), "hours"), (HOURS * 7, "hours")],
        *[(HOURS / 24, "days"), (np.round(HOURS / 24, 4), "days"), (MINUTES / 1440, "days"), (MINUTES / 144, "days")],
        *[(MINUTES, "minutes"), (HOURS * 60, "minutes"), (MINUTES * 7, "minutes")],
        *[(MINUTES * 60, "seconds"), (HOURS * 3600, "seconds"), (MINUTES * 60 + 7, "seconds")],
        *[(MINUTES * 6e4, "milliseconds"), (HOURS * 3.6e6, "milliseconds"), (MINUTES * 6e7, "microseconds")],
    ],
)
def test_a_number_is_in_the_unit_in_which_stays_are_as_long_as_stays_are(value, unit):
    assert number_unit(value, "time") == (unit, None)


@pytest.mark.parametrize(
    ("name", "step", "unit"),
    [
        *[("offset", 1, "minutes"), ("offset", 60, "seconds"), ("offset", 6e4, "milliseconds")],
        *[("offset_ms", 6e4, "milliseconds"), ("time_seconds", 60, "seconds"), ("days_in_icu", 1 / 1440, "days")],
    ],
)
def test_an_offset_is_in_minutes_as_far_as_that_can_be(name, step, unit):
    assert number_unit(MINUTES * step, name) == (unit, None)


@pytest.mark.parametrize(
    ("value", "unit"),
    [(MINUTES / 1440, "days"), (np.round(MINUTES / 60, 2), "hours"), (MINUTES / 7, "minutes"), (HOURS, "minutes")],
)
def test_an_offset_with_fractions_is_in_no_unit_in_which_stays_would_last_minutes(value, unit):
    assert number_unit(value, "offset") == (unit, None)


@pytest.mark.parametrize("year", [1980, 2021, 2190])
@pytest.mark.parametrize(("unit", "parts"), [("seconds", 1), ("milliseconds", 1e3), ("microseconds", 1e6)])
def test_an_epoch_may_be_of_shifted_dates(year, unit, parts):
    start = (datetime.datetime(year, 3, 4) - datetime.datetime(1970, 1, 1)).total_seconds()
    assert number_unit((start + MINUTES * 60) * parts, "charttime") == (unit, None)


def test_days_of_astronomers_are_days():
    assert number_unit(2_459_277.5 + MINUTES / 1440, "time") == ("days", None)


def test_durations_by_pandas_are_clocks_of_days(tmp_path):
    at = [datetime.timedelta(hours=h) for h in range(40)]
    rows = [(r, f"{t.days} days {t - datetime.timedelta(t.days)}", "HR", 80 + r) for r in range(3) for t in at]
    _, found, cohort = read_back(tmp_path, "stay_id,time,code,value", rows)
    assert found.time.unit == "HH:MM"
    assert sorted(cohort.load().time_hours.tolist()) == sorted(3 * list(range(40)))


def test_digits_of_a_date_may_have_been_a_float(tmp_path):
    at = [START + datetime.timedelta(hours=h) for h in range(40)]
    rows = [(r, f"{t:%Y%m%d%H%M}.0", "HR", 80 + r) for r in range(3) for t in at]
    _, _, cohort = read_back(tmp_path, "stay_id,time,code,value", rows)
    assert sorted(cohort.load().time_hours.tolist()) == sorted(3 * list(range(40)))


def test_a_day_beside_a_time_of_day_is_refused_and_a_clock_alone_is_one_of_the_stay(tmp_path):
    at = [START + datetime.timedelta(hours=h) for h in range(40)]
    rows = [(r, f"{t:%Y-%m-%d}", f"{t:%H:%M}", "HR", 80 + r) for r in range(3) for t in at]
    with pytest.raises(CohortError, match="the day and the time of day stand in two columns, 'date' and 'time'; make"):
        mapped(written(tmp_path / "t.csv", "stay_id,date,time,code,value", rows))
    same = [(r, "2021-03-04", f"{h:02}:00", "HR", 80 + r) for r in range(3) for h in range(24)]
    _, found = mapped(written(tmp_path / "t.csv", "stay_id,date,time,code,value", same))
    assert found.time.unit == "HH:MM"


def read_back(folder, header, rows):
    text, found = mapped(written(folder / "t.csv", header, rows))
    return text, found, read_cohort(folder / "m.toml", cache=False)


@pytest.mark.parametrize(
    "form", ["%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d%H", "%Y-%m-%dT%H:%M:%S+01:00", "%Y%m%d%H%M%S.5+0100"]
)
@pytest.mark.parametrize("stored", ["text", "numbers"])
def test_digits_of_a_date_are_a_timestamp_and_no_number(form, stored, tmp_path):
    at = [START + datetime.timedelta(hours=h) for h in range(40)]
    rows = [(r, f"{time:{form}}", "HR", 80 + h % 7) for r in range(3) for h, time in enumerate(at)]
    if stored == "numbers":
        if not rows[0][1].isdigit():
            pytest.skip("is no number")
        columns = [*zip(*[(r, int(t), *rest) for r, t, *rest in rows], strict=True)]
        table = {n: pa.array(c) for n, c in zip(("stay_id", "charttime", "code", "value"), columns, strict=True)}
        pq.write_table(pa.table(table), tmp_path / "t.parquet")
        _, found = mapped(tmp_path / "t.parquet")
        cohort = read_cohort(tmp_path / "m.toml", cache=False)
    else:
        _, found, cohort = read_back(tmp_path, "stay_id,charttime,code,value", rows)
    assert (found.time.unit, found.time.origin) == ("timestamp", "first")
    assert sorted(cohort.load().time_hours.tolist()) == sorted(3 * list(range(40)))


def test_digits_of_a_date_may_be_as_many_as_are_known(tmp_path):
    rows = [(r, t, "HR", 80) for r in range(15) for t in ("20210304", "202103040600", "20210304063000")]
    _, found, cohort = read_back(tmp_path, "stay_id,charttime,code,value", rows)
    assert found.time.format == "HL7"
    assert sorted(set(cohort.load().time_hours.tolist())) == [0, 6, 6.5]


def test_digits_that_are_fewer_than_a_format_says_are_no_time(tmp_path):
    """strptime takes 2021030405 for 3:04:05 in 2021, at a month of one digit."""
    text, _, _ = read_back(tmp_path, "stay_id,charttime,code,value", [(1, "20210304050607", "HR", 80)] * 30)
    (tmp_path / "m.toml").write_text(text.replace('format = "HL7"', 'format = "%Y%m%d%H%M%S"'))
    (tmp_path / "t.csv").write_text("stay_id,charttime,code,value\n1,2021030405,HR,80\n")
    assert read_cohort(tmp_path / "m.toml", cache=False).records["n_bad_time"].to_pylist() == [1]


def test_days_of_a_spreadsheet_are_days_from_the_first_reading(tmp_path):
    rows = [(r, f"{44259.25 + r + h / 24:.6f}", "HR", 80) for r in range(4) for h in range(30)]
    _, found, cohort = read_back(tmp_path, "stay_id,charttime,code,value", rows)
    assert (found.time.unit, found.time.origin) == ("days", "first")
    assert sorted(cohort.load().time_hours.tolist()) == pytest.approx(sorted(4 * list(range(30))), abs=1e-3)


AUMC = "admissionid,itemid,item,tagid,value,unitid,unit,comment,measuredat,registeredat"
AUMC += ",registeredby,updatedat,updatedby,islabresult,fluidout"


@pytest.mark.parametrize("readmitted", [False, True])
def test_amsterdams_offsets_are_in_milliseconds(readmitted, tmp_path):
    start = [0, 0, 0, 400 * 24 * 3600_000 if readmitted else 0]
    rows = [
        (r, code, item, 0, value, 15, unit, "", start[r] + h * 3600_000, start[r] + h * 3600_000, "x", "", "", 0, 0)
        for r in range(4)
        for h in range(40)
        for code, item, value, unit in (
            (6640, "Hartfrequentie", 80, "/min"),
            (9941, "Kreatinine (bloed)", 88.42, "µmol/l"),
        )
    ]
    _, found, cohort = read_back(tmp_path, AUMC, rows)
    assert (found.columns.record, found.columns.variable, found.columns.time) == ("admissionid", "itemid", "measuredat")
    assert (found.time.unit, found.time.origin) == ("milliseconds", "first" if readmitted else "admission")
    assert found.variables.names == ("HR", "Creatinine")
    assert sorted(cohort.load().time_hours.tolist()) == sorted(8 * list(range(40)))


@pytest.mark.parametrize(
    ("time", "table"),
    [
        (
            "nursingchartoffset",
            "nursingchartentryoffset,nursingchartcelltypecat,nursingchartcelltypevallabel,nursingchartcelltypevalname,nursingchartvalue",
        ),
        ("respchartoffset", "respchartentryoffset,respcharttypecat,x,respchartvaluelabel,respchartvalue"),
        ("labresultoffset", "labresultrevisedoffset,labtypeid,x,labname,labresult"),
    ],
)
def test_eicus_offsets_are_in_minutes_however_few_they_are(time, table, tmp_path):
    rows = [
        (i, 100 + r, h, h + 3, 1, "Heart Rate", "Heart Rate", 80 + h % 7)
        for r in range(4)
        for i, h in enumerate(range(-5, 40))
    ]
    _, found, _ = read_back(tmp_path, f"rowid,patientunitstayid,{time},{table}", rows)
    assert (found.columns.time, found.time.unit, found.time.origin) == (time, "minutes", "admission")
    assert found.variables.names == ("HR",)


def test_the_nurses_chart_of_eicu_names_cuff_pressures(tmp_path):
    names = {
        "Non-Invasive BP Mean": "NIMAP",
        "Non-Invasive BP Systolic": "NISysABP",
        "Invasive BP Diastolic": "DiasABP",
    }
    rows = [
        (i, 100 + r, 60 * h, 60 * h + 3, "Vital Signs", name, name, 75)
        for r in range(3)
        for h in range(20)
        for i, name in enumerate(names)
    ]
    head = "nursingchartid,patientunitstayid,nursingchartoffset,nursingchartentryoffset,nursingchartcelltypecat"
    head += ",nursingchartcelltypevallabel,nursingchartcelltypevalname,nursingchartvalue"
    _, found, _ = read_back(tmp_path, head, rows)
    assert {rule.codes[0]: rule.name for rule in found.rules} == names


# Zones ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["one column", "two columns", "two files"])
def test_times_of_which_some_say_a_zone_are_refused_until_the_mapping_says_that_of_the_others(where, tmp_path):
    plain, zoned = "2021-03-04 05:00:00", "2021-03-04T06:00:00+00:00"  # of Berlin, an hour and not two after the former
    folder = tmp_path / "t"
    folder.mkdir()
    if where == "two columns":
        head = "stay_id,intime,charttime,code,value"
        written(folder / "a.csv", head, [(1, plain, zoned, "HR", 80 + h) for h in range(30)])
    else:
        head = "stay_id,charttime,code,value"
        halves = [[(1, time, "HR", 80 + h) for h in range(30)] for time in (plain, zoned)]
        for name, rows in (
            {"a.csv": [*halves[0], *halves[1]]}.items()
            if where == "one column"
            else zip(("a.csv", "b.csv"), halves, strict=True)
        ):
            written(folder / name, head, rows)
    text, _ = mapped(folder)
    assert "# CHECK: some times say a zone and others do not; say the zone of the latter" in text
    with pytest.raises(CohortError, match=r"some times of this table say a zone and others do not; set zone under"):
        read_cohort(tmp_path / "m.toml", cache=False)
    (tmp_path / "m.toml").write_text(text.replace("# zone =", "zone ="))
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert set(found.load().time_hours.tolist()) == ({2.0} if where == "two columns" else {0.0, 2.0})


def test_stored_timestamps_without_a_zone_are_in_the_one_that_the_mapping_says(tmp_path):
    at = pa.array([datetime.datetime(2021, 3, 4, 5), datetime.datetime(2021, 7, 4, 5)], pa.timestamp("us"))
    columns = {"stay_id": [1, 2], "charttime": at, "code": ["HR"] * 2, "value": [80.0] * 2}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    text, _ = mapped(tmp_path / "t.parquet")
    (tmp_path / "m.toml").write_text(text.replace("[time]\n", '[time]\nzone = "Europe/Berlin"\n'))
    origin = read_cohort(tmp_path / "m.toml", cache=False).records["origin"].to_pylist()
    assert [o.hour for o in origin] == [4, 3]  # winter and summer
    (tmp_path / "m.toml").write_text(text.replace("[time]\n", '[time]\nzone = "Berlin"\n'))
    with pytest.raises(CohortError, match=r"\[time\] zone: is 'Berlin', which is no time zone"):
        read_cohort(tmp_path / "m.toml", cache=False)
