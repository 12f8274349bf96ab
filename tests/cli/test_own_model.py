"""A model of one's own: `levyscreen train`, `calibrate` and `evaluate`, and screening with it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from levyscreen.cli import common
from levyscreen.store import shipped_folder
from tests.cli.outputs import CLEAN, frame_of, written
from tests.records.record_files import write_folder


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_a_model_is_trained_resumed_calibrated_evaluated_and_screened_with(done, run, ward):
    out, err = done("train", ward, "--epochs", "1", "--out", "own")
    assert out == ""
    assert "epoch 1/1  train " in err
    assert "model written to own" in err
    assert "own/README.md\n" in err.partition("card written to ")[2]
    assert Path("own/README.md").read_text().startswith('---\nlicense: "unknown"\nlibrary_name: levyscreen\n')
    weights = Path("own/model.safetensors").read_bytes()
    _, err = done("train", ward, "--epochs", "1", "--out", "own", "--resume")
    assert "epoch 1/1" not in err  # nothing was left to do
    assert Path("own/model.safetensors").read_bytes() == weights
    code, _, err = run("train", ward, "--epochs", "1", "--out", "own", "--resume", "--seed", "1")
    assert code == 1
    assert "belongs to a training with other records or settings" in err

    out, err = done("calibrate", "own", ward, "--level", "0.5,0.9", "--by", "nothing", "--signal", "sigma")
    assert "sigma_hat by nothing: a = " in err
    reliability = frame_of(out)
    assert {"variable", "n"} <= set(reliability.columns)
    written_by_it = json.loads(Path("own/calibration.json").read_text())
    assert list(written_by_it) == ["format", "calibrations", "fitted_on", "digest"]
    split = json.loads(Path("own/config.json").read_text())["training"]["split"]
    assert written_by_it["fitted_on"] == {"records": split["validation"]}
    _, err = done("calibrate", "own", ward, "--rich", "--by", "nothing", "--level", "0.5,0.9")
    assert "meta_model by nothing: a = " in err
    code, _, err = run("calibrate", "own", ward, "--rich", "--signal", "sigma")
    assert code == 2
    assert "--rich is --signal meta_model: leave --signal out" in err

    out, err = done("evaluate", "own", ward)
    assert out.startswith(f"own on ward: {len(split['test'])} records, ")
    assert "| meta_model, calibrated by nothing |" in out
    assert "card written" not in err
    out, err = done("evaluate", "own", ward, "--card")
    assert out.strip() in Path("own/README.md").read_text()
    assert "Calibrated (meta_model, by nothing)" in Path("own/card.json").read_text()

    frame = frame_of(done("screen", ward, "--model", "own", "--signal", "deviation")[0])
    assert frame["trust_rank"].dropna().tolist() == list(range(1, 26))
    assert written().attrs["model"] == "own"
    done("continuum", "--grid", "1", "--variables", "HR", "--level", "0.5")
    part = Path("levyscreen-out/ward/continuum/part-00000.parquet")
    assert pd.read_parquet(part).attrs["model"] == "own"


def test_a_control_is_said_to_emit_no_signals_whatever_is_asked_of_it(done, run, ward):
    done("train", ward, "--epochs", "1", "--decode", "softmax", "--out", "control")
    for command in ("evaluate", "calibrate"):
        code, _, err = run(command, "control", "nowhere")  # before a cohort is read for nothing
        assert code == 1
        assert "decodes by softmax, which emits no evidence, disagreement or deviation; levyscreen study scores" in err


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_an_ensemble_teaches_a_student_that_screens_alone(done, run, ward):
    done("train", ward, "--epochs", "1", "--out", "teacher", "--seed", "3", "--members", "2")
    _, err = done("train", ward, "--teacher", "teacher", "--epochs", "2")
    assert "epoch 2/2  train " in err
    assert "model written to runs/ward-student-0" in err
    learnt, taught = (json.loads(Path(f, "config.json").read_text()) for f in ("runs/ward-student-0", "teacher"))
    assert learnt["training"]["split"] == taught["training"]["split"]
    assert list(learnt["weights"]) == ["model.safetensors"]
    frame = frame_of(done("screen", ward, "--model", "runs/ward-student-0", "--signal", "deviation")[0])
    assert frame["trust_rank"].dropna().tolist() == list(range(1, 26))
    code, _, err = run("train", ward, "--teacher", "runs/ward-student-0", "--epochs", "1", "--out", "third")
    assert code == 1
    assert "ward-student-0 has no ensemble to learn from: train it with --members 5" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--decode", "linear"], "unknown decode layer 'linear': use levy, softmax, cosine or tnp-d"),
        (["--head", "gamma"], "unknown head 'gamma': use point, nll or beta-nll"),
        (["--protocol", "none"], "unknown protocol 'none': use ours or paper"),
        (["--epochs", "0"], "--members and --epochs take 1 or more"),
        (["--seed", "-1"], "a seed must lie between 0 and 2^32 - 1, got -1"),
        (
            ["--teacher", "physionet2012-paper", "--seed", "1"],
            "a student is as its teacher: leave out --decode, --head, --seed, --members and --protocol",
        ),
    ],
)
def test_a_training_that_cannot_be_meant_is_wrong_usage(run, ward, words, message):
    code, _, err = run("train", ward, *words)
    assert code == 2
    assert f"levyscreen: {message}" in err
    assert not Path("runs").exists()


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_a_shipped_model_is_calibrated_as_a_copy_and_stays_as_it_is(done, run, ward):
    shipped = shipped_folder() / "physionet2012"
    before = {path.name: path.read_bytes() for path in shipped.iterdir() if path.is_file()}
    code, _, err = run("calibrate", "physionet2012", ward)
    assert code == 1
    assert "physionet2012 comes with levyscreen and stays as it is: calibrate a copy of it, by --out FOLDER" in err
    code, _, err = run("evaluate", "physionet2012", ward, "--card")
    assert code == 2
    assert "physionet2012 comes with levyscreen, and its card stays as it is: leave out --card, or copy" in err
    _, err = done("calibrate", "physionet2012", ward, "--by", "nothing", "--out", "mine/copy")
    assert "levyscreen evaluate mine/copy OTHER-COHORT --card" in err
    assert {path.name: path.read_bytes() for path in shipped.iterdir() if path.is_file()} == before
    assert Path("mine/copy/model.safetensors").read_bytes() == before["model.safetensors"]
    assert Path("mine/copy/calibration.json").read_bytes() != before["calibration.json"]
    code, _, err = run("calibrate", "physionet2012", ward, "--out", "mine/copy")
    assert code == 1
    assert "mine/copy is not empty: name a new folder for the copy of physionet2012" in err

    code, _, err = run("calibrate", "mine/copy", ward, "--out", "mine/copy/inside")
    assert code == 1
    assert "mine/copy/inside is in the folder of copy: name one outside for the copy" in err

    _, err = done("evaluate", "mine/copy", ward)
    assert "warning: copy was calibrated on these records: its scales and intervals are not judged by them" in err
    _, err = done("evaluate", "physionet2012", ward)
    assert "warning" not in err
    done("calibrate", "mine/copy", ward, "--by", "nothing")  # one's own is calibrated where it is


def test_a_calibration_that_fails_leaves_no_copy(run, tmp_path):
    few = write_folder(tmp_path / "few", {"1.txt": CLEAN.format(id=1)[:200]})
    code, _, err = run("calibrate", "physionet2012", few, "--out", "mine")
    assert code == 1, err
    assert not Path("mine").exists()


def test_a_signal_that_no_screening_can_rank_by_is_named(capsys):
    from types import SimpleNamespace

    fitted = {"deviation": SimpleNamespace(rankable=True), "disagreement": SimpleNamespace(rankable=False)}
    common.warn_of_signals(SimpleNamespace(calibrations=fitted))
    assert capsys.readouterr().err == (
        "warning: a = 0, so disagreement says nothing about error here; screening will refuse to rank by it: train "
        "longer, or on more records\n"
    )


def test_a_training_on_too_few_records_says_how_many_it_needs(run, tmp_path):
    few = write_folder(tmp_path / "few", {f"{i}.txt": CLEAN.format(id=i) for i in (1, 2, 3)})
    code, _, err = run("train", few)
    assert code == 1
    assert "cohort few has 3 records with 20 readings or more; training needs 20 at least" in err


def test_levels_that_are_no_numbers_are_wrong_usage(run, ward):
    code, _, err = run("calibrate", "physionet2012", ward, "--level", "0.8,high")
    assert code == 2
    assert "--level takes numbers between 0 and 1, separated by commas; 'high' is none" in err


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_a_model_is_not_trained_over(done, run, ward):
    done("train", ward, "--epochs", "1", "--out", "own")
    before = Path("own/model.safetensors").read_bytes()
    for words in (["--seed", "1"], ["--teacher", "own"]):
        code, _, err = run("train", ward, "--epochs", "1", "--out", "own", *words)
        assert code == 2
        assert "own holds a model: name another folder with --out, or go on with it by --resume" in err
    assert Path("own/model.safetensors").read_bytes() == before
