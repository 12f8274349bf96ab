"""`levyscreen continuum`, `plot`, `validate` and `cache`."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from levyscreen.store import shipped_folder
from tests.cli.outputs import CLEAN, written
from tests.records.record_files import write_folder


def test_continuum_alone_takes_the_cohort_and_the_protocol_last_screened_here(done, ward):
    done("screen", ward, "--protocol", "paper")
    out, err = done("continuum", "--grid", "2", "--variables", "HR,MAP")
    assert out == ""
    assert f"the cohort last screened from this folder: {ward}, by model physionet2012-paper" in err
    assert sorted(line for line in err.splitlines() if "not in it" in line) == [
        "note: 1 record not in it: with fewer than 20 readings",
        "note: 1 record not in it: with more than 512 readings, the most for the protocol",
        "note: 1 record not in it: without a reading that the model knows",
    ]
    frame = written("continuum")
    assert len(frame) == 24 * 2 * 2
    assert frame["variable"].unique().tolist() == ["HR", "MAP"]
    timing = json.loads(Path("levyscreen-out/ward/continuum-timing.json").read_text())
    assert timing["queries"] == 96
    part = Path("levyscreen-out/ward/continuum/part-00000.parquet")
    assert pd.read_parquet(part).attrs["model"] == "physionet2012-paper"
    done("continuum", "--grid", "1", "--variables", "HR", "--protocol", "ours")
    assert pd.read_parquet(part).attrs["model"] == "physionet2012"


def test_continuum_alone_takes_the_model_last_screened_with_also_where_its_protocol_is_named(done, ward):
    own = Path(shutil.copytree(shipped_folder() / "physionet2012", "own"))
    done("screen", ward, "--model", own)
    _, err = done("continuum", "--grid", "1", "--variables", "HR", "--protocol", "ours")
    assert f"{ward}, by model own\n" in err
    assert pd.read_parquet("levyscreen-out/ward/continuum/part-00000.parquet").attrs["model"] == "own"
    done("screen", ward, "--protocol", "paper")
    done("continuum", "--grid", "1", "--variables", "HR", "--model", own)  # and not the protocol that was for another
    assert pd.read_parquet("levyscreen-out/ward/continuum/part-00000.parquet").attrs["model"] == "own"


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
def test_continuum_says_so_where_its_intervals_do_not_see_that_evidence_is_missing(done, ward, monkeypatch):
    """As of a model that was calibrated before intervals of a timeline were of sigma_hat."""
    monkeypatch.setattr("levyscreen.judging.COMPANION", "disagreement")
    done("calibrate", "physionet2012", ward, "--out", "former", "--signal", "deviation")
    asked = "continuum", ward, "--grid", "1", "--variables", "HR", "--model", "former"
    assert "intervals rest on the disagreement, which does not respond to missing evidence" in done(*asked)[1]
    assert "does not see" not in done(*asked, "--deviation")[1]
    assert "does not see" not in done(*asked[:-1], "physionet2012")[1]


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


def test_a_picture_in_no_known_form_is_refused_at_once(run, ward):
    code, _, err = run("plot", "1", "--cohort", ward, "-o", "x.foo")
    assert code == 2
    assert "x.foo must end in one of .png, .svg, .pdf, .jpg" in err


def test_an_empty_list_of_variables_is_wrong_usage(run, ward):
    code, _, err = run("continuum", ward, "--variables", ",")
    assert code == 2
    assert "no variable is named: leave --variables out" in err
