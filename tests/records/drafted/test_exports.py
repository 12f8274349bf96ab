"""Exports of real systems, values invented: what has read them wrongly once, and what else is of that kind."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.aliases import known_as
from levyscreen.records.drafted.contents import is_identifier
from levyscreen.records.drafted.guess import guess
from tests.records.drafted.test_sources import START, edits, mapped, written

VITALS = {"HR": 81.0, "MAP": 74.0, "SysABP": 121.0}


def at(hour: float, record: int = 0) -> str:
    return f"{START + datetime.timedelta(hours=hour, days=record):%Y-%m-%d %H:%M:%S}"


def vitals(records: int = 4, hours: int = 30):
    """(record, hour, variable, value)."""
    return [(r, h, name, v + h % 5) for r in range(records) for h in range(hours) for name, v in VITALS.items()]


def readings(folder: Path) -> dict[str, list[float]]:
    """Of the mapping in a folder, every reading by its variable."""
    cohort = read_cohort(folder / "m.toml", cache=False)
    lines, names = cohort.load(), cohort.variables.names
    return {name: lines.value[lines.variable == i].tolist() for i, name in enumerate(names)}


# Identifiers and rows ------------------------------------------------------------------------------------------------

OMOP_CODES = {"HR": 3027018, "MAP": 3027598, "SysABP": 3004249}
OMOP = (
    "measurement_id,person_id,measurement_concept_id,measurement_date,measurement_datetime,measurement_type_concept_id,"
    "operator_concept_id,value_as_number,value_as_concept_id,unit_concept_id,range_low,range_high,provider_id,"
    "visit_occurrence_id,visit_detail_id,measurement_source_value,measurement_source_concept_id,unit_source_value"
)
UNITS = {"HR": "/min", "MAP": "mmHg", "SysABP": "mm[Hg]"}


def omop_rows():
    return [
        (
            i,
            r,
            OMOP_CODES[name],
            at(h)[:10],
            at(h, r),
            32817,
            "",
            v,
            0,
            8541,
            "",
            "",
            7,
            r + 90,
            "",
            "x",
            0,
            UNITS[name],
        )
        for i, (r, h, name, v) in enumerate(vitals())
    ]


def test_omops_measurements_are_a_long_table_of_concepts(tmp_path):
    _, found = mapped(written(tmp_path / "measurement.csv", OMOP, omop_rows()))
    truth = {(str(code), UNITS[name]): (name, 1.0) for name, code in OMOP_CODES.items()}
    roles = {"record": "visit_occurrence_id", "subject": "person_id", "time": "measurement_datetime"}
    assert edits(found, truth, **roles, variable="measurement_concept_id", value="value_as_number") == []
    assert sorted(readings(tmp_path)["HR"]) == sorted(v for _, _, name, v in vitals() if name == "HR")


@pytest.mark.parametrize("number", ["decimal", "double", "text"])
def test_omops_ids_may_be_decimals_or_floats(number, tmp_path):
    """As warehouses export them to Parquet, and pandas to text."""
    columns = {n: list(c) for n, c in zip(OMOP.split(","), zip(*omop_rows(), strict=True), strict=True)}
    kept = ("person_id", "visit_occurrence_id", "measurement_concept_id", "measurement_datetime", "value_as_number")
    table = pa.table({name: columns[name] for name in kept})
    for i, name in enumerate(kept[:3]):
        whole = table.column(name)
        as_text = pa.array([f"{value}.0" for value in whole.to_pylist()])
        other = as_text if number == "text" else whole.cast(pa.decimal128(24, 2) if number == "decimal" else number)
        table = table.set_column(i, name, other)
    pq.write_table(table, tmp_path / "measurement.parquet")
    _, found = mapped(tmp_path / "measurement.parquet")
    assert found.variables.names == ("HR", "MAP", "SysABP")
    assert sorted(read_cohort(tmp_path / "m.toml", cache=False).records["file"].to_pylist()) == ["90", "91", "92", "93"]


def test_what_omop_has_no_concept_for_is_no_variable(tmp_path):
    rows = [(*row[:2], 0 if row[2] == OMOP_CODES["MAP"] else row[2], *row[3:]) for row in omop_rows()]
    text, found = mapped(written(tmp_path / "measurement.csv", OMOP, rows))
    assert found.variables.names == ("HR", "SysABP")
    assert '"0 [mmHg]"  120 values' in text.split("# Not mapped")[1]


def test_hirids_observations_are_a_long_table_of_its_own_codes(tmp_path):
    codes = {"HR": 200, "MAP": 110, "SysABP": 100}
    rows = [(r, at(h, r), codes[name], v, at(h, r), 8, "", "") for r, h, name, v in vitals()]
    rows += [(r, at(h, r), 20000600, 88.42, at(h, r), 8, "", "") for r in range(4) for h in range(10)]
    _, found = mapped(
        written(tmp_path / "t.csv", "patientid,datetime,variableid,value,entertime,status,stringvalue,type", rows)
    )
    truth = {(str(code), ""): (name, 1.0) for name, code in codes.items()} | {
        ("20000600", ""): ("Creatinine", 1 / 88.42)
    }
    assert edits(found, truth, record="patientid", time="datetime", variable="variableid", value="value") == []
    assert readings(tmp_path)["Creatinine"] == pytest.approx([1.0] * 40)


def test_fhirs_observations_by_pandas_are_of_their_encounters_and_not_of_themselves(tmp_path):
    head = "id,resourceType,effectiveDateTime,subject.reference,encounter.reference,code.text,valueQuantity.unit"
    head += ",valueQuantity.value"
    rows = [
        (
            f"obs-{r}-{h}",
            "Observation",
            f"2020-01-01T{h:02}:00:00Z",
            f"Patient/{r}",
            f"Encounter/{r}",
            "Heart rate",
            "/min",
            80 + h,
        )
        for r in range(4)
        for h in range(20)
    ]
    _, found = mapped(written(tmp_path / "t.csv", head, rows))
    roles = {"record": "encounter.reference", "subject": "subject.reference", "time": "effectiveDateTime"}
    roles |= {"variable": "code.text", "value": "valueQuantity.value", "unit": "valueQuantity.unit"}
    assert edits(found, {("Heart rate", "/min"): ("HR", 1.0)}, **roles) == []


def test_where_only_rows_have_ids_nothing_is_guessed(tmp_path):
    rows = [(f"obs-{h}", at(h), "Heart rate", 80 + h % 7) for h in range(60)]
    with pytest.raises(
        CohortError, match=r"nearly every row has another value of id, so each would be a record of its"
    ):
        guess(written(tmp_path / "t.csv", "id,time,name,value", rows))


def test_a_wide_table_without_an_id_is_one_record_and_that_is_marked(tmp_path):
    text, found = mapped(
        written(tmp_path / "t.csv", "time,HR,Temp", [(at(h), 80 + h % 7, 36.5 + h % 9 / 10) for h in range(60)])
    )
    assert (found.kind, found.columns.record, found.variables.names) == ("wide", "@file", ("HR", "Temp"))
    assert 'record = "@file"  # CHECK: a record is a file' in text


def test_identifiers_codes_and_states_of_a_wide_table_are_ignored(tmp_path):
    head = "stay_id,hours,HR,nurse_id,bed_key,status,unit_concept_id,device_type,orderid,uric_acid"
    rows = [(r, h, 80 + h % 7, 41 + r, 7, h % 3, 8541, 2, 5 * h, 5 + h % 4) for r in range(4) for h in range(60)]
    _, found = mapped(written(tmp_path / "t.csv", head, rows))
    assert found.variables.names == ("HR", "uric_acid")
    assert set(found.ignored) == {"nurse_id", "bed_key", "status", "unit_concept_id", "device_type", "orderid"}


@pytest.mark.parametrize(
    "name", ["labtypeid", "measurement_concept_id", "status", "ROW_ID", "operatorId", "visit_key", "type"]
)
def test_a_name_says_that_a_column_identifies(name):
    assert is_identifier(name)


@pytest.mark.parametrize("name", ["Lactic acid", "fluid", "Chlorid", "HR", "lipid", "cvp", "paced"])
def test_a_name_that_ends_alike_is_none_of_an_identifier(name):
    assert not is_identifier(name)


# Components and totals -----------------------------------------------------------------------------------------------

EXAM = "notes/Progress Notes/Physical Exam/Physical Exam"
VITAL = f"{EXAM}/Constitutional/Vital Sign and Physiological Data"


def test_of_eicus_physical_exam_only_totals_and_current_values_are_read(tmp_path):
    paths = {
        f"{EXAM}/Neurologic/GCS/Eyes Score/4": 4,
        f"{EXAM}/Neurologic/GCS/Motor Score/6": 6,
        f"{EXAM}/Neurologic/GCS/Verbal Score/5": 5,
        f"{EXAM}/Constitutional/Weight and I&O/Weight (kg)/Delta": "+2.1",
        f"{EXAM}/Constitutional/Weight and I&O/Weight (kg)/Admission": 80,
        **{f"{VITAL}/HR/HR {which}": value for which, value in (("Current", 80), ("Lowest", 60), ("Highest", 100))},
    }
    rows = [
        (i, 100 + r, h * 60, path, value)
        for r in range(3)
        for h in range(30)
        for i, (path, value) in enumerate(paths.items())
    ]
    text, found = mapped(
        written(
            tmp_path / "t.csv",
            "physicalexamid,patientunitstayid,physicalexamoffset,physicalexampath,physicalexamtext",
            rows,
        )
    )
    assert (found.columns.time, found.time.unit) == ("physicalexamoffset", "minutes")
    assert found.variables.names == ("HR",)
    assert set(readings(tmp_path)["HR"]) == {80.0}
    assert read_cohort(tmp_path / "m.toml", cache=False).records["weight"].to_pylist() == [80.0] * 3
    assert all(
        f'"{path}"' in text.split("# Not mapped")[1] for path in paths if not path.endswith(("Current", "Admission"))
    )


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *[("GCS:Motor", None), ("GCS/Total", "GCS"), ("Neuro/GCS/15", "GCS"), ("GCS//Verbal//5", None)],
        *[
            ("Weight/Change", None),
            ("Weight (kg)/Current", "weight"),
            ("Temp/Max", None),
            ("HR|alarm limit high", None),
        ],
        *[
            ("FiO2/Set", None),
            ("MAP (mmHg)/Value", "MAP"),
            ("MAP/Target", None),
            ("HR Current", "HR"),
            ("HR max", None),
        ],
        *[
            ("Vital Signs/Heart Rate/Heart Rate", "HR"),
            ("LAB//50931//mg/dL", "Glucose"),
            ("Platelets/Transfused", None),
        ],
    ],
)
def test_a_part_of_a_code_makes_it_something_else(code, name):
    assert known_as(code) == name


# The same word, another quantity -------------------------------------------------------------------------------------


def test_a_laboratorys_saturation_is_of_arterial_blood_and_odd_units_are_known(tmp_path):
    rows = []
    for r in range(4):
        for h in range(20):
            said = [
                ("Temperature", 36.5 + h % 9 / 10, "&#176;C"),
                ("O2 Sat (%)", 95, "%"),
                ("paO2", 95, "mm Hg"),
                ("FiO2", 50, "%"),
            ]
            rows += [(len(rows) + i, 100 + r, 60 * h, 7, *each[:2], "", each[2]) for i, each in enumerate(said)]
    head = "labid,patientunitstayid,labresultoffset,labtypeid,labname,labresult,labresulttext,labmeasurenamesystem"
    text, found = mapped(written(tmp_path / "lab.csv", head, rows))
    truth = {("Temperature", "°C"): ("Temp", 1.0), ("O2 Sat (%)", "%"): ("SaO2", 1.0), ("paO2", "mmHg"): ("PaO2", 1.0)}
    assert edits(found, truth | {("FiO2", "%"): ("FiO2", 0.01)}, unit="labmeasurenamesystem", time_unit="minutes") == []
    assert "# CHECK: a laboratory's O2 saturation is of arterial blood" in text
    assert [v.unit for v in found.variables.variables if v.name == "Temp"] == ["degC"]


def test_fahrenheit_among_celsius_and_fractions_among_percents_are_converted(tmp_path):
    temperatures, fractions = [36.6, 37.0, 99.5, 98.6], [50.0, 0.5, 40.0, 0.4]
    rows = [
        (r, h, name, x[h % 4], unit)
        for r in range(4)
        for h in range(20)
        for name, x, unit in (("Temp", temperatures, "C"), ("FiO2", fractions, "%"))
    ]
    text, _ = mapped(written(tmp_path / "t.csv", "stay_id,hours,code,value,unit", rows))
    assert text.count("# CHECK: some values can only be in") == 2
    found = readings(tmp_path)
    assert sorted(set(np.round(found["Temp"], 6))) == [36.6, 37.0, 37.5]
    assert sorted(set(np.round(found["FiO2"], 6))) == [0.4, 0.5]
    assert "40 values of Temp taken to be in another unit" in " ".join(
        read_cohort(tmp_path / "m.toml", cache=False).notes
    )


def test_no_unit_of_ricu_is_guessed_and_static_facts_reach_every_window(tmp_path):
    hours = np.tile(np.arange(72), 3)
    bilirubin = pa.array([2.0 if h == 0 else None for h in hours])
    direct = pa.array([7.5 if h == 0 else None for h in hours])
    columns = {
        "stay_id": np.repeat([0, 1, 2], 72),
        "time": pa.array(hours * 3600, pa.duration("s")),
        "hr": 80 + hours % 7,
    }
    pq.write_table(pa.table(columns | {"bili": bilirubin, "bili_dir": direct}), tmp_path / "dyn.parquet")
    static = {
        "stay_id": [0, 1, 2],
        "age": [60.0, 61.0, 62.0],
        "sex": ["Male", "Female", "Male"],
        "height": [170.0] * 3,
        "weight": [80.0] * 3,
    }
    pq.write_table(pa.table(static), tmp_path / "sta.parquet")
    text, found = mapped(tmp_path / "dyn.parquet")
    assert {(rule.name, rule.factor) for rule in found.rules[:3]} == {
        ("HR", 1),
        ("Bilirubin", 1),
        ("BilirubinDirect", 1),
    }
    assert "CHECK the unit" not in text
    (tmp_path / "m.toml").write_text("windows = true\n" + text)
    records = read_cohort(tmp_path / "m.toml", cache=False).records
    of = dict(zip(records["file"].to_pylist(), records["age"].to_pylist(), strict=True))
    assert of == {"0#0": 60, "0#1": 60, "1#0": 61, "1#1": 61, "2#0": 62, "2#1": 62}
    assert records["weight"].to_pylist() == [80.0] * 6


def test_the_2019_challenge_says_its_units(tmp_path):
    rows = [(h, 80, 7.5, 61, 1, -50, 0) for h in range(1, 30)]
    (tmp_path / "a.psv").write_text(
        "\n".join(
            "|".join(map(str, row))
            for row in [("ICULOS", "HR", "Bilirubin_direct", "Age", "Gender", "HospAdmTime", "SepsisLabel"), *rows]
        )
    )
    _, found = mapped(tmp_path / "a.psv")
    assert {(rule.name, rule.factor) for rule in found.rules[:2]} == {("HR", 1), ("BilirubinDirect", 1)}


@pytest.mark.parametrize(("count", "factor"), [(12, 1), (40, 1 / 17.104)])
def test_few_values_say_no_unit_but_are_asked_about(count, factor, tmp_path):
    rows = [(r, h, "direct bilirubin", 7.5) for r in range(4) for h in range(count // 4)]
    rows += [(r, h, "HR", 80) for r in range(4) for h in range(20)]
    text, found = mapped(written(tmp_path / "t.csv", "stay_id,hours,code,value", rows))
    assert next(rule.factor for rule in found.rules if rule.name == "BilirubinDirect") == pytest.approx(factor)
    assert ("too few values to tell, but they look like umol/L: factor = 0.058" in text) is (count < 30)


# Codes ---------------------------------------------------------------------------------------------------------------

LOINC = {
    "2339-0": "Glucose",
    "38483-4": "Creatinine",
    "6299-2": "BUN",
    "6298-4": "K",
    "2947-0": "Na",
    "2069-3": "Chloride",
}
LOINC |= {"20565-8": "HCO3", "49765-1": "Calcium", "2345-7": "Glucose", "2160-0": "Creatinine", "59408-5": "SpO2"}
BLOOD_GAS = {
    "50809": "Glucose",
    "50822": "K",
    "50824": "Na",
    "50806": "Chloride",
    "50803": "HCO3",
    "50811": "Hgb",
    "50810": "HCT",
}


@pytest.mark.parametrize(("code", "name"), [*LOINC.items(), *BLOOD_GAS.items()])
def test_codes_of_whole_blood_and_of_blood_gases_are_known(code, name):
    assert known_as(code) == name


def test_a_known_code_needs_no_number_of_values(tmp_path):
    rows = [(1, 1, code, at(h), 100 + h, "") for code in BLOOD_GAS for h in range(3)]
    _, found = mapped(written(tmp_path / "t.csv", "subject_id,hadm_id,itemid,charttime,valuenum,valueuom", rows))
    assert set(found.variables.names) == set(BLOOD_GAS.values())


def test_the_description_beside_a_code_says_what_it_is(tmp_path):
    rows = [
        (r, h, code, said, 80)
        for r in range(3)
        for h in range(20)
        for code, said in (("X1", "Heart rate"), ("X2", "Zeal"))
    ]
    text, found = mapped(written(tmp_path / "t.csv", "encounter,hours,code,description,value", rows))
    assert {rule.name: rule.codes for rule in found.rules} == {"HR": ("X1",), "X2": ("X2",)}
    assert 'meaning = "Zeal"' in text


def test_lines_above_the_header_are_left_out_and_rows_keep_their_numbers(tmp_path):
    rows = [(r, at(h, r), 220045, 80 + h % 7) for r in range(4) for h in range(30)]
    path = written(tmp_path / "t.csv", "stay_id,charttime,itemid,valuenum", [*rows, (1, at(2), 220045, "high")])
    path.write_text("# source: an export\n# synthetic\n" + path.read_text())
    text, _ = mapped(path)
    assert "skip_lines = 2  # above the header\n" in text
    assert len(readings(tmp_path)["HR"]) == 120
    assert read_cohort(tmp_path / "m.toml", cache=False).rejects["line"].to_pylist() == [124]
    (tmp_path / "m.toml").write_text(text.replace("skip_lines = 2", "skip_lines = 0"))
    with pytest.raises(CohortError, match=r"its first line begins with #: skip_lines in the mapping says how many"):
        read_cohort(tmp_path / "m.toml", cache=False)


def test_a_header_that_begins_with_a_hash_is_a_header(tmp_path):
    path = written(tmp_path / "t.csv", "#id,hours,code,value", [(r, h, "HR", 80) for r in range(3) for h in range(20)])
    text, found = mapped(path)
    assert "skip_lines" not in text
    assert found.columns.record == "#id"


def test_a_title_above_the_header_is_left_out_and_marked(tmp_path):
    path = written(
        tmp_path / "t.csv", "stay_id,hours,code,value", [(r, h, "HR", 80) for r in range(3) for h in range(20)]
    )
    path.write_text("Ward 7\nexported by somebody\n" + path.read_text())
    text, _ = mapped(path)
    assert "skip_lines = 2  # above the header; CHECK: by their number of fields" in text
    assert len(readings(tmp_path)["HR"]) == 60
