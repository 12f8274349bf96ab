"""What a record is flagged for: thin evidence, conflict, or both, and about which variables."""

import numpy as np
import torch

from levyscreen.operator import phi
from levyscreen.questions import Answers
from levyscreen.reasons import Explainer
from tests.screen.conftest import by_record


def answers_of(record, variable, evidence, deviation):
    """Answers by hand; what Explainer does not read is 0."""
    record, variable = np.asarray(record), np.asarray(variable)
    zero = np.zeros(len(record), dtype=np.float32)
    evidence, deviation = np.asarray(evidence, dtype=np.float32), np.asarray(deviation, dtype=np.float32)
    return Answers(record, zero, variable, zero, zero, evidence, zero, zero, deviation)


def factors(evidence, conflict):
    """A record's deviation from its two factors, as thm:variance has it."""
    return float(phi(torch.tensor(float(evidence)))) ** 0.5 * conflict


def reasons_of(records):
    """Reasons, all flagged, from (evidence, conflict) of each record's single query."""
    rows = np.arange(len(records))
    explainer = Explainer(len(records), ("HR", "pH"))
    deviation = [factors(*record) for record in records]
    explainer.add(
        slice(0, len(records)), answers_of(rows, rows * 0, [e for e, _ in records], deviation), np.array(deviation)
    )
    return explainer.explain(rows, np.ones(len(records), dtype=bool))[0].tolist()


def test_reasons_name_the_factor_that_exceeds_the_median_record():
    usual = [(100.0, 1.0)] * 3
    assert reasons_of([*usual, (100.0, 4.0), (5.0, 1.0), (5.0, 4.0)])[3:] == ["conflict", "thin_evidence", "both"]


def test_a_factor_with_less_than_a_third_of_the_excess_is_not_named():
    # phi is 1 / Lambda far out: a hundredth of the evidence is ten times the thinness, ln 10 of excess.
    usual = [(1e6, 1.0)] * 3
    third = 10**0.5  # half of ln 10, a third of both together
    assert reasons_of([*usual, (1e4, 0.95 * third)])[3] == "thin_evidence"
    assert reasons_of([*usual, (1e4, 1.05 * third)])[3] == "both"


def test_where_neither_factor_exceeds_the_median_none_is_named():
    usual = [(100.0, 1.0)] * 3
    assert reasons_of([*usual, (110.0, 0.2)]) == [None] * 4
    assert reasons_of([(110.0, 0.2)]) == [None]


def test_only_flagged_records_have_a_reason_and_only_scored_ones_worst_variables():
    explainer = Explainer(3, ("HR", "pH"))
    explainer.add(slice(0, 3), answers_of([0, 1], [0, 1], [10, 20], [0.5, 0.1]), np.array([0.5, 0.1]))
    reasons, worst = explainer.explain(np.array([0, 1]), np.array([True, False, False]))
    assert [reason is None for reason in reasons] == [False, True, True]
    assert worst[2] is None


def test_the_worst_variables_are_those_with_most_doubt_above_what_is_usual_for_them():
    names = ("HR", "Temp", "pH", "MAP", "WBC")
    # By variable the usual doubt is the mean over the cohort: HR 1, Temp 0.2, pH 2, MAP 1, WBC 1.
    doubt = {0: [1.5, 0.3, 5.0, 1.2, 1.0], 1: [0.5, 0.1, 0.5, 0.8, 1.0], 2: [1.0, 0.2, 0.5, 1.0, 1.0]}
    explainer = Explainer(3, names)
    for record, values in doubt.items():
        explainer.add(slice(0, 3), answers_of([record] * 5, range(5), [10.0] * 5, values), np.array(values))
    worst = explainer.explain(np.arange(3), np.zeros(3, dtype=bool))[1]
    assert worst.tolist() == ["pH;HR;MAP", "", ""]


def test_a_variable_asked_twice_as_often_weighs_twice():
    explainer = Explainer(2, ("HR", "pH"))
    explainer.add(
        slice(0, 2),
        answers_of([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1], [9.0] * 6, [1.0] * 6),
        np.array([2, 2, 2.5, 1, 1, 1.0]),
    )
    assert explainer.explain(np.arange(2), np.zeros(2, dtype=bool))[1][0] == "HR;pH"  # 2 x 0.5 against 0.75


def test_reasons_of_the_sample_are_those_of_a_loop_over_its_queries(screening, scored):
    queries = screening.queries
    thin = 0.5 * np.log(phi(torch.tensor(queries["evidence"].to_numpy(np.float64))).numpy())
    by_thin = by_record(thin, queries)[scored["record_id"]].to_numpy()
    both = by_record(np.log(queries["deviation"].to_numpy(np.float64)), queries)[scored["record_id"]].to_numpy()
    by_conflict = both - by_thin
    for at in np.flatnonzero(scored["flagged"]):
        thin_excess, conflict_excess = by_thin[at] - np.median(by_thin), by_conflict[at] - np.median(by_conflict)
        total = max(thin_excess, 0) + max(conflict_excess, 0)
        named = [n for n, x in (("conflict", conflict_excess), ("thin_evidence", thin_excess)) if x > total / 3]
        assert scored["reason"].iloc[at] == (named[0] if len(named) == 1 else "both")
