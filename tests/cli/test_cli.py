"""The commands: data on stdout, everything else on stderr, exit codes that mean what they say, files that are whole."""

import importlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer.main

from levyscreen import schema
from levyscreen.cli import common
from levyscreen.cli.app import app
from tests.conftest import SAMPLE
from tests.records.record_files import HEAD, write_folder


@pytest.fixture(scope="session")
def ward(tmp_path_factory):
    """The 26 shortest records of the sample, one of them empty and one with too few readings, and its longest."""
    files = sorted(SAMPLE.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    folder = tmp_path_factory.mktemp("cohorts") / "ward"
    folder.mkdir()
    for path in [*files[:26], files[-1]]:
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def done(run):
    """As `run`, for what must succeed: (stdout, stderr)."""

    def call(*words):
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    return call


def written(name="scores.parquet", cohort="ward"):
    return pd.read_parquet(Path("levyscreen-out") / cohort / name)


def frame_of(csv):
    return pd.read_csv(io.StringIO(csv))


# Help and start -----------------------------------------------------------------------------------------------------


def commands(group=None, prefix=""):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        yield f"{prefix}{name}", command


def test_every_command_and_every_option_has_a_help_text():
    found = dict(commands())
    assert {
        "screen",
        "continuum",
        "train",
        "calibrate",
        "evaluate",
        "plot",
        "validate",
        "cache list",
        "cache clear",
    } <= set(found)
    for name, command in found.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name}"


def test_every_commands_help_can_be_printed(run):
    for name, _ in commands():
        code, out, err = run(*name.split(), "--help")
        assert (code, err) == (0, "")
        assert f"levyscreen {name}" in out


def test_the_command_starts_without_torch():
    code = "import sys, levyscreen.cli.app; print(sorted({'torch', 'pandas', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_version_is_printed(done):
    assert done("--version")[0].startswith("levyscreen 0.")


# screen -------------------------------------------------------------------------------------------------------------


def test_piped_stdout_is_pure_csv_and_stderr_tells_the_rest_without_animation(ward, tmp_path):
    """In a process of its own, as a user's pipe has it."""
    code = "from levyscreen.cli.app import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", code, "screen", str(ward), "--top-decile"], capture_output=True, cwd=tmp_path, check=True
    )
    frame = pd.read_csv(io.BytesIO(process.stdout))
    assert list(frame.columns) == schema.SCORES.names
    assert frame["status"].tolist() == ["empty", "too_few", "scored", "scored"]
    assert frame["flagged"].tolist() == [False, False, True, True]
    err = process.stderr.decode()
    assert "25 records" in err
    assert "written to levyscreen-out/ward" in err
    assert "\x1b" not in err
    assert not any(path.stem in err for path in ward.iterdir())  # no record id in what is said


def test_without_a_fraction_every_record_is_printed_and_written(done, ward):
    frame = frame_of(done("screen", ward)[0])
    assert len(frame) == 27
    assert frame["flagged"].sum() == 2  # round(2.5) of 25
    scores = written()
    assert frame[["record_id", "status"]].to_numpy().tolist() == scores[["record_id", "status"]].to_numpy().tolist()
    assert scores.attrs["cohort"] == "ward"
    assert scores.attrs["model"] == "physionet2012"
    table = pq.read_schema("levyscreen-out/ward/scores.parquet").remove_metadata()
    assert table == schema.SCORES
    timing = json.loads(Path("levyscreen-out/ward/timing.json").read_text())
    assert {"ingest_s", "load_s", "prepare_s", "compute_s", "write_s", "passes", "queries", "threads"} <= set(timing)
    assert timing["queries"] == scores["n_hidden"].sum()


def test_flag_takes_another_fraction(done, ward):
    frame = frame_of(done("screen", ward, "--flag", "0.2")[0])
    assert frame["flagged"].sum() == 5
    assert len(frame) == 7  # the two that cannot be ranked stand before them


