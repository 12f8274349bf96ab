"""The line that says that a model fails on a cohort: on screenings whose errors are made to agree with it, or not."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from levyscreen.report.failing import Failing
from levyscreen.schema import RECORDS
from levyscreen.screen import Screening


def screening(error=1.0, coverage=0.9, rank=1.0, records=200, signal="calibrated", seed=0):
    """Expected errors of 0.5 to 0.7, and errors of them times `error`; the order is turned about where rank is -1."""
    draws = np.random.default_rng(seed)
    claimed = np.linspace(0.5, 0.7, records)
    met = (claimed if rank > 0 else draws.permutation(claimed)) * error + draws.normal(0, 0.02, records)
    scores = pd.DataFrame(
        {
            "record_id": np.arange(records),
            "status": "scored",
            "uncertainty": claimed,
            "mae": met,
            "n_hidden": 50,
            "coverage": coverage + np.where(np.arange(records) % 2, 0.02, -0.02),
            "flagged": False,
        }
    )
    return Screening(scores, None, signal, {"flag": 0.1}, {}, coverage)


def whose(subjects):
    """schema.RECORDS of records of these subjects."""
    table = pa.table({f.name: pa.array([None] * len(subjects), f.type) for f in RECORDS}, schema=RECORDS)
    for name, values in (("record_id", range(len(subjects))), ("subject_id", subjects)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(list(values), pa.int64()))
    return table


@pytest.mark.parametrize("seed", range(5))
def test_of_a_model_that_is_as_good_as_it_claims_nothing_is_said(seed):
    fails = Failing.of(screening(seed=seed))
    assert (fails.reasons, fails.line("m")) == ((), "")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"error": 3}, "mean error 1.80, where it claims 0.60"),
        ({"error": 0.5}, "mean error 0.30, where it claims 0.60"),
        ({"coverage": 0.6}, "90% intervals cover 60.0%"),
        ({"coverage": 0.97}, "90% intervals cover 97.0%"),
        ({"rank": -1}, "its ranking is no better than chance (Spearman "),
    ],
)
def test_each_way_to_fail_is_said_alone(made, said):
    (reason,) = Failing.of(screening(**made)).reasons
    assert reason.startswith(said)


def test_the_line_says_all_of_it_and_what_to_do():
    line = Failing.of(screening(error=3, coverage=0.5, rank=-1)).line("physionet2012")
    assert line.startswith("warning: the model fails on this cohort: mean error 1.80, where it claims 0.60; 90 % inter")
    assert "no better than chance" in line
    assert line.endswith("before use: levyscreen calibrate physionet2012 COHORT --out FOLDER")


def test_another_signal_claims_no_error():
    assert Failing.of(screening(error=3, signal="deviation")).reasons == ()


@pytest.mark.parametrize(("records", "made"), [(9, {"error": 3}), (49, {"rank": -1, "seed": 1})])
def test_too_few_patients_say_nothing(records, made):
    assert Failing.of(screening(records=records, **made)).reasons == ()


def test_records_of_the_same_patients_are_no_further_evidence():
    few = whose([i % 9 for i in range(200)])
    assert Failing.of(screening(error=3, coverage=0.5, rank=-1), few).reasons == ()
    many = whose([i // 2 for i in range(200)])
    assert len(Failing.of(screening(error=3, coverage=0.5, rank=-1), many).reasons) == 3


def test_what_one_patient_alone_does_is_chance():
    made = screening(records=40)
    made.scores.loc[0, "mae"] = 40.0  # a mean error of 1.6, and of all others that which is claimed
    assert Failing.of(made).reasons == ()


def test_a_record_without_an_interval_counts_for_none():
    made = screening()
    made.scores.loc[:99, "coverage"] = np.nan
    assert Failing.of(made).reasons == ()
    made.scores["coverage"] = np.nan
    assert Failing.of(made).reasons == ()


def test_a_ranking_of_nothing_is_no_better_than_chance():
    made = screening()
    made.scores["uncertainty"] = 0.6
    assert Failing.of(made).reasons == ("its ranking is no better than chance (Spearman 0.00)",)
