"""The first mapping of an unknown table is near enough: what it takes to make it right is counted here."""

from __future__ import annotations

import csv
import datetime
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.aliases import known_as
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped.mapping import Mapping, parse_mapping
from levyscreen.records.units import CONVERSIONS, conversion, likely, same_unit

RNG = np.random.default_rng(0)


def mapped(source: Path) -> tuple[str, Mapping]:
    text = draft(guess(source), source.parent)
    return text, parse_mapping(source.parent / "m.toml", text, tomllib.loads(text))


def write(path: Path, header, rows, delimiter=",") -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerows([header, *rows] if header else rows)
    return path


# Tables as they are out there ----------------------------------------------------------------------------------------

CHALLENGE_2019 = (
    "HR|O2Sat|Temp|SBP|MAP|DBP|Resp|EtCO2|BaseExcess|HCO3|FiO2|pH|PaCO2|SaO2|AST|BUN|Alkalinephos|Calcium|Chloride|"
    "Creatinine|Bilirubin_direct|Glucose|Lactate|Magnesium|Phosphate|Potassium|Bilirubin_total|TroponinI|Hct|Hgb|PTT|"
    "WBC|Fibrinogen|Platelets|Age|Gender|Unit1|Unit2|HospAdmTime|ICULOS|SepsisLabel"
)
MEDIANS_2019 = (
    "85 97 36.8 120 80 60 18 33 -1 24 0.4 7.38 41 97 41 17 74 8.3 106 0.94 0.4 127 1.8 2 3.3 4.1 0.9 0.3 30.6 10.3 32 "
    "10.3 250 181 60 1 0 1 -50"
)


def test_a_folder_of_the_2019_challenge_needs_no_edit(tmp_path):
    (tmp_path / "training").mkdir()
    for patient in range(1, 4):
        rows = [
            [*(f"{float(m) * RNG.uniform(0.99, 1.01):.4g}" for m in MEDIANS_2019.split()), h, 0] for h in range(1, 30)
        ]
        for row in rows:
            row[2] = "NaN"
            row[35] = "1"
        rows[0][2] = "36.9"
        write(tmp_path / "training" / f"p{patient:06}.psv", CHALLENGE_2019.split("|"), rows, "|")
    _, found = mapped(tmp_path / "training")
    assert (found.kind, found.columns.record, found.columns.time, found.time.unit) == (
        "wide",
        "@file",
        "ICULOS",
        "hours",
    )
    assert set(found.ignored) == {"Unit1", "Unit2", "HospAdmTime", "SepsisLabel"}
    assert found.facts == ("age", "gender")
    assert len(found.variables) == 34
    assert found.variables.negatives  # a base excess is one
    named = {rule.codes[0]: rule.name for rule in found.rules}
    assert {named[c] for c in ("O2Sat", "Resp", "Bilirubin_total", "DBP", "Magnesium")} == {
        "SpO2",
        "RespRate",
        "Bilirubin",
        "DiasABP",
        "Mg",
    }
    (tmp_path / "m.toml").write_text(draft(guess(tmp_path / "training"), tmp_path))
    cohort = read_cohort(tmp_path / "m.toml", cache=False)
    assert sorted(cohort.records.column("file").to_pylist()) == ["p000001", "p000002", "p000003"]
    assert cohort.load().line_class.max() == 0


def test_a_wide_table_with_ricus_names_needs_no_edit(tmp_path):
    names = "alb alp alt ast be bicar bili bun ca cl crea crp dbp fgn fio2 glu hct hgb hr inr_pt k lact map mg na o2sat"
    names = f"{names} pco2 ph phos plt po2 ptt resp sbp temp tnt urine wbc"
    rows = {"stay_id": pa.array(np.repeat([11, 12], 50)), "time": pa.array(np.tile(np.arange(50), 2), pa.duration("s"))}
    values = {name: RNG.normal(50, 1, 100) for name in names.split()}
    values |= {"temp": RNG.normal(37, 0.1, 100), "fio2": RNG.normal(40, 1, 100)}
    pq.write_table(pa.table(rows | values), tmp_path / "dyn.parquet")
    text, found = mapped(tmp_path / "dyn.parquet")
    assert {"HR", "RespRate", "HCO3", "SpO2", "INR", "Platelets", "DiasABP"} <= set(found.variables.names)
    assert not [name for name in found.variables.names if name.islower()]
    assert "factor = 0.01  # from % to 0-1" in text  # ricu's FiO2 is in %: no unit of ricu's is guessed