def test_queries_are_written_on_request(done, ward):
    done("screen", ward)
    assert not Path("levyscreen-out/ward/queries.parquet").exists()
    done("screen", ward, "--queries", "--out", "elsewhere")
    queries = pd.read_parquet("elsewhere/queries.parquet")
    assert pq.read_schema("elsewhere/queries.parquet").remove_metadata() == schema.QUERIES
    assert len(queries) == pd.read_parquet("elsewhere/scores.parquet")["n_hidden"].sum()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("json", lambda data: pd.DataFrame(json.loads(data))),
        ("ndjson", lambda data: pd.DataFrame([json.loads(line) for line in data.splitlines()])),
        ("parquet", lambda data: pd.read_parquet(io.BytesIO(data))),
        ("csv", lambda data: pd.read_csv(io.BytesIO(data))),
    ],
)
def test_each_format_carries_the_same_rows(done, ward, name, read):
    out, _ = done("screen", ward, "-o", f"rows.{name}")
    assert out == ""
    frame = read(Path(f"rows.{name}").read_bytes())
    assert list(frame.columns) == schema.SCORES.names
    scores = written()
    assert frame["record_id"].tolist() == scores["record_id"].tolist()
    assert frame["uncertainty"].astype(float).tolist() == pytest.approx(scores["uncertainty"].tolist(), nan_ok=True)
    assert [p.name for p in Path.cwd().iterdir() if p.name.startswith(".")] == []


def test_a_table_names_the_flagged_and_how_many_are_not_ranked(done, ward):
    out, _ = done("screen", ward, "--top-decile", "--format", "table")
    assert "2 of 25 ranked records flagged, 2 not ranked (by calibrated)" in out
    worst = frame_of(done("screen", ward, "--top-decile", "-o", "-")[0])
    assert all(str(i) in out for i in worst["record_id"])
    assert [out.count(status) for status in ("empty", "too_few", "scored")] == [1, 1, 2]
    assert "nan" not in out
    assert "\x1b" not in out


def test_the_comparison_runs_the_rivals_and_says_when_there_is_no_ensemble(done, ward):
    Path("few").mkdir()
    for path in sorted(ward.iterdir(), key=lambda path: path.stat().st_size)[:8]:
        shutil.copy(path, "few")
    _, err = done("screen", "few", "--compare")
    assert "has 1 of the 5 members of a deep ensemble; the comparison goes on without it" in err
    assert "MC dropout spread" in err
    table = pd.read_csv("levyscreen-out/few/comparison.csv")
    assert table["passes"].tolist() == [1] * 5 + [20]


def test_the_papers_protocol_takes_the_papers_model_and_leaves_long_records_out(done, ward):
    out, err = done("screen", ward, "--protocol", "paper", "--flag", "0.5")
    assert "1 records over 512 readings left out, as the paper does" in err
    assert written().attrs["model"] == "physionet2012-paper"
    assert (written()["status"] == "too_many").sum() == 1
    assert "too_many" not in out


def test_a_file_without_an_id_stands_in_the_table_too(done, ward, tmp_path):
    folder = write_folder(tmp_path / "odd", {"1.txt": CLEAN.format(id=1), "notes.txt": b"\xff\xfe\x00 not text"})
    out, _ = done("screen", folder, "--format", "table")
    assert "unreadable" in out
    assert "1 of 1 ranked records flagged, 1 not ranked" in out
    assert "NA" not in out


CLEAN = HEAD + "00:00,RecordID,{id}\n00:00,Age,54\n" + "".join(f"{h:02d}:00,HR,{60 + h}\n" for h in range(25))


def test_a_cohort_without_a_record_to_rank_says_so(done, tmp_path):
    _, err = done("screen", write_folder(tmp_path / "bare", {"1.txt": HEAD + "00:00,RecordID,1\n"}))
    assert "note: no record could be ranked: levyscreen validate says what is read" in err
    assert (written(cohort="bare")["status"] == "empty").all()


def test_strict_gives_three_where_a_line_or_record_was_rejected_and_zero_where_none_was(run, tmp_path):
    clean = write_folder(tmp_path / "clean", {"1.txt": CLEAN.format(id=1), "2.txt": CLEAN.format(id=2)})
    assert run("screen", clean, "--strict")[0] == 0
    (clean / "2.txt").write_text(CLEAN.format(id=2) + "10:00,HR,fast\n")
    code, out, err = run("screen", clean, "--strict")
    assert code == 3
    assert "1 not a number" in err
    assert len(frame_of(out)) == 2  # done all the same
    assert run("screen", clean)[0] == 0
    rejects = written("rejects.parquet", "clean")
    assert rejects[["file", "line", "line_class"]].to_numpy().tolist() == [["2.txt", 29, "not_a_number"]]
    (clean / "2.txt").write_bytes(b"\xff\xfe\x00 not text")
    assert run("screen", clean, "--strict")[0] == 3


