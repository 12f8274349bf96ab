"""The dense timeline holds what a slow path gives, in its order, with its provenance, whole or not at all."""

import importlib
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from levyscreen import schema
from levyscreen.continuum import ContinuumSettings, continuum
from levyscreen.errors import CalibrationError, LevyscreenError, UsageError
from levyscreen.questions import ask, joined
from levyscreen.records.batches import Batcher
from levyscreen.records.hiding import hide
from levyscreen.timeline import Asker, asking, writing
from levyscreen.timeline.writing import _halved
from levyscreen.types import Batch

module = importlib.import_module("levyscreen.continuum")  # where its constants and parts are to be replaced
VARIABLES = ("pH", "HR", "MAP")  # asked in this order, answered in the model's
IN_ORDER = ["HR", "MAP", "pH"]
RECORDS = [143126, 142872, 142832, 142866]
SETTINGS = ContinuumSettings(grid=4, variables=VARIABLES, level=0.9)


def read(folder):
    return pd.concat([pd.read_parquet(part) for part in sorted(folder.glob("part-*.parquet"))], ignore_index=True)


@pytest.fixture(scope="module")
def written(sample, shipped, tmp_path_factory):
    return continuum(sample, shipped, tmp_path_factory.mktemp("out") / "continuum", SETTINGS, records=RECORDS)


@pytest.fixture(scope="module")
def frame(written):
    return read(written.folder)


def slow_predictions(sample, shipped, record_id):
    """One record, padded to nothing, through `network.predict` with the beam, as a screening would ask it."""
    readings = shipped.preprocessor.apply(sample)
    row = int(np.flatnonzero(readings.record_id == record_id)[0])
    context = Batcher(readings, np.zeros(len(readings.time), dtype=bool)).batch(np.array([row]))
    names = shipped.preprocessor.variables.names
    variable = torch.tensor([names.index(name) for name in IN_ORDER for _ in range(4)])[None]
    hours = torch.tensor([0.0, 12.0, 24.0, 36.0] * 3)[None]
    ones = torch.ones_like(variable, dtype=torch.bool)
    fields = {name: getattr(context, name) for name in ("time", "variable", "value", "mask", "record")}
    batch = Batch(
        **fields, query_time=hours / 48, query_variable=variable, query_mask=ones, target=torch.zeros_like(hours)
    )
    with torch.no_grad():
        prediction = shipped.network.predict(batch)
    return variable[0].numpy(), prediction


def test_rows_are_records_by_variables_by_times_sorted_in_that_order(written, frame):
    assert written.rows == len(frame) == 4 * 3 * 4
    assert frame["record_id"].tolist() == np.repeat(sorted(RECORDS), 12).tolist()
    assert frame["variable"].tolist() == 4 * list(np.repeat(IN_ORDER, 4))
    assert frame["time_hours"].tolist() == 12 * [0.0, 12.0, 24.0, 36.0]
    assert list(frame.columns) == schema.CONTINUUM.names


def test_the_files_hold_the_types_of_the_schema(written):
    (part,) = sorted(written.folder.glob("part-*.parquet"))
    assert pq.read_schema(part).remove_metadata() == schema.CONTINUUM


def test_values_are_those_of_the_slow_path(sample, shipped, frame):
    for record_id in RECORDS:
        variable, prediction = slow_predictions(sample, shipped, record_id)
        own = frame[frame["record_id"] == record_id]
        expected = shipped.preprocessor.to_units(variable, prediction.mean[0].numpy())
        np.testing.assert_allclose(own["prediction"], expected, rtol=1e-5)
        for name in ("evidence", "disagreement", "sigma_hat"):
            np.testing.assert_allclose(own[name], getattr(prediction.signals, name)[0].numpy(), rtol=2e-5)


