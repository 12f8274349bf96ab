"""A folder of several tables gets one mapping of all that belong together, and says what it leaves out, and why."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pandas as pd
import pytest

from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft_several import draft_several
from levyscreen.records.drafted.several import guess_several
from levyscreen.records.mapped.mapping import parse_mapping
from tests.records.mapped.small_table import by_name, column
from tests.test_examples import OWN


def drafted(folder):
    """The mapping of a folder's tables beside it, and what it means."""
    found = guess_several(folder)
    text = draft_several(found, folder.parent)
    (folder.parent / "m.toml").write_text(text)
    return text, parse_mapping(folder.parent / "m.toml", text, tomllib.loads(text))


@pytest.fixture
def ward(tmp_path):
    """The example's table taken apart: vital signs, laboratory, stays."""
    chart = pd.read_csv(OWN / "chart.csv")
    of_lab, of_patient = chart["item"].isin(["glucose", "potassium"]), chart["item"] == "age"
    (tmp_path / "ward").mkdir()
    chart[~of_lab & ~of_patient].drop(columns="intime").to_csv(tmp_path / "ward" / "vitals.csv", index=False)
    lab = chart[of_lab].rename(columns={"item": "test", "value": "result"}).drop(columns="intime")
    lab.to_csv(tmp_path / "ward" / "lab.csv", sep=";", index=False)
    chart[of_patient].rename(columns={"value": "age"})[["stay", "intime", "age"]].to_csv(
        tmp_path / "ward" / "stays.csv", index=False
    )
    return tmp_path / "ward"


def test_a_table_taken_apart_is_the_same_cohort_by_the_first_mapping_of_its_parts(ward):
    text, mapping = drafted(ward)
    whole, parts = read_cohort(OWN / "chart.toml", cache=False), read_cohort(ward.parent / "m.toml", cache=False)
    assert by_name(parts) == by_name(whole)
    for name in ("record_id", "file", "age", "origin", "n_reading", "n_outside_stay"):
        assert column(parts, name) == column(whole, name), name
    assert [(part.source.name, part.kind) for part in mapping.parts] == [
        ("lab.csv", "long"),
        ("vitals.csv", "long"),
        ("stays.csv", "static"),
    ]
    assert "not mapped" not in text


def hospital(folder, rng):
    """Tables as of MIMIC-IV: no id of stays in the laboratory's, patients by theirs."""
    stays = pd.DataFrame({"subject_id": [1, 1, 2, 3], "hadm_id": [21, 22, 23, 24], "stay_id": [31, 32, 33, 34]})
    stays["admittime"] = pd.Timestamp("2150-01-01") + pd.to_timedelta(30 * np.arange(4), "D")
    rows = stays.iloc[rng.integers(0, 4, 400)].reset_index(drop=True)
    rows["charttime"] = rows["admittime"] + pd.to_timedelta(rng.integers(0, 2800, 400), "min")
    chart, lab = rows[:250].copy(), rows[250:].copy()
    chart["itemid"], chart["valuenum"], chart["valueuom"] = 220045, rng.integers(50, 120, 250), "bpm"
    lab["itemid"], lab["valuenum"], lab["valueuom"] = 50931, rng.integers(80, 200, 150), "mg/dL"
    folder.mkdir()
    chart.drop(columns="admittime").to_csv(folder / "chartevents.csv", index=False)
    lab.drop(columns=["admittime", "stay_id"]).to_csv(folder / "labevents.csv", index=False)
    stays.drop(columns="stay_id").to_csv(folder / "admissions.csv", index=False)
    people = pd.DataFrame({"subject_id": [1, 2, 3, 4], "gender": list("FMFM"), "anchor_age": [60, 70, 80, 20]})
    people.to_csv(folder / "patients.csv", index=False)
    pd.DataFrame({"itemid": [220045, 50931], "label": ["Heart Rate", "Glucose"]}).to_csv(
        folder / "d_items.csv", index=False
    )
    return chart, lab


