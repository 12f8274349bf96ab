"""Groups are counted as they are, with Wilson's interval, and outcomes are read from the two forms there are."""

import pandas as pd
import pytest

from levyscreen.errors import UsageError
from levyscreen.report.who import Outcomes, groups, read_outcomes
from tests.learn.tiny import cohort_of

PHYSIONET = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n1,2,3,4,5,1\n2,2,3,4,5,0\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "outcomes.csv"


def scored(flags):
    ids = range(1, len(flags) + 1)
    frame = {"record_id": ids, "flagged": flags, "mae": [0.1 * i for i in ids]}
    return pd.DataFrame(frame).astype({"record_id": "Int64"})


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (PHYSIONET, "In-hospital death", {1: "yes", 2: "no"}),
        ("record_id,outcome\n7,1\n8,\n", "outcome", {7: "yes", 8: "unknown"}),
        ("\ufeffrecord_id,died_by_day_30\n7,0\n", "died by day 30", {7: "no"}),
        ("ward,record_id,outcome\nA,7,1\n", "outcome", {7: "yes"}),
    ],
)
def test_outcomes_are_read(path, text, name, expected):
    path.write_text(text, encoding="utf-8")
    assert read_outcomes(path) == Outcomes(name, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,outcome\n1,1\n", "needs one column RecordID or record_id and one column In-hospital_death or outcome"),
        ("record_id,a,b\n1,1,0\n", "it has record_id, 2 columns of names that are not shown"),
        ("", "it has none"),
        ("142832,1\n142833,0\n", "it has 2 columns of names that are not shown, for they may be data"),
        ("record_id,outcome\n" + 19 * "1" + ",1\n", "line 2: column record_id holds no record id"),
        ("record_id,outcome\n1,1\nx17,1\n", "line 3: column record_id holds no record id"),
        ("record_id,outcome\n1,1\n17,dead\n", "line 3: column outcome holds neither 0 nor 1 nor nothing"),
        ("record_id,x17\n1,1\n17,dead\n", "line 3: column of outcomes holds neither 0 nor 1 nor nothing"),
        ("record_id,outcome\n1,1\n1,0\n", "line 3: this record id stood on an earlier line: keep one of them"),
    ],
)
def test_outcomes_that_cannot_be_told_are_refused_by_their_line_and_without_a_value(path, text, message):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as raised:
        read_outcomes(path)
    assert "x17" not in str(raised.value)
    assert "dead" not in str(raised.value)


def test_a_file_that_is_no_text_is_refused(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read as CSV text"):
        read_outcomes(path)


def test_shares_have_wilsons_interval_and_errors_are_of_both_kinds():
    cohort = cohort_of([[(0.0, 0, 80.0)]] * 4)
    found = groups(scored([True, False, False, False]), cohort.records, Outcomes("died", {1: "yes", 2: "yes"}))
    everyone, died, unknown = found
    assert (everyone["n"], everyone["flagged"], everyone["share"]) == (4, 1, 0.25)
    assert (everyone["low"], everyone["high"]) == pytest.approx((0.0456, 0.6994), abs=1e-4)  # Wilson (1927), by hand
    assert everyone["error_flagged"] == pytest.approx(0.1)
    assert everyone["error_others"] == pytest.approx(0.3)
    assert (died["by"], died["group"], died["n"], died["share"]) == ("outcome: died", "yes", 2, 0.5)
    assert (unknown["group"], unknown["n"], unknown["error_flagged"]) == ("unknown", 2, None)


def test_what_is_known_of_no_patient_makes_no_group():
    cohort = cohort_of([[(0.0, 0, 80.0)]] * 2)
    assert [row["by"] for row in groups(scored([True, False]), cohort.records, None)] == ["all"]


def test_outcomes_of_another_cohort_are_refused():
    cohort = cohort_of([[(0.0, 0, 80.0)]] * 2)
    with pytest.raises(UsageError, match="the outcomes are of no record that was scored here"):
        groups(scored([True, False]), cohort.records, Outcomes("died", {99: "yes"}))