def half_width(calibration, variable, prediction):
    """Of a pass without a lattice, z units at level 0.9, from the calibration's numbers."""
    signals = prediction.signals
    surroundings = torch.cat([prediction.nearby, prediction.mixed], -1)[0].numpy()
    emitted = SimpleNamespace(
        prediction=prediction.mean[0].numpy(),
        variable=variable,
        surroundings=surroundings,
        **{name: getattr(signals, name)[0].numpy() for name in ("evidence", "disagreement", "sigma_hat", "deviation")},
    )
    spread = calibration.a[variable] * calibration.reader(emitted) + calibration.b[variable]
    level = calibration.levels.index(0.9)
    factor = np.interp(np.log(spread), calibration.by_scale.knots, calibration.by_scale.interval[level])
    return calibration.quantiles_by_variable[level][variable] * spread * factor


def test_the_interval_is_the_prediction_and_the_half_width_of_its_calibration_at_the_level(sample, shipped, frame):
    calibration = shipped.calibrations["meta_model_without_deviation"]  # the deviation is not paid for here
    scale = np.asarray(shipped.preprocessor.scale)
    for record_id in RECORDS:
        variable, prediction = slow_predictions(sample, shipped, record_id)
        own = frame[frame["record_id"] == record_id]
        half = half_width(calibration, variable, prediction) * scale[variable]
        np.testing.assert_allclose(own["upper"] - own["prediction"], half, rtol=1e-3)
        np.testing.assert_allclose(own["prediction"] - own["lower"], half, rtol=1e-3)


def test_a_higher_level_gives_a_wider_interval_about_the_same_prediction(sample, shipped, frame, tmp_path):
    wide = read(continuum(sample, shipped, tmp_path / "c", replace(SETTINGS, level=0.95), records=RECORDS).folder)
    np.testing.assert_array_equal(wide["prediction"], frame["prediction"])
    assert (wide["upper"] - wide["lower"] > frame["upper"] - frame["lower"]).all()


def test_with_the_deviation_its_column_is_last_and_its_calibration_gives_the_interval(sample, shipped, frame, tmp_path):
    settings = replace(SETTINGS, with_deviation=True)
    got = read(continuum(sample, shipped, tmp_path / "c", settings, records=RECORDS[:2]).folder)
    assert list(got.columns) == [*schema.CONTINUUM.names, "deviation"]
    for record_id in RECORDS[:2]:
        variable, prediction = slow_predictions(sample, shipped, record_id)
        own = got[got["record_id"] == record_id]
        deviation = prediction.signals.deviation[0].numpy()
        np.testing.assert_allclose(own["deviation"], deviation, rtol=1e-4)
        np.testing.assert_allclose(own["prediction"], frame[frame["record_id"] == record_id]["prediction"], rtol=1e-5)
        expected = half_width(shipped.calibration, variable, prediction)
        expected = expected * np.asarray(shipped.preprocessor.scale)[variable]
        np.testing.assert_allclose((own["upper"] - own["lower"]) / 2, expected, rtol=1e-3)
    assert got.attrs["interval"] == "meta_model"


def test_half_writes_float16_of_the_same_values(sample, shipped, frame, tmp_path):
    folder = continuum(sample, shipped, tmp_path / "c", replace(SETTINGS, half=True), records=RECORDS).folder
    table = pq.read_table(next(folder.glob("part-*.parquet")))
    values = schema.CONTINUUM.names[3:]
    assert [table.schema.field(name).type for name in values] == [pa.float16()] * 6
    assert table.schema.field("time_hours").type == pa.float32()
    for name in values:
        np.testing.assert_allclose(table[name].to_numpy().astype(np.float32), frame[name], rtol=1e-3)


def test_half_writes_what_is_too_large_for_float16_as_its_largest_number():
    values = np.array([1.0, 7e4, -7e4, np.inf, -np.inf], dtype=np.float32)
    assert _halved(values).tolist() == [1.0, 65504.0, -65504.0, np.inf, -np.inf]


