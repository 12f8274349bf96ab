"""`levyscreen report`."""

import os
import shutil
from itertools import count
from pathlib import Path

import pytest

from tests.cli.outputs import written_to


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
    assert done("report", "elsewhere", "-o", "-", "--patients", "0")[0].startswith("<!DOCTYPE html>")
    assert not Path("-").exists()


def test_a_report_of_nothing_says_what_to_type(run, tmp_path):
    code, out, err = run("report")
    assert (code, out) == (2, "")
    assert "type levyscreen report OUT, or screen one first" in err
    code, _, err = run("report", tmp_path)
    assert code == 2
    assert "screening.json is missing: name a folder that levyscreen screen wrote" in err


@pytest.fixture
def once(done, ward):
    """A screening with queries, in `out`."""
    done("screen", ward, "--queries", "--out", "out")
    return Path("out")


def killed_after(renames, monkeypatch, run, ward):
    """A second screening into `out`, killed after so many of its files are in place; whether it was."""
    rename, seen = os.replace, count()

    def dies(source, target):
        if Path(target).parent.name == "out" and next(seen) == renames:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        return run("screen", ward, "--seed", "1", "--out", "out")[0] == 130


def test_files_of_two_screenings_are_refused_by_name_wherever_the_second_was_killed(once, run, ward, monkeypatch):
    shutil.copytree(once, "first")
    refused = []
    for renames in count():
        shutil.rmtree(once)
        shutil.copytree("first", once)
        if not killed_after(renames, monkeypatch, run, ward):
            break
        codes = [run(*words)[0] for words in (("report",), ("continuum", "--grid", "1", "--variables", "HR"))]
        code, _, err = run("report", "out", "--patients", "0")
        assert codes == [code, code]
        if renames:
            assert "is damaged, or of another screening than screening.json" in err
        refused.append(code)
    assert refused == [0, *[2] * (len(refused) - 1)]
    assert len(refused) == 4  # scores, rejects and timing, and the note; queries.parquet is taken away before it
    assert run("report", "out", "--patients", "0")[0] == 0


@pytest.mark.parametrize("share", [False, True])
def test_what_holds_patients_values_is_for_its_owner_alone_unless_shared(done, ward, share, monkeypatch, tmp_path):
    monkeypatch.setattr("levyscreen.estimators.dropout.PASSES", 2)
    (few := tmp_path / "few").mkdir()
    for path in sorted(ward.iterdir())[:6]:
        shutil.copy(path, few)
    words, before = (["--share"] if share else []), os.umask(0o022)
    try:
        done("screen", few, "--queries", "--compare", "--out", "new/out", "-o", "table.csv", *words)
        done("continuum", "--grid", "1", "--variables", "HR", "--out", "new/out", *words)
        done("report", "new/out", "--patients", "0", *words)
        record = written_to("new/out").query("status == 'scored'")["record_id"].iloc[0]
        done("plot", record, "-o", "plots/a.png", *words)
        done("validate", few, "--write", "kept", *words)
    finally:
        os.umask(before)
    paths = [
        Path("table.csv"),
        *(p for top in ("new", "plots", "kept", "levyscreen-out") for p in Path(top).rglob("*")),
    ]
    modes = {str(p): p.stat().st_mode & 0o777 for p in [*paths, Path("new"), Path("kept")]}
    expected = (0o755, 0o644) if share else (0o700, 0o600)
    assert modes == {p: expected[Path(p).is_file()] for p in modes}
    assert {"new/out/continuum/part-00000.parquet", "new/out/queries.parquet", "plots/a.png"} <= modes.keys()
