"""The sample, screened by the shipped model."""

import pandas as pd
import pytest

from levyscreen.screen import screen


@pytest.fixture(scope="package")
def screening(sample, shipped):
    return screen(sample, shipped, with_queries=True)


@pytest.fixture(scope="package")
def scores(screening):
    return screening.scores


@pytest.fixture(scope="package")
def scored(scores):
    return scores[scores["status"] == "scored"]


def by_record(values, queries):
    return pd.Series(values).groupby(queries["record_id"].to_numpy()).mean()
