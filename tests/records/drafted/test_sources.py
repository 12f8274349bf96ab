"""Of tables as they are out there, how many edits a first mapping takes: columns, codes and factors that are wrong."""

from __future__ import annotations

import csv
import datetime
import math
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped.codes import Codes
from levyscreen.records.mapped.mapping import Mapping, parse_mapping

START = datetime.datetime(2150, 1, 2, 3)
Truth = dict[tuple[str, str], tuple[str, float]]  # (code, unit): variable and factor


def mapped(source: Path) -> tuple[str, Mapping]:
    text = draft(guess(source), source.parent)
    (source.parent / "m.toml").write_text(text)
    return text, parse_mapping(source.parent / "m.toml", text, tomllib.loads(text))


def written(path: Path, header: str, rows: list[tuple]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header.split(","), *rows])
    return path


def edits(found: Mapping, truth: Truth, kind: str = "long", **roles: str | None) -> list[str]:
    """What is wrong: a role or a code a line, and a variable that there should not be."""
    got = {"kind": found.kind, **vars(found.columns), "origin": found.time.origin, "start": found.time.column}
    got["time_unit"] = found.time.unit
    wrong = [f"{role} = {got[role]!r}" for role, name in {"kind": kind, **roles}.items() if got[role] != name]
    codes = Codes(found)
    for (code, unit), (name, factor) in truth.items():
        rule = found.rules[i] if (i := codes.rule(code, unit)) >= 0 else None
        if rule is None or rule.name != name or not math.isclose(rule.factor, factor, rel_tol=2e-3):
            wrong.append(f"{code} [{unit}] is {rule}")
    return wrong + [f"variable {name}" for name in found.variables.names if name not in {n for n, _ in truth.values()}]


def values(rng: np.random.Generator, middle: float) -> list[float]:
    return [
        float(f"{middle * rng.uniform(0.97, 1.02) if middle > 7.6 or middle < 7.2 else middle:.4g}") for _ in range(6)
    ]


def long_rows(truth: Truth, medians: dict[tuple[str, str], float], records: int = 6) -> list[tuple]:
    """(record, hours, code, value, unit) of every code in truth, in each record several times."""
    rng = np.random.default_rng(0)
    return [
        (record, round(hour + 0.1 * i, 2), code, value, unit)
        for record in range(records)
        for i, (code, unit) in enumerate(truth)
        for hour, value in enumerate(values(rng, medians[code, unit]))
    ]


# MIMIC-IV ------------------------------------------------------------------------------------------------------------

CHARTEVENTS = """220045 HR bpm 85|220179 NISysABP mmHg 120|220180 NIDiasABP mmHg 62|220181 NIMAP mmHg 80
223761 Temp °F 98.4|220277 SpO2 % 97|220210 RespRate insp/min 19|220615 Creatinine mg/dL 1.2|225624 BUN mg/dL 24
220621 Glucose mg/dL 135|227442 K mEq/L 4.1|220645 Na mEq/L 139|227443 HCO3 mEq/L 24|220546 WBC K/uL 11
220545 HCT % 31|220228 Hgb g/dL 10.2|227457 Platelets K/uL 200|223830 pH units 7.38|220235 PaCO2 mmHg 41
220224 PaO2 mmHg 110|225668 Lactate mmol/L 2|220635 Mg mg/dL 2|225690 Bilirubin mg/dL 1|223835 FiO2 % 45
220739 220739  3|223900 223900  4|223901 223901  6"""


def items(text: str, **factors: float) -> tuple[Truth, dict[tuple[str, str], float]]:
    """Truth and medians of a table of: code, variable, unit, median; each apart by one blank."""
    rows = [item.strip().split(" ") for line in text.splitlines() for item in line.split("|")]
    truth: Truth = {(code, unit): (name, factors.get(name, 1.0)) for code, name, unit, _ in rows}
    return truth, {(code, unit): float(median) for code, _, unit, median in rows}


