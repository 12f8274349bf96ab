"""MEDS 0.4: what goes in comes out, and scores that its own schema takes."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped.meds import descriptions, has_meds_scores, is_meds, meds_scores
from levyscreen.schema import MEDS_SCORES, SCORES
from tests.records.mapped_files import ADMITTED, lines, write_meds

meds = pytest.importorskip("meds", reason="the extra meds is not installed")


@pytest.fixture(scope="module")
def ward(sample_files, tmp_path_factory):
    """The sample as MEDS, and its mapping."""
    folder = tmp_path_factory.mktemp("meds")
    write_meds(sample_files, folder / "ward")
    (folder / "ward.toml").write_text(draft(guess(folder / "ward"), folder))
    return folder


def test_the_layout_and_the_codes_metadata_are_known(ward):
    assert is_meds(ward / "ward")
    assert not is_meds(ward)
    assert descriptions(ward / "ward")["CHART//HR"] == "HR"
    assert descriptions(ward) == {}


def test_a_round_trip_through_meds_loses_no_reading(ward, sample_files, sample):
    found = read_cohort(ward / "ward.toml", cache=False)
    names, lines_ = np.array(found.variables.names), found.load()
    record = np.repeat(found.records.column("record_id").to_numpy(), np.diff(found.offsets))
    back = sorted(
        zip(
            record.tolist(),
            lines_.time_hours.tolist(),
            names[lines_.variable].tolist(),
            lines_.value.tolist(),
            strict=True,
        )
    )
    minutes = {
        (r, float(np.float32(m / 60)), n, float(v)) for r, m, n, v in lines(sample_files) if n in found.variables.names
    }
    assert set(back) == minutes
    assert len(back) == len(sample.load())


def test_hour_0_is_the_admission_and_the_subject_its_own(ward):
    found = read_cohort(ward / "ward.toml", cache=False)
    assert found.records.column("subject_id").equals(found.records.column("record_id"))
    started = found.records.column("origin").to_pylist()
    assert started == [ADMITTED + datetime.timedelta(days=i) for i in range(1, len(found) + 1)]


def scores_of(cohort, scored):
    columns = {field.name: pa.nulls(len(cohort), field.type) for field in SCORES}
    columns["record_id"] = cohort.records.column("record_id")
    columns["status"] = pa.array(["scored" if hit else "empty" for hit in scored])
    columns["uncertainty"] = pa.array(np.arange(len(cohort)), pa.float32())
    return pa.table(columns, schema=SCORES)


def test_scores_are_labels_by_the_schema_of_meds_at_hour_0_plus_the_horizon(ward):
    cohort = read_cohort(ward / "ward.toml", cache=False)
    assert has_meds_scores(cohort)
    scored = np.arange(len(cohort)) % 5 > 0
    found = meds_scores(cohort, scores_of(cohort, scored))
    assert found.schema.equals(MEDS_SCORES)
    assert len(found) == scored.sum()
    labels = found.select(["subject_id", "prediction_time", "float_value"])
    meds.LabelSchema.validate(labels)
    origin = cohort.records.filter(pa.array(scored)).column("origin").to_pylist()
    assert sorted(found.column("prediction_time").to_pylist()) == sorted(
        o + datetime.timedelta(hours=48) for o in origin
    )
    assert found.column("float_value").to_pylist() == found.column("uncertainty").to_pylist()


def test_a_cohort_without_subjects_or_calendar_times_has_no_meds_scores(sample):
    assert not has_meds_scores(sample)


def test_a_stay_is_a_record_where_a_column_says_so_and_its_subject_is_kept(tmp_path):
    (tmp_path / "w" / "data").mkdir(parents=True)
    start = datetime.datetime(2180, 1, 1)
    hours = [start + datetime.timedelta(hours=h) for h in (0, 1, 100, 101)]
    table = pa.table(
        {
            "subject_id": pa.array([-7] * 4, pa.int64()),
            "time": pa.array(hours, pa.timestamp("us")),
            "code": ["HR"] * 4,
            "numeric_value": pa.array([80.0, 81.0, 82.0, 83.0], pa.float32()),
            "hadm_id": pa.array([1, 1, 2, 2]),
        }
    )
    meds.DataSchema.validate(table)
    pq.write_table(table, tmp_path / "w" / "data" / "0.parquet")
    (tmp_path / "w.toml").write_text('source = "w"\nkind = "meds"\n[columns]\nrecord = "hadm_id"\n[variables.HR]\n')
    found = read_cohort(tmp_path / "w.toml", cache=False)
    assert found.records.column("record_id").to_pylist() == [1, 2]
    assert found.records.column("subject_id").to_pylist() == [-7, -7]
    assert found.time_hours.tolist() == [0.0, 1.0, 0.0, 1.0]