def test_a_long_table_of_an_electronic_record_is_read_by_its_columns_names(tmp_path):
    start = datetime.datetime(2180, 1, 2, 3)
    codes = {"220045": 85, "223761": 98.4, "223762": 36.9, "50912": 0.9, "50931": 6.8, "226755": 7}
    rows = [
        (
            patient,
            patient * 10 + 1,
            start,
            start + datetime.timedelta(minutes=11 * i),
            code,
            value * RNG.uniform(0.99, 1.01),
        )
        for patient in range(5)
        for i in range(12)
        for code, value in codes.items()
    ]
    path = write(
        tmp_path / "chartevents.csv", ["subject_id", "stay_id", "intime", "charttime", "itemid", "valuenum"], rows
    )
    text, found = mapped(path)
    assert (found.kind, found.columns.record, found.columns.subject) == ("long", "stay_id", "subject_id")
    assert (found.time.unit, found.time.origin, found.time.column) == ("timestamp", "column", "intime")
    by_code = {code: rule for rule in found.rules for code in rule.codes}
    assert (by_code["223761"].name, by_code["223762"].name) == ("Temp", "Temp")
    assert by_code["223761"].factor == pytest.approx(5 / 9)
    assert by_code["223762"].factor == 1
    assert by_code["50931"].factor == pytest.approx(18.016)
    assert by_code["226755"].name == "226755"  # a variable like any other, with no unit and no range
    assert "[variables.226755]" in text
    assert "values look like mmol/L; this makes mg/dL" in text
    (tmp_path / "m.toml").write_text(text)
    cohort = read_cohort(tmp_path / "m.toml", cache=False)
    assert cohort.load().line_class.max() == 0
    assert float(cohort.time_hours.min()) == 0


def test_a_meds_folder_is_known_by_its_layout_and_units_by_the_codes(tmp_path):
    (tmp_path / "ward" / "data").mkdir(parents=True)
    start = datetime.datetime(2180, 1, 2, 3)
    rows = []
    for subject in range(4):
        rows += [(subject, None, "GENDER//F", None), (subject, None, "MEDS_BIRTH", None)]
        rows += [(subject, start, "HOSPITAL_ADMISSION//EW", None), (subject, start, "DIAGNOSIS//ICD//10//I10", None)]
        for i in range(10):
            time = start + datetime.timedelta(hours=i)
            rows += [(subject, time, "LAB//50931//mg/dL", 126.0), (subject, time, "LAB//50912//umol/L", 80.0)]
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {
            "subject_id": pa.array(columns[0], pa.int64()),
            "time": pa.array(columns[1], pa.timestamp("us")),
            "code": pa.array(columns[2]),
            "numeric_value": pa.array(columns[3], pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "ward" / "data" / "0.parquet")
    text, found = mapped(tmp_path / "ward")
    assert found.kind == "meds"
    assert (found.time.origin, found.time.code) == ("code", "HOSPITAL_ADMISSION*")
    assert found.variables.names == ("Glucose", "Creatinine")
    assert [r.factor for r in found.rules[:2]] == pytest.approx([1, 1 / 88.42])
    assert "DIAGNOSIS//ICD//10//I10" in text.split("# Not mapped")[1]
    (tmp_path / "m.toml").write_text(text)
    cohort = read_cohort(tmp_path / "m.toml", cache=False)
    assert cohort.records.column("gender").to_pylist() == [0.0] * 4
    assert cohort.records.column("n_unknown_parameter").to_pylist() == [1] * 4


def test_a_text_without_a_header_gets_names_and_ticks_and_tags_are_seen(tmp_path):
    ticks = 633790226051280329
    rows = [
        (p, f"tag{i % 4}", ticks + 270000 * i, 4.1 + i % 7, -1.5, "walking") for p in ("A", "B") for i in range(400)
    ]
    _, found = mapped(write(tmp_path / "sensors.txt", None, rows))
    assert found.form.header == ("c1", "c2", "c3", "c4", "c5", "c6")
    assert (found.columns.record, found.columns.variable, found.columns.time) == ("c1", "c2", "c3")
    assert (found.time.scale[0], found.time.origin) == (1e-7, "first")
    assert len(found.variables) == 8
    assert found.variables.negatives
    assert found.variables.horizon_hours < 0.01


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("patient,hours,variable,value", "7,1.5,HR,80", ("patient", "hours", "hours")),
        (
            "patientunitstayid,observationoffset,name,value",
            "7,95,HR,80",
            ("patientunitstayid", "observationoffset", "minutes"),
        ),
        ("id,timestamp,code,value", "7,1700000000,HR,80", ("id", "timestamp", "seconds")),
        ("id,time,code,value", "7,17.05.2031 10:00:00,HR,80", ("id", "time", "timestamp")),
        ("id,time,code,value", "7,12:30,HR,80", ("id", "time", "HH:MM")),
    ],
)
def test_what_a_time_is_comes_from_its_name_or_its_look(header, row, expected, tmp_path):
    path = write(tmp_path / "t.csv", header.split(","), [row.split(",")] * 30)
    _, found = mapped(path)
    assert (found.columns.record, found.columns.time, found.time.unit) == expected