def chartevents(folder: Path, admitted: bool) -> tuple[Path, Truth]:
    truth, medians = items(CHARTEVENTS, FiO2=0.01, Temp=5 / 9)
    rows = []
    for record, hours, code, value, unit in long_rows(truth, medians):
        time = START + datetime.timedelta(hours=hours, days=record)
        text = {"220739": "To Speech", "223900": "Oriented", "223901": "Obeys Commands"}.get(code, str(value))
        start = [START + datetime.timedelta(days=record)] if admitted else []
        rows.append((record + 10, record + 20, record + 30, 7, *start, time, time, code, text, value, unit, 0))
    head = "subject_id,hadm_id,stay_id,caregiver_id,charttime,storetime,itemid,value,valuenum,valueuom,warning"
    head = head.replace("charttime", "intime,charttime") if admitted else head
    return written(folder / "chartevents.csv", head, rows), truth


@pytest.mark.parametrize("admitted", [True, False])
def test_chartevents_of_mimic_take_no_edit(admitted, tmp_path):
    path, truth = chartevents(tmp_path, admitted)
    text, found = mapped(path)
    roles = {"record": "stay_id", "subject": "subject_id", "time": "charttime", "variable": "itemid"}
    roles |= {"value": "valuenum", "unit": "valueuom", "start": "intime" if admitted else None}
    assert edits(found, truth, **roles) == []
    assert ('origin = "first"  # CHECK' in text) is not admitted
    assert read_cohort(tmp_path / "m.toml", cache=False).load().line_class.max() == 0


# eICU ----------------------------------------------------------------------------------------------------------------


def test_vital_signs_of_eicu_take_two_edits_for_what_is_no_variable_that_is_known(tmp_path):
    columns = "temperature,sao2,heartrate,respiration,cvp,systemicsystolic,systemicdiastolic,systemicmean,st1"
    medians, rng = (37, 96, 85, 19, 9, 122, 61, 83, 0.3), np.random.default_rng(0)
    rows = [
        (1000 + 7 * record + 100 * i, 141 + record, 5 * i, *(round(m * rng.uniform(0.98, 1.02), 1) for m in medians))
        for record in range(5)
        for i in range(60)
    ]
    path = written(
        tmp_path / "vitalPeriodic.csv", f"vitalperiodicid,patientunitstayid,observationoffset,{columns}", rows
    )
    text, found = mapped(path)
    names = ("Temp", "SpO2", "HR", "RespRate", "CVP", "SysABP", "DiasABP", "MAP", "ST1")
    truth: Truth = {
        (c, ""): (n, 1.0) for c, n in zip(columns.split(","), names, strict=True) if n not in ("CVP", "ST1")
    }
    roles = {"record": "patientunitstayid", "time": "observationoffset", "time_unit": "minutes"}
    assert edits(found, truth, "wide", **roles) == ["variable cvp", "variable st1"]
    assert found.ignored == ("vitalperiodicid",)
    assert "[variables.SpO2]" in text
    assert "# CHECK: in eICU's table of vital signs sao2 is of pulse oximetry" in text


EICU_LAB = """creatinine/Creatinine/mg/dL/1.2|BUN/BUN/mg/dL/24|potassium/K/mmol/L/4.1|sodium/Na/mmol/L/139
Hgb/Hgb/g/dL/10|Hct/HCT/%/31|WBC x 1000/WBC/K/mcL/11|platelets x 1000/Platelets/K/mcL/200|magnesium/Mg/mg/dL/2
bedside glucose/Glucose/mg/dL/140|glucose/Glucose/mg/dL/140|lactate/Lactate/mmol/L/2|pH/pH//7.38|paO2/PaO2/mm Hg/110
paCO2/PaCO2/mm Hg/41|FiO2/FiO2/%/45|bicarbonate/HCO3/mmol/L/24|HCO3/HCO3/mmol/L/24|total bilirubin/Bilirubin/mg/dL/1
direct bilirubin/BilirubinDirect/mg/dL/0.4|alkaline phos./ALP/Units/L/80|ALT (SGPT)/ALT/Units/L/40
AST (SGOT)/AST/Units/L/40|PT - INR/INR/ratio/1.2|troponin - I/TroponinI/ng/mL/0.4|troponin - T/TroponinT/ng/mL/0.1
albumin/Albumin/g/dL/2.9|calcium/Calcium/mg/dL/8.4|chloride/Chloride/mmol/L/104|CRP/CRP/mg/dL/9|CPK/CK/Units/L/150"""