def test_the_record_is_the_id_that_all_tables_of_readings_have_and_patients_are_joined_by_theirs(tmp_path):
    chart, lab = hospital(tmp_path / "mimic", np.random.default_rng(0))
    text, mapping = drafted(tmp_path / "mimic")
    roles = [(p.source.name, p.kind, p.columns.record, p.columns.subject) for p in mapping.parts]
    assert roles == [
        ("chartevents.csv", "long", "hadm_id", "subject_id"),
        ("labevents.csv", "long", "hadm_id", "subject_id"),
        ("admissions.csv", "static", "hadm_id", "subject_id"),
        ("patients.csv", "static", "", "subject_id"),
    ]
    assert mapping.time.origin == "column"
    assert re.findall(r"^#   (\S+): ", text, re.MULTILINE) == ['"d_items.csv"']
    found = read_cohort(tmp_path / "m.toml", cache=False)
    begin = {21 + i: pd.Timestamp("2150-01-01") + pd.Timedelta(days=30 * i) for i in range(4)}
    expected = sorted(
        (hadm, float(np.float32((at - begin[hadm]) / pd.Timedelta(hours=1))), name, float(value))
        for table, name in ((chart, "HR"), (lab, "Glucose"))
        for hadm, at, value in zip(table["hadm_id"], table["charttime"], table["valuenum"], strict=True)
    )
    assert [line[:4] for line in by_name(found)] == expected
    assert column(found, "gender") == [0, 0, 1, 0]
    assert column(found, "subject_id") == [1, 1, 2, 3]


def test_a_table_of_other_ids_stays_out_and_is_named(tmp_path):
    hospital(tmp_path / "mimic", np.random.default_rng(0))
    path = tmp_path / "mimic" / "labevents.csv"
    lab = pd.read_csv(path)
    lab.assign(hadm_id=lab["hadm_id"] + 1000).to_csv(path, index=False)
    text, mapping = drafted(tmp_path / "mimic")
    assert '#   "labevents.csv": its ids are not those of the other tables' in text
    assert "labevents.csv" not in {part.source.name for part in mapping.parts}


def test_tables_that_count_time_in_other_ways_are_joined_where_both_are_numbers(tmp_path):
    rng = np.random.default_rng(5)
    folder = tmp_path / "unit"
    folder.mkdir()
    base = pd.DataFrame({"patientunitstayid": np.repeat([5, 6, 7], 60)})
    minutes = rng.integers(0, 2800, 180)
    base.assign(observationoffset=minutes, heartrate=rng.integers(60, 99, 180)).to_csv(
        folder / "vitalPeriodic.csv", index=False
    )
    base.assign(labresultoffset=minutes, labname="glucose", labresult=rng.integers(80, 200, 180)).to_csv(
        folder / "lab.csv", index=False
    )
    pd.DataFrame({"patientunitstayid": [5, 6, 7], "age": [40, 50, 60], "gender": ["Male", "Female", "Male"]}).to_csv(
        folder / "patient.csv", index=False
    )
    _, mapping = drafted(folder)
    assert {part.source.name: (part.kind, part.time.unit) for part in mapping.parts if part.kind != "static"} == {
        "vitalPeriodic.csv": ("wide", "minutes"),
        "lab.csv": ("long", "minutes"),
    }
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert sum(column(found, "n_reading")) == 360
    assert column(found, "age") == [40, 50, 60]
    assert column(found, "gender") == [1, 0, 1]


def test_one_table_many_alike_and_a_folder_of_ricu_have_no_mapping_of_several(tmp_path):
    table = pd.DataFrame({"stay_id": [1, 1], "time": [0, 1], "hr": [80, 81]})
    for name in ("one", "alike", "ricu"):
        (tmp_path / name).mkdir()
    table.to_csv(tmp_path / "one" / "a.csv", index=False)
    for i in range(3):
        table.to_csv(tmp_path / "alike" / f"{i}.csv", index=False)
    table.to_parquet(tmp_path / "ricu" / "dyn.parquet")
    table.drop(columns="hr").to_parquet(tmp_path / "ricu" / "sta.parquet")
    assert [guess_several(tmp_path / name) for name in ("one", "alike", "ricu")] == [None] * 3
    assert guess_several(tmp_path / "one" / "a.csv") is None