# Exit codes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--signal", "doubt"], "levyscreen: unknown signal 'doubt': use calibrated, deviation"),
        (["--top-decile", "--flag", "0.05"], "levyscreen: --top-decile flags a tenth: give either it or --flag"),
        (["--flag", "2"], "levyscreen: the flagged fraction must lie in (0, 1], got 2.0"),
        (["--hide", "1"], "levyscreen: the hidden fraction must lie between 0 and 1"),
        (["--format", "xml"], "levyscreen: unknown format 'xml': use table, csv, json, ndjson, parquet"),
        (["-o", "rows.xyz"], "levyscreen: give rows.xyz a format by --format"),
        (["--protocol", "other"], "levyscreen: unknown protocol 'other': use ours or paper"),
        (["--device", "tpu"], "levyscreen: unknown device 'tpu': use auto, cpu or cuda"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--colour"], "No such option"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what_is_right(run, ward, words, message):
    code, out, err = run("screen", ward, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("levyscreen-out").exists()  # said before anything is computed


def test_continuum_without_a_cohort_screened_here_says_what_to_type(run):
    code, out, err = run("continuum")
    assert (code, out) == (2, "")
    assert err == (
        "levyscreen: no cohort was screened from this folder yet: "
        "type levyscreen continuum COHORT, or screen one first\n"
    )


def test_a_missing_cohort_or_model_exits_with_one_line_and_code_one(run, ward):
    code, out, err = run("screen", "nowhere")
    assert (code, out) == (1, "")
    assert err.startswith("levyscreen: ")
    assert "nowhere" in err
    assert err.count("\n") == 1
    code, _, err = run("screen", ward, "--model", "physionet2013")
    assert code == 1
    assert "no model 'physionet2013': shipped are physionet2012, physionet2012-paper" in err


def test_a_folder_that_cannot_be_written_to_is_said_without_a_traceback(run, ward):
    Path("taken").write_text("a file")
    code, _, err = run("screen", ward, "--out", "taken/inside")
    assert code == 1
    assert "levyscreen: folder taken/inside could not be made: Not a directory" in err


def test_an_interrupt_exits_with_130_and_leaves_no_output(run, ward, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("levyscreen.screen"), "ask", interrupted)
    assert run("screen", ward)[0] == 130
    assert not Path("levyscreen-out").exists()


# Defaults -----------------------------------------------------------------------------------------------------------


def test_options_fall_back_to_the_environment_then_to_a_toml_file(done, ward, monkeypatch):
    Path("levyscreen.toml").write_text('[screen]\nseed = 2\nsignal = "evidence"\ntop-decile = true\n')
    assert len(frame_of(done("screen", ward)[0])) == 4
    assert (written().attrs["seed"], written().attrs["signal"]) == (2, "evidence")
    monkeypatch.setenv("LEVYSCREEN_SCREEN_SEED", "3")
    done("screen", ward)
    assert (written().attrs["seed"], written().attrs["signal"]) == (3, "evidence")
    done("screen", ward, "--seed", "4")
    assert written().attrs["seed"] == 4
    Path("other.toml").write_text("[screen]\nhide = 0.5\n")
    done("--config", "other.toml", "screen", ward)
    assert (written().attrs["hide"], written().attrs["signal"]) == (0.5, "calibrated")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 3\n", "has 'seed' outside a table: put it under its command"),
        ("[screen", "is not a readable TOML file"),
        ("x = " + "[" * 5000, "is not a readable TOML file"),
        ("[scren]\nseed = 3\n", "has a table [scren], but there is no such command: use screen"),
        ("[screen]\nsed = 3\n", "has 'sed' in [screen], which has no such option: use seed"),
        ("[screen]\nzzz = 3\n", "has 'zzz' in [screen], which has no such option: use cohort, compare, device, "),
        ("[train]\nmember = 3\n", "has 'member' in [train], which has no such option: use members"),
        ("[cache]\nfolder = 'x'\n", "has 'folder' in [cache], which has no such option: delete it"),
        ("[screen]\ntop-decile = true\ntop_decile = false\n", "has one option twice in [screen]"),
        ("[screen]\nseed = [1]\n", "has neither a text nor a number nor true or false as 'seed' in [screen]"),
    ],
)
def test_a_toml_file_that_is_none_is_wrong_usage(run, ward, text, message):
    Path("levyscreen.toml").write_text(text)
    code, _, err = run("screen", ward)
    assert code == 2
    assert f"levyscreen: levyscreen.toml {message}" in err