def test_the_lab_table_of_eicu_takes_no_edit(tmp_path):
    parts = [item.split("/") for line in EICU_LAB.splitlines() for item in line.split("|")]
    factors = {"FiO2": 0.01, "CRP": 10.0}
    truth: Truth = {(p[0], "/".join(p[2:-1])): (p[1], factors.get(p[1], 1.0)) for p in parts}
    medians = {(p[0], "/".join(p[2:-1])): float(p[-1]) for p in parts}
    rows = [
        (i, record + 141, round(hours * 60), 1, code, value, value, unit, unit, round(hours * 60) + 5)
        for i, (record, hours, code, value, unit) in enumerate(long_rows(truth, medians))
    ]
    head = "labid,patientunitstayid,labresultoffset,labtypeid,labname,labresult,labresulttext,labmeasurenamesystem"
    _, found = mapped(written(tmp_path / "lab.csv", f"{head},labmeasurenameinterface,labresultrevisedoffset", rows))
    roles = {"record": "patientunitstayid", "time": "labresultoffset", "variable": "labname", "value": "labresult"}
    assert edits(found, truth, **roles, unit="labmeasurenamesystem", time_unit="minutes") == []


# MEDS in units of the SI ---------------------------------------------------------------------------------------------

SI = """50912 Creatinine umol/L 105|50931 Glucose mmol/L 7.1|HEMOGLOBIN Hgb mmol/L 6.3|718-7 Hgb g/dL 10
50885 Bilirubin umol/L 17|UREA BUN mmol/L 7|3094-0 BUN mg/dL 20|2601-3 Mg mmol/L 0.82|50818 PaCO2 kPa 5.4
50821 PaO2 kPa 13|50862 Albumin g/L 29|50971 K mmol/L 4.1|50983 Na mmol/L 139|50893 Calcium mmol/L 2.1
50970 Phosphate mmol/L 1.1|51214 Fibrinogen g/L 3.2|51301 WBC 10*9/L 11|51265 Platelets 10*9/L 200
51221 HCT L/L 0.31|220045 HR bpm 85"""
FACTORS = {
    **{"umol/L Creatinine": 1 / 88.42, "mmol/L Glucose": 18.016, "mmol/L Hgb": 1.6114, "umol/L Bilirubin": 1 / 17.104},
    **{"mmol/L BUN": 2.801, "mmol/L Mg": 2.43, "kPa PaCO2": 7.50062, "kPa PaO2": 7.50062, "g/L Albumin": 0.1},
    **{"mmol/L Calcium": 4.008, "mmol/L Phosphate": 3.097, "g/L Fibrinogen": 100.0, "L/L HCT": 100.0},
}


def si() -> tuple[Truth, dict[tuple[str, str], float]]:
    truth, medians = items(SI)
    return {(c, u): (name, FACTORS.get(f"{u} {name}", 1.0)) for (c, u), (name, _) in truth.items()}, medians


def test_a_meds_folder_in_units_of_the_si_takes_no_edit_and_says_nothing_twice(tmp_path):
    truth, medians = si()
    rows: list[tuple] = []
    for record in range(6):
        rows += [(record, None, "MEDS_BIRTH", None), (record, START, "ICU_ADMISSION//MICU", None)]
    for record, hours, code, value, unit in long_rows(truth, medians):
        rows.append((record, START + datetime.timedelta(hours=hours), f"LAB//{code}//{unit}", value))
    (tmp_path / "ward/data").mkdir(parents=True)
    types = (pa.int64(), pa.timestamp("us"), pa.string(), pa.float32())
    names = ("subject_id", "time", "code", "numeric_value")
    columns = {n: pa.array(c, t) for n, c, t in zip(names, zip(*rows, strict=True), types, strict=True)}
    pq.write_table(pa.table(columns), tmp_path / "ward/data/0.parquet")
    text, found = mapped(tmp_path / "ward")
    in_codes: Truth = {(f"LAB//{code}//{unit}", ""): target for (code, unit), target in truth.items()}
    assert edits(found, in_codes, "meds", origin="code") == []
    assert text.count("MEDS_BIRTH") == text.count("ICU_ADMISSION") - 1 == 1
    assert text.count("CHECK") == 1  # the head's


