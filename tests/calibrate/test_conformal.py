"""The conformal quantiles against golden values, the guarantee itself, and the crepes package."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levyscreen.calibrate import conformal_quantile
from levyscreen.calibrate.conformal import conformal_rank, least_targets, quantiles, quantiles_by_variable

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "scores.npz")
SCORES = np.abs(GOLDEN["target"] - GOLDEN["mean"]) / GOLDEN["scale"]


def test_the_quantiles_reach_the_golden_values():
    np.testing.assert_allclose(quantiles(SCORES, 1 - GOLDEN["alpha"]), GOLDEN["conformal_quantile"], rtol=1e-12)


def test_eight_scores_bound_the_interval_at_80_but_not_at_90_percent():
    assert conformal_quantile(SCORES[:8], 0.8) == pytest.approx(float(GOLDEN["conformal_first8_alpha_0p2"]), rel=1e-12)
    assert conformal_quantile(SCORES[:8], 0.9) == GOLDEN["conformal_first8_alpha_0p1"] == math.inf


@given(st.integers(0, 5_000), st.integers(1, 999))
def test_the_rank_is_exact_at_every_thousandth(n, thousandths):
    assert conformal_rank(n, thousandths / 1000) == -(-(n + 1) * thousandths // 1000)
    assert conformal_rank(n, 1 - (1000 - thousandths) / 1000) == conformal_rank(n, thousandths / 1000)


@pytest.mark.parametrize(("level", "least"), [(0.8, 4), (0.9, 9), (0.95, 19), (0.5, 1)])
def test_the_fewest_scores_that_bound_an_interval(level, least):
    assert least_targets(level) == least
    assert conformal_quantile(np.arange(float(least)), level) == least - 1
    assert conformal_quantile(np.arange(float(least - 1)), level) == math.inf


def test_a_variable_has_its_own_quantile_and_an_unseen_one_is_unbounded():
    scores, variable = np.append(np.arange(1.0, 20.0), np.arange(10.0, 190.0, 10.0)), np.repeat([0, 2], [19, 18])
    found = quantiles_by_variable(scores, variable, 3, (0.9, 0.95))
    np.testing.assert_array_equal(found, [[18.0, np.inf, 180.0], [19.0, np.inf, np.inf]])


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [19, 60])
def test_exchangeable_targets_are_covered_at_the_nominal_level(n, level):
    # Coverage of one fit is Beta(rank, n + 1 - rank); over 4,000 fits its mean is within 4 standard errors of the
    # exact rank / (n + 1). Errors are Cauchy: no shape is assumed.
    rng = np.random.default_rng(13)
    draws = np.abs(rng.standard_cauchy((4_000, n + 1)))
    covered = np.mean([draw[-1] <= conformal_quantile(draw[:-1], level) for draw in draws])
    exact = conformal_rank(n, level) / (n + 1)
    assert exact >= level - 1e-12
    assert covered == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4_000))


def test_crepes_gives_the_same_intervals_where_its_rank_is_right():
    crepes = pytest.importorskip("crepes", reason="crepes imports scikit-learn, which it does not require")
    rng = np.random.default_rng(14)
    variable = rng.integers(0, 5, 600)
    sigma, residual = rng.uniform(0.5, 2, 600), rng.standard_t(3, 600)
    counts = np.bincount(variable)
    fitted = crepes.ConformalRegressor().fit(residual, sigmas=sigma, bins=variable)
    for level in (0.8, 0.9, 0.95):
        theirs = fitted.predict_int(np.zeros(5), sigmas=np.ones(5), bins=np.arange(5), confidence=level)[:, 1]
        ours = quantiles_by_variable(np.abs(residual) / sigma, variable, 5, [level])[0]
        whole = np.isclose((counts + 1) * level, np.round((counts + 1) * level))
        assert not whole.all()
        np.testing.assert_allclose(ours[~whole], theirs[~whole], rtol=1e-12)
        assert (ours[whole] <= theirs[whole]).all()