# continuum, plot, validate, cache -----------------------------------------------------------------------------------


def test_continuum_alone_takes_the_cohort_and_the_protocol_last_screened_here(done, ward):
    done("screen", ward, "--protocol", "paper")
    out, err = done("continuum", "--grid", "2", "--variables", "HR,MAP")
    assert out == ""
    assert f"the cohort last screened from this folder: {ward}" in err
    assert "3 records are not in it" in err  # empty, too few, too long for the paper
    frame = written("continuum")
    assert len(frame) == 24 * 2 * 2
    assert frame["variable"].unique().tolist() == ["HR", "MAP"]
    timing = json.loads(Path("levyscreen-out/ward/continuum-timing.json").read_text())
    assert timing["queries"] == 96
    part = Path("levyscreen-out/ward/continuum/part-00000.parquet")
    assert pd.read_parquet(part).attrs["model"] == "physionet2012-paper"
    done("continuum", "--grid", "1", "--variables", "HR", "--protocol", "ours")
    assert pd.read_parquet(part).attrs["model"] == "physionet2012"


def test_continuum_takes_ids_or_a_file_of_them_and_refuses_other_words(done, run, ward):
    done("screen", ward)
    ids = written()["record_id"].tolist()[-3:]
    few = ["--grid", "1", "--variables", "HR"]
    done("continuum", ward, *few, "--records", ",".join(map(str, ids)))
    assert written("continuum")["record_id"].tolist() == sorted(ids)
    Path("ids.txt").write_text("\n".join(map(str, ids[:2])) + "\n")
    done("continuum", ward, *few, "--records", "ids.txt", "--half", "--deviation")
    frame = written("continuum")
    assert frame["record_id"].tolist() == sorted(ids[:2])
    assert str(frame["deviation"].dtype) == "float16"
    code, _, err = run("continuum", ward, "--records", "first")
    assert code == 2
    assert "--records takes a file of record ids or ids separated by commas" in err
    code, _, err = run("continuum", ward, "--level", "0.5")
    assert code == 1
    assert "no interval at level 0.5: calibrated at 0.8, 0.9, 0.95" in err


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n2\nx3\n", "ids.txt, line 3 is no id"),
        (b"1\n7_3\n", "ids.txt, line 2 is no id"),
        ("1\n٣\n".encode(), "ids.txt, line 2 is no id"),
        (b"1\xff", "--records ids.txt cannot be read as UTF-8 text"),
        (b" \n", "--records names no record: leave it out for all of them"),
    ],
)
def test_a_list_of_records_that_is_not_plain_is_wrong_usage(run, ward, data, message):
    Path("ids.txt").write_bytes(data)
    code, _, err = run("continuum", ward, "--records", "ids.txt")
    assert code == 2
    assert message in err


def test_a_list_of_records_may_be_longer_than_a_path_and_its_ids_are_not_repeated(run, ward):
    code, _, err = run("continuum", ward, "--records", ",".join(["132539"] * 99 + ["x"]))
    assert code == 2
    assert "its item 100 is no id" in err
    assert "132539" not in err


def test_what_was_screened_last_is_nothing_if_the_note_of_it_is_damaged(run):
    Path("levyscreen-out").mkdir()
    for text in ("", "[]", "{}", '{"cohort": "x"}', "[" * 5000):
        Path("levyscreen-out/last.json").write_text(text)
        assert run("continuum")[0] == 2


def test_a_cohort_whose_name_is_markup_is_shown_by_that_name(done, tmp_path):
    files = {"[bold].txt": "x", "1.txt": CLEAN.format(id=1)}
    out, _ = done("validate", write_folder(tmp_path / "set[red]\x1b[31m", files))
    assert "set[red]_x1b[31m: 2 records" in out
    assert "[bold].txt" in out
    assert "\x1b" not in out