# Own names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
def test_a_table_of_other_columns_names_takes_no_edit_where_units_are_said_and_few_where_not(told, tmp_path):
    truth, medians = si()
    rows = [row if told else row[:4] for row in long_rows(truth, medians)]
    head = "encounter_id,offset_hours,test_name,result_value" + (",units" if told else "")
    text, found = mapped(written(tmp_path / "labs.csv", head, rows))
    truth = truth if told else {(code, ""): target for (code, _), target in truth.items()}
    roles = {"record": "encounter_id", "time": "offset_hours", "time_unit": "hours", "variable": "test_name"}
    assert edits(found, truth, **roles, value="result_value", unit="units" if told else None) == []
    assert ("values look like" in text) is not told


GERMAN = """Herzfrequenz;HR;/min;85;1|RR systolisch;NISysABP;mmHg;120;1|RR diastolisch;NIDiasABP;mmHg;62;1
RR Mittel;NIMAP;mmHg;80;1|Körpertemperatur;Temp;°C;36.9;1|SpO2;SpO2;%;97;1|Atemfrequenz;RespRate;/min;19;1
Kreatinin;Creatinine;µmol/l;105;.01131|Harnstoff;BUN;mmol/l;8;2.801|Glukose;Glucose;mmol/l;7.1;18.016|Kalium;K;mmol/l;4.1;1
Natrium;Na;mmol/l;139;1|Leukozyten;WBC;G/l;11;1|Hämatokrit;HCT;%;31;1|Hämoglobin;Hgb;mmol/l;6.3;1.6114
Thrombozyten;Platelets;G/l;200;1|pH-Wert;pH;;7.38;1|pCO2;PaCO2;kPa;5.5;7.50062|pO2;PaO2;kPa;14;7.50062
Laktat;Lactate;mmol/l;2;1|Magnesium;Mg;mmol/l;.82;2.43|Bilirubin gesamt;Bilirubin;µmol/l;17;.058466|FiO2;FiO2;%;45;.01
Bikarbonat;HCO3;mmol/l;24;1"""


def german() -> tuple[Truth, dict[tuple[str, str], float]]:
    parts = [item.split(";") for line in GERMAN.splitlines() for item in line.split("|")]
    return {(p[0], p[2]): (p[1], float(p[4])) for p in parts}, {(p[0], p[2]): float(p[3]) for p in parts}