def test_a_table_without_any_time_is_an_error_that_counts_the_columns(tmp_path):
    path = write(tmp_path / "t.csv", ["a", "b"], [("x", "y")] * 3)
    with pytest.raises(CohortError, match=r"can be a time \(2 columns of names that are not shown, .*\); name one of"):
        guess(path)


def test_where_the_first_of_several_tables_is_none_of_readings_the_others_are_named(tmp_path):
    write(tmp_path / "admissions.csv", ["stay", "age"], [(1, "old")] * 3)
    write(tmp_path / "events.csv", ["stay", "time", "code", "value"], [(1, hour, "HR", 80) for hour in range(30)])
    with pytest.raises(
        CohortError, match=r"admissions\.csv: none of its .* the table of .*; beside it are events\.csv$"
    ):
        guess(tmp_path)


def test_every_name_and_text_survives_the_way_through_toml(tmp_path):
    odd = ['a "quoted" name', "tab\there", "ünï", "x.y", "back\\slash", "a,b;c"]
    rows = [(1, hour, name, hour) for name in odd for hour in range(30)]
    _, found = mapped(write(tmp_path / "t.csv", ["id", "hours", "code", "value"], rows))
    assert {code for rule in found.rules for code in rule.codes} == set(odd)


def test_usual_variables_are_mapped_however_many_other_codes_come_more_often(tmp_path):
    rows = [(1, hour, f"dev{i}", hour) for i in range(205) for hour in range(40)]
    rows += [(1, hour, name, value) for name, value in (("HR", 80), ("pH", 7.4)) for hour in range(30)]
    text, found = mapped(write(tmp_path / "t.csv", ["id", "hours", "code", "value"], rows))
    assert {"HR", "pH"} <= set(found.variables.names)
    assert len(found.variables) == 202
    assert "# Not mapped, and so counted as unknown: 200 values of 5 code(s)" in text
    assert "# Beyond 200 variables only codes known by name are mapped" in text


# What is known -------------------------------------------------------------------------------------------------------


# What a value in the other unit is in the variable's own. Molar masses, in g/mol, are PubChem's (glucose 180.16,
# creatinine 113.12, bilirubin 584.7, cholesterol 386.7, lactic acid 90.08, urea 60.06 with two nitrogens of 14.007),
# those of elements IUPAC's (Ca 40.08, Mg 24.305, P 30.974).
SAME = (
    ("Temp", 98.6, "degF", 37.0, "degC"),
    ("Glucose", 5.55, "mmol/L", 99.99, "mg/dL"),
    ("Glucose", 1.0, "g/L", 100.0, "mg/dL"),
    ("Creatinine", 88.4, "umol/L", 1.0, "mg/dL"),
    ("Creatinine", 0.1, "mmol/L", 1.131, "mg/dL"),
    ("BUN", 10.0, "mmol/L", 28.01, "mg/dL"),
    ("BUN", 60.06, "mg/dL of urea", 28.01, "mg/dL"),
    ("Bilirubin", 17.1, "umol/L", 1.0, "mg/dL"),
    ("BilirubinDirect", 58.47, "umol/L", 3.419, "mg/dL"),
    ("Cholesterol", 5.0, "mmol/L", 193.4, "mg/dL"),
    ("Lactate", 18.02, "mg/dL", 2.0, "mmol/L"),
    ("Albumin", 35.0, "g/L", 3.5, "g/dL"),
    ("Hgb", 120.0, "g/L", 12.0, "g/dL"),
    ("Hgb", 7.45, "mmol/L", 12.0, "g/dL"),
    ("FiO2", 21.0, "%", 0.21, "0-1"),
    ("SaO2", 0.97, "0-1", 97.0, "%"),
    ("HCT", 0.4, "1", 40.0, "%"),
    ("PaO2", 13.33, "kPa", 100.0, "mmHg"),
    ("Platelets", 250_000, "cells/uL", 250.0, "cells/nL"),
    ("TroponinT", 14.0, "ng/L", 0.014, "ug/L"),
    ("Calcium", 2.5, "mmol/L", 10.02, "mg/dL"),
    ("Calcium", 5.0, "mEq/L", 10.02, "mg/dL"),
    ("Mg", 1.0, "mmol/L", 2.4305, "mg/dL"),
    ("Mg", 2.0, "mEq/L", 2.4305, "mg/dL"),
    ("Phosphate", 1.0, "mmol/L", 3.0974, "mg/dL"),
    ("CRP", 10.0, "mg/dL", 100.0, "mg/L"),
    ("Fibrinogen", 3.0, "g/L", 300.0, "mg/dL"),
    ("ALT", 1.0, "ukat/L", 60.0, "IU/L"),
    ("height", 1.75, "m", 175.0, "cm"),
    ("height", 70.0, "in", 177.8, "cm"),
    ("weight", 150.0, "lb", 68.04, "kg"),
    ("weight", 70_000, "g", 70.0, "kg"),
)


