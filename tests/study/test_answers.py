"""The scores of answers: calibrated scales, the empirical law, the sparsification curve."""

from dataclasses import replace

import numpy as np
import pytest

from levyscreen.calibrate import ause
from levyscreen.study.answers import Answered, scores, sparsification


def made_up(n=4000, seed=0, scale=1.0):
    """Errors drawn with a known deviation."""
    rng = np.random.default_rng(seed)
    variable, deviation = rng.integers(0, 4, n), rng.gamma(2.0, 0.2, n) + 0.05
    truth = rng.standard_normal(n)
    error = deviation * rng.standard_normal(n)
    return Answered(0.0, np.sort(rng.integers(0, 50, n)), variable, truth, truth + error, scale * deviation)


def scored(validation, test, names="abcd", in_units=True, **others):
    """With each record a patient of its own."""
    return scores(validation, validation.record, test, list(names), in_units, **others)


def test_a_calibrated_scale_undoes_the_unit_and_covers_as_it_says():
    found = scored(made_up(seed=1, scale=7.0), made_up(seed=2, scale=7.0))
    assert found["affine"]["a"] == pytest.approx(1 / 7, rel=0.1)
    for kind in ("coverage", "conformal_coverage"):
        assert found["global"][kind]["0.9"] == pytest.approx(0.9, abs=0.02)
    assert found["global"]["crps"] < found["crps_raw"]


def test_targets_of_one_patient_show_nothing_of_a_signal():
    validation, test = made_up(seed=1), made_up(seed=2)
    assert scores(validation, np.zeros_like(validation.record), test, list("abcd"), True)["affine"]["a"] == 0
    assert scored(validation, test)["affine"]["a"] > 0


def skewed(seed, n=20_000):
    """Two variables of heavy and of skewed errors, as wide as the signal says."""
    rng = np.random.default_rng(seed)
    a = made_up(n, seed)
    variable = rng.integers(0, 2, n)
    shape = np.where(variable == 0, rng.standard_t(2.5, n), rng.exponential(1, n) - 1)
    return replace(a, variable=variable, prediction=a.truth - a.uncertainty * shape)


def test_the_empirical_law_scores_and_covers_better_where_residuals_are_not_normal():
    found = scored(skewed(1), skewed(2), "ab")
    for by in ("global", "by_variable"):
        empirical = found[by]["empirical"]
        assert empirical["crps"] < found[by]["crps"] - 0.002
        assert empirical["coverage"] == pytest.approx({"0.8": 0.8, "0.9": 0.9, "0.95": 0.95}, abs=0.01)
        assert empirical["tails"] == pytest.approx({"low": 0.025, "high": 0.025}, abs=0.005)
    assert found["by_variable"]["empirical"]["crps"] < found["global"]["empirical"]["crps"]


def test_the_empirical_law_of_normal_residuals_scores_as_the_gaussian():
    found = scored(made_up(seed=1, n=20_000), made_up(seed=2, n=20_000))
    for by in ("global", "by_variable"):
        assert found[by]["empirical"]["crps"] == pytest.approx(found[by]["crps"], rel=0.002)
        assert found[by]["empirical"]["width"]["0.9"] == pytest.approx(found[by]["width"]["0.9"], rel=0.03)


def test_signals_below_zero_are_shifted_and_rank_as_before():
    validation, test = made_up(seed=1), made_up(seed=2)
    lower = [replace(a, uncertainty=a.uncertainty - 3) for a in (validation, test)]
    moved, found = scored(*lower, in_units=False), scored(validation, test, in_units=False)
    assert moved["ause"] == pytest.approx(found["ause"])
    assert moved["global"]["crps"] == pytest.approx(found["global"]["crps"], rel=0.01)
    assert found["crps_raw"] is None


def test_the_uncalibrated_score_has_the_noise_that_every_query_has_besides():
    validation, test = made_up(seed=1), made_up(seed=2)
    noisy = replace(test, uncertainty=np.hypot(test.uncertainty, 0.3))
    found, plain = scored(validation, test, noise=0.3), scored(validation, test)
    assert found["crps_raw"] == pytest.approx(scored(validation, noisy)["crps_raw"])
    assert found["crps_raw"] > plain["crps_raw"] + 0.001
    assert (found["ause"], found["by_variable"]) == (plain["ause"], plain["by_variable"])


def test_the_sparsification_curve_has_the_area_that_ause_measures():
    a = made_up()
    area = np.mean(sparsification(a.uncertainty, a.error)) - np.mean(sparsification(a.error, a.error))
    assert area == pytest.approx(ause(a.uncertainty, a.error), abs=0.01)
    assert sparsification(a.error, a.error)[0] == 1