@pytest.mark.parametrize("start", ["Aufnahmezeit", "Beginn"])
def test_a_german_long_table_takes_no_edit_whatever_the_admission_is_called(start, tmp_path):
    truth, medians = german()
    stamp = "%d.%m.%Y %H:%M"
    rows = [
        (record, 500 + record // 2, f"{START:{stamp}}", f"{START + datetime.timedelta(hours=hours):{stamp}}", *rest)
        for record, hours, *rest in long_rows(truth, medians)
    ]
    head = f"Fallnummer,PatientenID,{start},Zeitpunkt,Parameter,Wert,Einheit"
    text, found = mapped(written(tmp_path / "messwerte.csv", head, rows))
    roles = {"record": "Fallnummer", "subject": "PatientenID", "time": "Zeitpunkt", "variable": "Parameter"}
    assert edits(found, truth, **roles, value="Wert", unit="Einheit", origin="column", start=start) == []
    assert (f'column = "{start}"  # CHECK' in text) is (start == "Beginn")


def test_a_german_wide_table_takes_no_edit(tmp_path):
    truth, medians = german()
    rng = np.random.default_rng(0)
    rows = [
        (
            record,
            f"{START + datetime.timedelta(hours=hour):%d.%m.%Y %H:%M:%S}",
            *(values(rng, m)[0] for m in medians.values()),
        )
        for record in range(5)
        for hour in range(12)
    ]
    text, found = mapped(
        written(tmp_path / "kurve.csv", ",".join(["Fallnummer", "Datum/Zeit", *(c for c, _ in truth)]), rows)
    )
    wide: Truth = {(code, ""): target for (code, _), target in truth.items()}
    assert edits(found, wide, "wide", record="Fallnummer", time="Datum/Zeit", origin="first") == []
    assert 'origin = "first"  # CHECK' in text


# By what is in the columns -------------------------------------------------------------------------------------------

PLAIN = {("Heart Rate", ""): ("HR", 1.0), ("Sodium", ""): ("Na", 1.0), ("Temp", ""): ("Temp", 1.0)}
MEDIANS = {("Heart Rate", ""): 85.0, ("Sodium", ""): 139.0, ("Temp", ""): 36.9}


def test_a_long_table_is_known_by_its_columns_contents_and_that_is_marked(tmp_path):
    rows = [
        (f"{r}a", hours, code, x, "ward 7" if r else "ward 8") for r, hours, code, x, _ in long_rows(PLAIN, MEDIANS)
    ]
    text, found = mapped(written(tmp_path / "t.csv", "wer,stunden,was,wieviel,wo", rows))
    assert edits(found, PLAIN, record="wer", variable="was", value="wieviel") == []
    assert 'kind = "long"  # CHECK' in text


def test_codes_that_nobody_knows_make_a_long_table_where_rows_share_record_and_time(tmp_path):
    rows = [(r, t, f"x{c}", 3.5 * c + t / 7) for r in range(5) for t in range(20) for c in range(4)]
    text, found = mapped(written(tmp_path / "t.csv", "id,hours,art,menge", rows))
    assert (found.kind, found.columns.variable, found.columns.value) == ("long", "art", "menge")
    assert 'kind = "long"  # CHECK' in text


def test_a_column_of_units_is_known_by_what_it_says_and_an_id_is_no_value(tmp_path):
    rows = [
        (1000 + r, 77 * r + t, t, f"x{c}", 3.5 * c + t / 7, ("mg/dL", "mmHg")[c % 2])
        for r in range(5)
        for t in range(9)
        for c in range(4)
    ]
    _, found = mapped(written(tmp_path / "t.csv", "id,nummer,hours,art,menge,wie", rows))
    assert (found.columns.variable, found.columns.value, found.columns.unit) == ("art", "menge", "wie")
    assert [v.unit for v in found.variables.variables] == ["mg/dL", "mmHg", "mg/dL", "mmHg"]


def test_a_wide_table_with_a_column_of_texts_stays_wide(tmp_path):
    rows = [(r, t, 80 + t % 7, 37.1, ("SR", "AF", "paced")[t % 3]) for r in range(5) for t in range(40)]
    _, found = mapped(written(tmp_path / "t.csv", "id,hours,HR,Temp,rhythm", rows))
    assert (found.kind, found.variables.names, found.ignored) == ("wide", ("HR", "Temp"), ("rhythm",))


def test_of_two_columns_of_timestamps_the_one_that_is_constant_within_records_is_the_admission(tmp_path):
    rows = [
        (r, START + datetime.timedelta(days=r), START + datetime.timedelta(days=r, hours=h), START, "HR", 80)
        for r in range(1, 6)
        for h in range(12)
    ]
    text, found = mapped(written(tmp_path / "t.csv", "id,came,seen,birth_date,code,value", rows))
    assert (found.columns.time, found.time.origin, found.time.column) == ("seen", "column", "came")
    assert 'column = "came"  # CHECK' in text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[("offset_hours", "hours"), ("offset_minutes", "minutes"), ("minutes_since_admission", "minutes")],
        *[("OffsetSeconds", "seconds"), ("offset", "minutes"), ("time_h", "hours"), ("days_in_icu", "days")],
    ],
)
def test_a_time_is_known_by_a_part_of_its_name_and_so_is_its_unit(name, unit, tmp_path):
    _, found = mapped(written(tmp_path / "t.csv", f"id,{name},code,value", [(1, t, "HR", 80) for t in range(30)]))
    assert (found.columns.time, found.time.unit) == (name, unit)


def test_pressures_of_which_nothing_says_where_they_were_measured_are_marked_unless_a_cuffs_stand_beside_them(tmp_path):
    def text_of(*codes):
        rows = [(1, t, code, 80) for t in range(30) for code in codes]
        return mapped(written(tmp_path / "t.csv", "id,hours,code,value", rows))[0]

    assert "# CHECK: taken for the invasive pressure; if a cuff measured it, name it NISysABP" in text_of("sbp", "HR")
    assert "invasive pressure;" not in text_of("sbp", "nibp_systolic")
    assert "invasive pressure;" not in text_of("systemicsystolic", "220052")
