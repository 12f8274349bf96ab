"""levyscreen map, and every command on the mapping that it writes: the same records in any layout score the same."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from levyscreen.config import ModelConfig, Protocol, TrainingConfig
from tests.conftest import SAMPLE
from tests.records.mapped_files import write_dyn, write_long, write_meds, write_psv

ROOT = Path(__file__).parents[2]
ACTIVITY = [p / "data/activity/ConfLongDemo_JSI.txt.gz" for p in (ROOT / "shared", ROOT.parent / "shared")]


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """The 24 shortest records of the sample, one of them empty and one with too few readings."""
    folder = tmp_path_factory.mktemp("cohorts") / "ward"
    folder.mkdir()
    for path in sorted(SAMPLE.iterdir(), key=lambda path: (path.stat().st_size, path.name))[:24]:
        shutil.copy(path, folder)
    return folder


def scores(name):
    return pd.read_parquet(Path("levyscreen-out") / name / "scores.parquet")


@pytest.mark.parametrize("write", [write_long, write_psv, write_dyn, write_meds])
def test_the_same_records_in_any_layout_score_the_same_to_the_last_bit(run, ward, write):
    if write is write_meds:
        pytest.importorskip("meds", reason="the extra meds is not installed")
    source = write(ward, Path({write_long: "own.csv", write_dyn: "own.parquet"}.get(write, "own")))
    code, out, err = run("map", source)
    assert (code, out) == (0, "")
    assert "written to own.toml; look at it, then: levyscreen validate own.toml" in err
    assert run("screen", "own.toml", "--top-decile")[0] == 0
    assert run("screen", ward, "--top-decile")[0] == 0
    pd.testing.assert_frame_equal(scores("own"), scores("ward"), check_exact=True)


def test_a_meds_cohort_also_gets_scores_by_subject_and_time(run, ward):
    meds = pytest.importorskip("meds", reason="the extra meds is not installed")
    import pyarrow.parquet as pq

    run("map", write_meds(ward, Path("own")))
    assert run("screen", "own.toml")[0] == 0
    found = pq.read_table("levyscreen-out/own/meds.parquet")
    meds.LabelSchema.validate(found.select(["subject_id", "prediction_time", "float_value"]).replace_schema_metadata())
    assert len(found) == (scores("own")["status"] == "scored").sum()


def test_a_mapping_that_is_there_is_not_replaced_unless_asked_for(run, ward):
    source = write_long(ward, Path("own.csv"))
    run("map", source)
    code, _, err = run("map", source)
    assert code == 2
    assert "own.toml is there, and may have been edited" in err
    assert run("map", source, "--force")[0] == 0
    assert run("map", source, "-o", "other.txt")[0] == 2
    code, _, err = run("map", source, "-o", "levyscreen.toml")
    assert (code, "the file of defaults of every command" in err) == (2, True)


def test_a_mapping_may_go_to_standard_output_or_to_another_folder_and_finds_its_source(run, ward):
    source = write_long(ward, Path("data/own.csv"))
    assert 'source = "data/own.csv"' in run("map", source, "-o", "-")[1]
    Path("maps").mkdir()
    assert run("map", source, "-o", "maps/own.toml")[0] == 0
    assert 'source = "../data/own.csv"' in Path("maps/own.toml").read_text()
    code, out, _ = run("validate", "maps/own.toml")
    assert (code, "own: 24 records" in out) == (0, True)


def test_what_is_no_table_says_so(run, ward):
    code, _, err = run("map", ward)
    assert (code, "is no table: map takes CSV and Parquet; record files" in err) == (2, True)
    code, _, err = run("map", "nowhere.csv")
    assert (code, "nowhere.csv: no such file or folder" in err) == (1, True)


def test_a_folder_of_texts_is_one_of_tables_for_map_unless_they_are_named_as_records_are(run, ward):
    source = write_long(ward, Path("own/a.csv"))
    source.rename("own/a.txt")
    assert run("map", "own")[0] == 0
    assert run("validate", "own.toml")[0] == 0


def test_a_name_that_is_no_text_is_refused_before_a_mapping_says_it(run, ward):
    write_long(ward, Path(os.fsdecode(b"caf\xe9.csv")))
    code, _, err = run("map", os.fsdecode(b"caf\xe9.csv"), "-o", "caf.toml")
    assert (code, "its name is not UTF-8, and no mapping can say it: rename it" in err) == (2, True)
    assert not Path("caf.toml").exists()


def test_a_folder_of_folders_and_an_archive_say_where_the_tables_are(run, ward):
    write_psv(ward, Path("p2019/training_setA"))
    code, _, err = run("map", "p2019")
    assert (code, "p2019 is no table; did you mean p2019/training_setA, which holds tables?" in err) == (2, True)
    shutil.make_archive("own", "zip", "p2019")
    code, _, err = run("map", "own.zip")
    assert (code, "own.zip is no table, but an archive: if tables are in it, unpack it and map their" in err) == (
        2,
        True,
    )


def test_tables_that_are_left_out_are_named(run, ward):
    write_long(ward, Path("own/a.csv"))
    Path("own/b.csv").write_text("id,remark\n1,x\n")
    code, _, err = run("map", "own")
    assert code == 0
    assert "of own only a.csv is looked at, and read" in err
    assert "of other columns, and not looked at: b.csv; set source to one file, and make each its mapping" in err
    assert run("validate", "own.toml")[0] == 0


def test_rows_of_another_width_are_rejected_input(run, ward):
    source = write_long(ward, Path("own.csv"))
    with source.open("a") as stream:
        stream.write("1,2\n")
    run("map", source)
    assert run("validate", "own.toml")[0] == 0
    assert run("screen", "own.toml")[0] == 0
    rejects = pd.read_parquet("levyscreen-out/own/rejects.parquet")
    assert (rejects["line_class"] == "malformed").sum() == 1


def test_a_home_folder_may_be_written_as_shells_do(run, ward, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_long(ward, Path("own.csv"))
    assert run("map", "~/own.csv")[0] == 0
    assert run("validate", "~/own.toml")[0] == 0
    assert run("screen", "~/own.toml")[0] == 0
    assert run("continuum", "--grid", "1", "--variables", "HR")[0] == 0  # of what was screened, wherever that is


def test_a_missing_table_is_said_without_a_word_of_mappings(run):
    code, _, err = run("map", "missing.csv")
    assert (code, err) == (1, "levyscreen: missing.csv: no such file or folder\n")


def test_variables_that_the_model_does_not_know_are_named_in_a_note(run, ward):
    source = write_long(ward, Path("own.csv"))
    with source.open("a") as stream:
        csv.writer(stream).writerows((record, f"{h:02}:00", "CRP", 5 + h) for record in (142870,) for h in range(30))
    run("map", source)
    code, _, err = run("screen", "own.toml")
    assert code == 0
    assert "note: 30 readings of 1 variable that the model does not know, not used: CRP" in err


def test_a_mapped_cohort_written_as_parquet_is_a_cohort(run, ward):
    run("map", write_long(ward, Path("own.csv")))
    assert run("validate", "own.toml", "--write", "kept")[0] == 0
    assert run("screen", "own.toml")[0] == 0
    assert run("screen", "kept", "--out", "levyscreen-out/kept")[0] == 0
    pd.testing.assert_frame_equal(scores("kept"), scores("own"), check_exact=True)


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few subjects
def test_a_model_trains_calibrates_and_screens_on_a_vocabulary_of_its_own(run, monkeypatch):
    """The Activity data by the mapping that levyscreen map guesses: a network as small as can be, for one epoch."""
    source = next((path for path in ACTIVITY if path.is_file()), None)
    if source is None:
        pytest.skip("ConfLongDemo_JSI.txt.gz is not in shared/data/activity")
    assert run("map", source, "-o", "activity.toml")[0] == 0
    import levyscreen.config
    import levyscreen.training  # before its ModelConfig is another

    small = {"width": 16, "heads": 2, "blocks": 1, "feed_forward": 32, "time_cells": 4, "channel_cells": 2}
    monkeypatch.setattr(levyscreen.config, "ModelConfig", lambda n, d, h, **rest: ModelConfig(n, d, h, **rest | small))
    code, _, err = run("train", "activity.toml", "--epochs", 1, "--out", "own-model")
    assert code == 0, err
    config = json.loads(Path("own-model/config.json").read_text())
    assert config["model"]["variables"] == 12
    code, _, err = run("screen", "activity.toml", "--model", "own-model", "--top-decile", "--signal", "deviation")
    assert code == 0, err
    found = scores("activity")
    assert (found["status"] == "scored").all()
    assert found.loc[found["flagged"], "worst_variables"].str.contains("010-0|020-0").all()
    code, _, err = run("screen", "activity.toml")
    assert (code, "none by the same name: name them in the mapping as the model does" in err) == (1, True)


def test_windows_of_one_sequence_are_trained_on_or_tested_on_but_not_both(run, tmp_path):
    from levyscreen.learn.data import prepare
    from levyscreen.records.cache import read_cohort

    rng = np.random.default_rng(0)
    rows = [(s, t / 10, c, rng.normal()) for s in range(20) for t in range(600) for c in ("x", "y")]
    with open("own.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([("subject", "minutes", "code", "value"), *rows])
    assert run("map", "own.csv")[0] == 0
    text = Path("own.toml").read_text()
    Path("own.toml").write_text("windows = true\n" + text.replace("horizon_seconds = 3600", "horizon_minutes = 6"))
    cohort = read_cohort("own.toml", cache=False)
    data = prepare(cohort, Protocol(), TrainingConfig().seed)
    subject = cohort.records.column("subject_id").to_numpy()
    parts = [set(subject[rows]) for rows in vars(data.split).values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 20