@pytest.mark.parametrize(("name", "value", "other", "own", "unit"), SAME)
def test_a_value_converts_to_what_it_is_in_the_usual_unit(name, value, other, own, unit):
    found = conversion(name, other, unit)
    assert found is not None
    assert value * found.factor + found.offset == pytest.approx(own, rel=2e-3)


def test_every_conversion_that_there_is_has_a_value_above():
    known = {id(conversion(name, other, unit)) for name, _, other, _, unit in SAME}
    assert known == {id(each) for each in CONVERSIONS}


# Medians of intensive care in units that are not the variable's own (BUN and bilirubin: normal to raised).
@pytest.mark.parametrize(
    ("name", "median", "other"),
    [
        ("BUN", 8.5, "mmol/L"),
        ("Bilirubin", 12.0, "umol/L"),
        ("BilirubinDirect", 3.0, "umol/L"),
        ("Creatinine", 90.0, "umol/L"),
        ("Glucose", 7.5, "mmol/L"),
        ("Temp", 98.2, "degF"),
        ("weight", 175.0, "lb"),
    ],
)
def test_a_median_in_another_unit_is_found_out(name, median, other):
    usual, found = likely(name, median)
    assert not usual
    assert found is not None
    assert found.other == other


def test_a_unit_of_one_is_a_fraction_of_what_may_be_in_percent_and_none_of_anything_else():
    assert same_unit("1", "0-1", "FiO2")
    assert same_unit("1", "", "pH")
    assert same_unit("1", "{INR}", "INR")


def test_units_are_one_however_they_are_written():
    assert same_unit("mmol/L", "MMOL/l")
    assert same_unit("K/uL", "10^9/L")
    assert not same_unit("mg/dL", "mmol/L")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("Heart Rate", "HR"),
        ("LOINC//8867-4", "HR"),
        ("LAB//50912//mg/dL", "Creatinine"),
        ("CHART//Temp", "Temp"),
        ("sex", "gender"),
        ("O2 saturation pulseoxymetry", "SpO2"),
        ("heart failure", None),
        ("Output//Urine", "Urine"),
        ("LAB//URINE//PROTEIN", None),
        ("Sodium:SCnc:Pt:Urine:Qn", None),
        ("Glucose:MCnc:Pt:CSF:Qn", None),
        ("Sodium:SCnc:Pt:Ser/Plas:Qn", "Na"),
    ],
)
def test_usual_variables_are_known_by_name_code_and_part_of_a_code(code, name):
    assert known_as(code) == name


def test_a_check_stands_where_a_guess_is_weak_and_nowhere_in_a_plain_table(tmp_path):
    rows = [(1, hour, "HR", 80) for hour in range(30)]
    text, _ = mapped(write(tmp_path / "t.csv", ["id", "hours", "code", "value"], rows))
    assert len(re.findall("CHECK", text)) == 2  # the head, and the unit of time


def test_a_table_without_anything_like_a_reading_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("stay,time,code,value\n" + "".join(f"1,2030-01-01 00:{m:02},remark,seen\n" for m in range(40)))
    with pytest.raises(CohortError, match=r"notes\.csv: nothing in it looks like a reading"):
        guess(path)


def test_a_star_in_a_code_is_a_star_and_no_pattern(tmp_path):
    codes = [("Na*", 140.0)] * 20 + [("HR*", 80.0)] * 20 + [("Nausea score", 3.0), ("HR alarm limit", 120.0)]
    rows = [(1, hour, code, value) for hour, (code, value) in enumerate(codes)]
    source = write(tmp_path / "star.csv", ["stay_id", "hours", "itemname", "value"], rows)
    text, found = mapped(source)
    assert {rule.name: rule.codes for rule in found.rules if rule.codes} == {"Na": (r"Na\*",), "HR": (r"HR\*",)}
    (tmp_path / "m.toml").write_text(text)
    cohort = read_cohort(tmp_path / "m.toml", cache=False)
    assert cohort.records.column("n_unknown_parameter").to_pylist() == [2]
    assert len(cohort.load().value) == 40
