"""`levyscreen screen`: data on stdout, everything else on stderr, files that are whole."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from levyscreen import outputs, schema
from levyscreen.errors import LevyscreenError
from levyscreen.report.tables import scores_table
from tests.cli.outputs import CLEAN, frame_of, written
from tests.records.record_files import HEAD, write_folder


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
    assert "2 of 25 ranked records flagged, 2 not ranked; signal: calibrated" in out
    worst = frame_of(done("screen", ward, "--top-decile", "-o", "-")[0])
    assert all(str(i) in out for i in worst["record_id"])
    assert [out.count(status) for status in ("empty", "too_few")] == [1, 1]
    assert "nan" not in out
    assert "\x1b" not in out


@pytest.mark.parametrize("width", [80, 100, 128])
def test_a_table_cuts_no_record_and_no_reason_however_narrow_the_terminal_is(width):
    row = {"status": "scored", "n_readings": 321, "uncertainty": 0.523, "interval_width": 2.33, "evidence": 632.0}
    row |= {"mae": 0.4, "reason": "thin_evidence", "worst_variables": "HR;Glucose;MechVent", "flagged": True}
    records = [14283212345678, 14283212345679]
    scores = pd.DataFrame([row | {"trust_rank": rank, "record_id": i} for rank, i in enumerate(records, start=1)])
    console = Console(width=width, file=io.StringIO())
    console.print(scores_table(scores, scores, "calibrated"))
    lines = console.file.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    for i in records:
        (line,) = (line for line in lines if str(i) in line)
        assert "0.523" in line
        assert "thin_evidence" in line
    assert all(name in console.file.getvalue() for name in row["worst_variables"].split(";"))
    assert ("632" in console.file.getvalue()) == (width > 80)


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
    assert "1 record over 512 readings left out, as the paper does" in err
    assert written().attrs["model"] == "physionet2012-paper"
    assert (written()["status"] == "too_many").sum() == 1
    assert "too_many" not in out


def test_a_file_without_an_id_stands_in_the_table_too(done, ward, tmp_path):
    folder = write_folder(tmp_path / "odd", {"1.txt": CLEAN.format(id=1), "notes.txt": b"\xff\xfe\x00 not text"})
    out, _ = done("screen", folder, "--format", "table")
    assert "unreadable" in out
    assert "1 of 1 ranked record flagged, 1 not ranked" in out
    assert "NA" not in out


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
    (clean / "2.txt").write_text(CLEAN.format(id=2) + "10:00,pH,735\n")
    code, _, err = run("screen", clean, "--strict")
    assert (code, "1 repaired" in err) == (0, True)  # it is used
    (clean / "2.txt").write_bytes(b"\xff\xfe\x00 not text")
    assert run("screen", clean, "--strict")[0] == 3


def test_another_screening_leaves_no_file_of_the_one_before_and_says_what_it_takes_away(
    done, ward, tmp_path, monkeypatch
):
    monkeypatch.setattr("levyscreen.estimators.dropout.PASSES", 2)
    done("screen", ward, "--out", "out", "--queries", "--compare")
    assert {"queries.parquet", "comparison.csv"} <= {path.name for path in Path("out").iterdir()}
    _, err = done("screen", ward, "--out", "out")
    assert not {"queries.parquet", "comparison.csv"} & {path.name for path in Path("out").iterdir()}
    for name in ("queries.parquet", "comparison.csv"):
        assert f"note: out/{name} belonged to an earlier screening and was removed" in err
    assert "another cohort" not in err
    other = write_folder(tmp_path / "other", {"1.txt": CLEAN.format(id=1)})
    _, err = done("screen", other, "--out", "out")
    assert (
        "note: overwrites the results in out of another cohort, or of this one before it changed; --out FOLDER" in err
    )
    Path("out/scores.parquet").write_bytes(b"no longer a table")
    assert "another cohort" not in done("screen", other, "--out", "out")[1]


def test_a_screening_that_cannot_be_written_leaves_the_one_before_whole(done, run, ward, monkeypatch):
    done("screen", ward, "--out", "out", "--queries")
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    write = outputs.write_parquet

    def full(path, *rest):
        if path.name == "rejects.parquet":  # the second
            raise LevyscreenError("out/rejects.parquet could not be written: No space left on device")
        write(path, *rest)

    monkeypatch.setattr(outputs, "write_parquet", full)
    code, _, err = run("screen", ward, "--out", "out", "--seed", "1")
    assert (code, "No space left" in err) == (1, True)
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


def test_what_lies_there_of_another_screening_is_said(done, ward):
    done("screen", ward, "--out", "out")
    done("continuum", ward, "--out", "out", "--grid", "1", "--variables", "HR")
    done("report", "out")
    _, err = done("screen", ward, "--out", "out", "--seed", "1")
    assert "note: out/report.html is stale; re-run levyscreen report" in err
    assert "out/continuum is of another" not in err
    _, err = done("screen", ward, "--out", "out", "--protocol", "paper")
    said = "note: out/continuum is of another cohort or model; re-run levyscreen continuum"
    assert said in err
    done("screen", ward, "--out", "out")
    Path("out/continuum/part-00000.parquet").write_bytes(b"no Parquet")
    out, err = done("screen", ward, "--out", "out")
    assert (said in err, len(frame_of(out))) == (True, 27)


def test_queries_of_a_cohort_without_a_record_to_rank_are_an_empty_table(done, tmp_path):
    done("screen", write_folder(tmp_path / "bare", {"1.txt": HEAD + "00:00,RecordID,1\n"}), "--queries")
    assert len(written("queries.parquet", "bare")) == 0
    assert pq.read_schema("levyscreen-out/bare/queries.parquet").names == schema.QUERIES.names


def test_a_protocol_that_is_not_the_models_own_is_refused(run, ward):
    for command in ("screen", "continuum"):
        code, out, err = run(command, ward, "--protocol", "paper", "--model", "physionet2012")
        assert (code, out) == (2, "")
        assert "physionet2012 was trained by the protocol 'ours': leave --protocol out, or --model" in err


@pytest.mark.parametrize("command", [["screen"], ["continuum", "--grid", "1", "--variables", "HR"]], ids=" ".join)
def test_of_a_model_and_another_protocol_the_typed_one_counts(done, ward, monkeypatch, command):
    name, *rest = command
    file = {"screen": "scores.parquet", "continuum": "continuum"}[name]
    monkeypatch.setenv(f"LEVYSCREEN_{name.upper()}_MODEL", "physionet2012")
    done(name, ward, *rest, "--protocol", "paper")
    assert written(file).attrs["model"] == "physionet2012-paper"
    monkeypatch.delenv(f"LEVYSCREEN_{name.upper()}_MODEL")
    monkeypatch.setenv(f"LEVYSCREEN_{name.upper()}_PROTOCOL", "paper")
    done(name, ward, *rest, "--model", "physionet2012")
    assert written(file).attrs["model"] == "physionet2012"


@pytest.mark.parametrize("signal", ["disagreement", "deviation"])
def test_a_table_says_standard_deviations_of_what_is_in_them_alone(done, ward, signal):
    caption = " ".join(done("screen", ward, "--signal", signal, "--format", "table")[0].split())
    assert ("uncertainty, width and mae in standard deviations" in caption) == (signal == "deviation")
    assert "width and mae in standard deviations of the variable" in caption


def test_a_closed_standard_stream_takes_nothing_and_gives_nothing(ward, tmp_path):
    """In a process of its own, as a cron job's has it."""
    code = "from levyscreen.cli.entry import main; main()"
    command = f"{sys.executable} -c '{code}' screen {ward} --format csv"
    whole = subprocess.run(["sh", "-c", f"{command} 2>&- <&-"], stdout=subprocess.PIPE, cwd=tmp_path, check=True)
    assert whole.stdout.decode().splitlines()[0] == ",".join(schema.SCORES.names)
    assert len(whole.stdout.splitlines()) == 28
    quiet = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, cwd=tmp_path, check=True)
    assert b"bug" not in quiet.stderr
    assert b"written to" in quiet.stderr


def test_a_current_folder_that_cannot_be_written_to_stops_no_screening(done, ward, tmp_path):
    Path("levyscreen-out").write_text("a file in the way")
    out, err = done("screen", ward, "--out", tmp_path / "elsewhere")
    assert len(out.splitlines()) == 28
    assert "name cohort and folder to continuum and report" in err
    done("report", tmp_path / "elsewhere")


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_a_cohort_that_set_the_scales_is_said_to_be_one(done, ward):
    done("calibrate", "physionet2012", ward, "--out", "own")
    _, err = done("screen", ward, "--model", "own")
    assert "note: own was calibrated on records of this cohort: errors, ranking and intervals are better here" in err