def test_all_variables_and_records_are_asked_by_default_and_the_sparse_ones_skipped_and_counted(
    sample, shipped, tmp_path, monkeypatch
):
    monkeypatch.setattr(asking, "WINDOW", 4)
    monkeypatch.setattr(writing, "RECORDS_A_FILE", 8)
    seen = []
    got = continuum(sample, shipped, tmp_path / "c", ContinuumSettings(grid=1), done=seen.append)
    assert (got.records, got.skipped, got.rows) == (29, 2, 29 * 36)
    assert got.timing["queries"] == 29 * 36
    assert seen == [4] * 7 + [1]
    parts = sorted(got.folder.iterdir())
    assert [p.name for p in parts] == [f"part-0000{i}.parquet" for i in range(4)]
    assert got.timing["bytes"] == sum(p.stat().st_size for p in parts)
    groups = [
        pq.ParquetFile(p).read_row_group(i)["record_id"].to_pylist()
        for p in parts
        for i in range(pq.ParquetFile(p).metadata.num_row_groups)
    ]
    assert [len(set(ids)) for ids in groups] == [4] * 7 + [1]
    assert all(len(ids) == 36 * len(set(ids)) for ids in groups)  # whole records in a row group
    whole = [i for ids in groups for i in ids]
    assert whole == sorted(whole)


def test_each_chunk_and_batch_size_gives_the_same_answers(sample, shipped, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "WINDOW", 1)
    monkeypatch.setattr(asking, "QUERIES", 9)  # two variables of four times
    monkeypatch.setattr(asking, "TOKENS", 1)
    got = read(continuum(sample, shipped, tmp_path / "c", SETTINGS, records=RECORDS).folder)
    for name in schema.CONTINUUM.names[3:]:
        np.testing.assert_allclose(got[name], frame[name], rtol=1e-5)


