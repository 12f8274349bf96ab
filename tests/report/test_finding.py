"""The line that ends a screening, on errors of which each figure can be had by hand."""

import pandas as pd
import pytest

from levyscreen.report.finding import Finding
from levyscreen.screen import Screening


def screening(coverage=0.9034, flag=0.1, errors=(0.8, 0.4, 0.2, 0.2)):
    rows = [("scored", 4.0 - rank, error, rank == 0) for rank, error in enumerate(errors)]
    scores = pd.DataFrame(
        [*rows, ("too_few", float("nan"), float("nan"), False)], columns=["status", "uncertainty", "mae", "flagged"]
    )
    return Screening(scores, None, "calibrated", {"flag": flag}, {}, coverage)


def test_the_finding_compares_the_flagged_records_with_all_of_those_that_are_scored():
    assert str(Finding.of(screening())) == (
        "Top decile (1 record): mean error 0.80, all records 0.40 (+100 %). Ranking: Spearman 0.95. "
        "90 % intervals cover 90.3 % of the held-out readings."
    )


def test_a_model_without_intervals_says_nothing_of_coverage_and_another_share_is_named():
    assert str(Finding.of(screening(coverage=None, flag=0.05))) == (
        "Top 5 % (1 record): mean error 0.80, all records 0.40 (+100 %). Ranking: Spearman 0.95."
    )


@pytest.mark.parametrize("errors", [(), (0.1, 0.2)])
def test_too_few_scored_records_give_no_finding(errors):
    assert Finding.of(screening(errors=errors)) is None
