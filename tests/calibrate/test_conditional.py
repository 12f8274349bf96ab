"""Intervals and expected errors that hold at every scale, of a signal that no affine scale could follow."""

import json

import numpy as np
import pytest

from levyscreen.calibrate import Calibration, fit_calibration

NAMES = ("HR", "MAP", "pH")
BY_VARIABLE = np.array([0.5, 1.0, 2.0])


def targets(n, seed):
    """Errors whose spread grows with the square root of the signal, heavier in the tails where it is large."""
    rng = np.random.default_rng(seed)
    signal, variable = rng.lognormal(0, 1, n), rng.integers(0, 3, n)
    noise = np.where(signal > 2, rng.standard_t(3, n), rng.standard_normal(n))
    mean = rng.normal(size=n)
    return signal, mean, mean + BY_VARIABLE[variable] * np.sqrt(signal) * noise, variable, np.arange(n)


@pytest.fixture(scope="module")
def fitted():
    signal, mean, target, variable, patient = targets(60_000, 0)
    return fit_calibration(signal, "deviation", mean, target, variable, NAMES, patient=patient)


@pytest.fixture(scope="module")
def others():
    signal, mean, target, variable, _ = targets(60_000, 1)
    return signal, np.abs(target - mean), variable


def deciles(values):
    return np.array_split(np.argsort(values, kind="stable"), 10)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_intervals_cover_at_every_decile_of_the_scale_and_of_every_variable(fitted, others, level):
    signal, error, variable = others
    scale = fitted.scale(signal, variable)
    inside = error <= fitted.half_width(scale, variable, level)
    assert all(abs(inside[rows].mean() - level) < 0.02 for rows in deciles(scale))
    assert all(abs(inside[variable == v].mean() - level) < 0.01 for v in range(3))


def test_without_the_factors_by_scale_they_would_not(fitted, others):
    signal, error, variable = others
    scale = fitted.scale(signal, variable)
    ratio = error / scale
    inside = ratio <= np.array([np.quantile(ratio[variable == v], 0.9) for v in range(3)])[variable]
    assert max(abs(inside[rows].mean() - 0.9) for rows in deciles(scale)) > 0.03


def test_the_expected_error_is_the_mean_error_at_every_decile_and_of_every_variable(fitted, others):
    signal, error, variable = others
    expected = fitted.expected_error(fitted.scale(signal, variable), variable)
    assert all(abs(error[rows].mean() / expected[rows].mean() - 1) < 0.08 for rows in deciles(expected))
    assert all(abs(error[variable == v].mean() / expected[variable == v].mean() - 1) < 0.03 for v in range(3))


def test_between_knots_factors_are_interpolated_and_beyond_them_held(fitted):
    by_scale = fitted.by_scale
    ends = np.exp(by_scale.knots[[0, -1]])
    np.testing.assert_allclose(by_scale.error_factor(ends * [1e-6, 1e6]), by_scale.error[[0, -1]])
    middle = np.exp((by_scale.knots[3] + by_scale.knots[4]) / 2)
    assert float(by_scale.error_factor(np.array(middle))) == pytest.approx((by_scale.error[3] + by_scale.error[4]) / 2)
    assert float(by_scale.interval_factor(np.array(middle), 1)) == pytest.approx(by_scale.interval[1, 3:5].mean())


def test_it_comes_back_from_json_and_an_older_calibration_expects_its_scale(fitted, others):
    signal, _, variable = others
    data = json.loads(json.dumps(fitted.to_json()))
    back, scale = Calibration.from_json(data), fitted.scale(signal, variable)
    np.testing.assert_array_equal(back.expected_error(scale, variable), fitted.expected_error(scale, variable))
    np.testing.assert_array_equal(back.half_width(scale, variable, 0.9), fitted.half_width(scale, variable, 0.9))
    del data["by_scale"]
    np.testing.assert_array_equal(Calibration.from_json(data).expected_error(scale, variable), scale)