def test_windows_of_the_cohort_and_threads_change_nothing(sample, shipped, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WINDOW_RECORDS", 9)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    got = continuum(sample, shipped, tmp_path / "c", SETTINGS, records=RECORDS)
    pd.testing.assert_frame_equal(read(got.folder), frame, rtol=1e-5)
    every = continuum(sample, shipped, tmp_path / "e", ContinuumSettings(grid=1))
    assert (every.records, every.skipped) == (29, 2)


@pytest.mark.parametrize("window", [1, 9, 4096])
def test_of_the_records_asked_for_and_no_others_the_sparse_are_counted_whatever_window_they_fall_in(
    sample, shipped, frame, tmp_path, monkeypatch, window
):
    monkeypatch.setattr(module, "WINDOW_RECORDS", window)
    sparse = np.flatnonzero(shipped.preprocessor.apply(sample).lengths < 20)
    ids = np.array(sample.records.column("record_id").to_pylist())[sparse].tolist()
    assert len(ids) == 2
    for sparse_ones in (ids, ids[:1], ids[1:]):
        asked = [*RECORDS, *sparse_ones, RECORDS[0]]
        got = continuum(sample, shipped, tmp_path / "c", SETTINGS, records=asked)
        assert (got.records, got.skipped, got.rows) == (4, len(sparse_ones), 48)
    pd.testing.assert_frame_equal(read(got.folder), frame, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_windows_and_threads_change_nothing_with_the_deviation(sample, shipped, tmp_path, monkeypatch, threads):
    settings = ContinuumSettings(grid=6, variables=VARIABLES, with_deviation=True)
    whole = read(continuum(sample, shipped, tmp_path / "whole", settings, most_readings=400).folder)
    monkeypatch.setattr(module, "WINDOW_RECORDS", 17)
    monkeypatch.setattr(asking, "WINDOW", 5)
    monkeypatch.setattr(asking, "TOKENS", 700)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    parts = read(continuum(sample, shipped, tmp_path / "parts", settings, most_readings=400).folder)
    assert len(whole) > 18 * 10
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-5, atol=1e-6)


def test_records_over_a_limit_are_left_out_and_counted(sample, shipped, tmp_path):
    got = continuum(sample, shipped, tmp_path / "c", ContinuumSettings(1, ("HR",)), most_readings=512)
    assert (got.records, got.skipped) == (26, 5)


def test_provenance_is_in_the_footer_and_in_attrs(written, frame, sample, shipped):
    (part,) = written.folder.glob("part-*.parquet")
    footer = json.loads(pq.read_schema(part).metadata[b"levyscreen"])
    attrs = pd.read_parquet(part).attrs
    assert footer == attrs
    assert attrs["cohort_fingerprint"] == sample.fingerprint
    assert attrs["model_digest"] == shipped.digest
    assert (attrs["grid"], attrs["level"], attrs["interval"]) == (4, 0.9, "meta_model_without_deviation")


def test_an_unknown_level_is_refused_before_anything_is_computed(sample, shipped, tmp_path):
    with pytest.raises(CalibrationError, match=r"no interval at level 0\.5: calibrated at 0\.8, 0\.9, 0\.95"):
        continuum(sample, shipped, tmp_path / "c", replace(SETTINGS, level=0.5))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_variable_is_refused_with_the_known_ones(sample, shipped, tmp_path):
    with pytest.raises(UsageError, match=r"unknown variable 'Pulse': this model knows .*HR"):
        continuum(sample, shipped, tmp_path / "c", ContinuumSettings(variables=("HR", "Pulse")))


def test_unknown_records_are_counted_not_named(sample, shipped, tmp_path):
    with pytest.raises(UsageError, match=r"^2 of the records asked for are not in the cohort$"):
        continuum(sample, shipped, tmp_path / "c", SETTINGS, records=[1, 2, RECORDS[0]])


def test_records_that_all_have_too_few_readings_are_refused(sample, shipped, tmp_path):
    sparse = np.flatnonzero(shipped.preprocessor.apply(sample).lengths < 20)
    ids = np.array(sample.records.column("record_id").to_pylist())[sparse]
    with pytest.raises(
        UsageError, match=r"no record can be asked: 1 record with fewer than 20 readings, 1 record without a reading"
    ):
        continuum(sample, shipped, tmp_path / "c", SETTINGS, records=ids.tolist())


def test_a_grid_without_times_is_refused():
    with pytest.raises(UsageError, match="the grid needs 1 time at least, got 0"):
        ContinuumSettings(grid=0)


def test_a_model_without_calibration_is_refused(sample, shipped, tmp_path):
    with pytest.raises(CalibrationError, match="physionet2012 is not calibrated: run levyscreen calibrate"):
        continuum(sample, replace(shipped, calibrations={}), tmp_path / "c", SETTINGS)


@pytest.fixture
def old(sample, shipped, tmp_path):
    """A folder that an earlier run wrote."""
    return continuum(sample, shipped, tmp_path / "c", ContinuumSettings(2, ("HR",)), records=RECORDS[:1]).folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_older_continuum_is_replaced_once_the_new_one_is_whole(sample, shipped, old):
    continuum(sample, shipped, old, SETTINGS, records=RECORDS)
    assert len(read(old)) == 48
    assert [p.name for p in old.parent.iterdir()] == ["c"]


def test_a_folder_of_other_things_is_not_replaced(sample, shipped, tmp_path):
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    with pytest.raises(UsageError, match="is no continuum, and would be replaced whole"):
        continuum(sample, shipped, tmp_path, SETTINGS, records=RECORDS)
    assert kept.read_text() == "mine"


def test_a_failure_in_the_middle_leaves_the_older_one_and_no_temporary(sample, shipped, old, monkeypatch):
    before, asked, ask = content(old), [], Asker.ask

    def failing(self, readings):
        asked.append(readings)
        if len(asked) == 3:
            raise ArithmeticError("no reason")
        return ask(self, readings)

    monkeypatch.setattr(asking, "WINDOW", 1)
    monkeypatch.setattr(Asker, "ask", failing)
    with pytest.raises(ArithmeticError, match="no reason"):
        continuum(sample, shipped, old, SETTINGS, records=RECORDS)
    assert content(old) == before
    assert [p.name for p in old.parent.iterdir()] == ["c"]


def test_a_full_disk_is_said_and_leaves_the_older_one_and_no_temporary(sample, shipped, old, monkeypatch):
    before, write = content(old), pq.ParquetWriter.write_table
    tables = []

    def full(self, table, **options):
        tables.append(table)
        if len(tables) == 2:
            raise OSError(28, "No space left on device")
        write(self, table, **options)

    monkeypatch.setattr(asking, "WINDOW", 1)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(LevyscreenError, match="c could not be written: No space left on device"):
        continuum(sample, shipped, old, SETTINGS, records=RECORDS)
    assert content(old) == before
    assert [p.name for p in old.parent.iterdir()] == ["c"]


def test_the_older_one_is_never_deleted_by_its_own_name(sample, shipped, old, monkeypatch):
    deleted, rmtree = [], module.shutil.rmtree

    def spy(path, **options):
        deleted.append(path.name)
        rmtree(path, **options)

    monkeypatch.setattr(module.shutil, "rmtree", spy)
    continuum(sample, shipped, old, SETTINGS, records=RECORDS[:1])
    assert "c" not in deleted
    assert ".c.old" in deleted


def test_what_a_kill_between_the_two_renames_left_is_put_back(sample, shipped, old, monkeypatch):
    def failing(*_):
        raise ArithmeticError("no reason")

    before = content(old)
    old.rename(old.with_name(".c.old"))
    monkeypatch.setattr(Asker, "ask", failing)
    with pytest.raises(ArithmeticError, match="no reason"):
        continuum(sample, shipped, old, SETTINGS, records=RECORDS)
    assert content(old) == before
    assert [p.name for p in old.parent.iterdir()] == ["c"]


def test_what_a_killed_run_left_is_swept_by_the_next(sample, shipped, old):
    for name in (f".c.levyscreen-{'0' * 16}.tmp", ".c.old"):
        stray = old.with_name(name)
        stray.mkdir()
        (stray / "part-00000.parquet").write_bytes(b"half")
    continuum(sample, shipped, old, SETTINGS, records=RECORDS[:1])
    assert [p.name for p in old.parent.iterdir()] == ["c"]


def test_two_runs_into_one_folder_leave_a_whole_one(sample, shipped, old):
    """The second begins and ends while the first computes: the first one's, last to end, is there."""
    settings = replace(SETTINGS, grid=5)
    alone = continuum(sample, shipped, old.with_name("alone"), SETTINGS, records=RECORDS)
    nested = []

    def meanwhile(_):
        if not nested:
            nested.append(continuum(sample, shipped, old, settings, records=RECORDS[:1]))

    continuum(sample, shipped, old, SETTINGS, records=RECORDS, done=meanwhile)
    assert nested
    pd.testing.assert_frame_equal(read(old), read(alone.folder))
    assert sorted(p.name for p in old.parent.iterdir()) == ["alone", "c"]


def test_the_interval_holds_where_evidence_is_missing(sample, shipped):
    """Nine of ten readings hidden: the model knows little, and the intervals of a timeline are to say so."""
    readings = shipped.preprocessor.apply(sample)
    readings = readings.take(np.flatnonzero(readings.lengths >= 20))
    told = joined([a for _, a in ask(shipped.network, readings, hide(readings, 0.9, 0), shipped.device)])
    for with_deviation in (True, False):
        calibration = shipped.timeline_calibration(with_deviation)
        half = calibration.half_width(calibration.scale_of(told), told.variable, 0.9)
        assert float((told.error <= half).mean()) > 0.89