def test_plot_draws_a_record_of_the_cohort_last_screened(done, run, ward):
    done("screen", ward)
    record = written()["record_id"].iloc[-1]
    _, err = done("plot", record, "--variables", "HR")
    assert err == f"written to record-{record}.png\n"
    assert Path(f"record-{record}.png").read_bytes().startswith(b"\x89PNG")
    assert run("plot", 1, "--cohort", ward)[0] == 2


def test_validate_tells_what_is_in_a_cohort_and_keeps_it_as_parquet(done, ward):
    out, err = done("validate", ward, "--write", "kept")
    assert "ward: 27 records" in out
    assert "Readings by variable" in out
    assert err == "written to kept\n"
    done("screen", ward, "--out", "one")
    done("screen", "kept", "--out", "other")
    one, other = (pd.read_parquet(f"{name}/scores.parquet") for name in ("one", "other"))
    pd.testing.assert_frame_equal(one, other, check_flags=False, rtol=1e-5)


def test_the_cache_is_listed_and_cleared(done, ward, monkeypatch, tmp_path):
    monkeypatch.setenv("LEVYSCREEN_CACHE_DIR", str(tmp_path / "cache"))
    assert done("cache", "list") == ("", f"in {tmp_path / 'cache'}\n")
    done("validate", ward, "--no-cache")
    assert done("cache", "list")[0] == ""
    done("validate", ward)
    name, size, _ = done("cache", "list")[0].rstrip("\n").split("\t")
    assert name == "ward"
    assert size.endswith(" MB")
    assert done("cache", "clear") == ("", "1 deleted\n")
    assert done("cache", "list")[0] == ""


# A model of one's own -----------------------------------------------------------------------------------------------


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
    assert list(json.loads(Path("own/calibration.json").read_text())) == ["format", "calibrations", "digest"]
    _, err = done("calibrate", "own", ward, "--rich", "--by", "nothing", "--level", "0.5,0.9")
    assert "rich by nothing: a = " in err
    code, _, err = run("calibrate", "own", ward, "--rich", "--signal", "sigma")
    assert code == 2
    assert "--rich reads all signals together: leave --signal out" in err

    out, err = done("evaluate", "own", ward)
    split = json.loads(Path("own/config.json").read_text())["training"]["split"]
    assert out.startswith(f"own on ward: {len(split['test'])} records, ")
    assert "| rich, calibrated by nothing |" in out
    assert "card written" not in err
    out, err = done("evaluate", "own", ward, "--card")
    assert out.strip() in Path("own/README.md").read_text()
    assert "Calibrated (rich, by nothing)" in Path("own/card.json").read_text()

    frame = frame_of(done("screen", ward, "--model", "own", "--signal", "deviation")[0])
    assert frame["trust_rank"].dropna().tolist() == list(range(1, 26))
    assert written().attrs["model"] == "own"
    done("continuum", "--grid", "1", "--variables", "HR", "--level", "0.5")
    part = Path("levyscreen-out/ward/continuum/part-00000.parquet")
    assert pd.read_parquet(part).attrs["model"] == "own"


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


# report -------------------------------------------------------------------------------------------------------------


def test_a_report_is_of_the_cohort_last_screened_here_wherever_its_results_are(done, ward, tmp_path):
    done("screen", ward, "--out", "elsewhere")
    outcomes = tmp_path / "outcomes.csv"
    ids = written_to("elsewhere")["record_id"].tolist()
    outcomes.write_text("record_id,outcome\n" + "".join(f"{i},{i % 2}\n" for i in ids))
    out, err = done("report", "--outcomes", outcomes, "--patients", "1")
    assert out == ""
    assert "report.html" in err
    assert not any(str(i) in err for i in ids)  # no record id in what is said
    path = Path("elsewhere/report.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert text.count("<article") == 1
    assert "outcome: outcome" in text
    assert f"levyscreen screen {ward} --out elsewhere" in text
    done("report", "elsewhere", "-o", "other.html", "--patients", "0")
    assert "<article" not in Path("other.html").read_text(encoding="utf-8")


def test_a_report_of_nothing_says_what_to_type(run, tmp_path):
    code, out, err = run("report")
    assert (code, out) == (2, "")
    assert "type levyscreen report OUT, or screen one first" in err
    code, _, err = run("report", tmp_path)
    assert code == 2
    assert "screening.json is missing: name a folder that levyscreen screen wrote" in err


def written_to(folder):
    return pd.read_parquet(Path(folder) / "scores.parquet")
