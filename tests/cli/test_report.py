"""`levyscreen report`."""

from pathlib import Path

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
