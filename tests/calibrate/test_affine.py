"""The grid search against known truths, a dense brute force and scipy's minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from levyscreen.calibrate import Affine, crps_gaussian, fit_by_variable, fit_global
from levyscreen.calibrate import affine as module
from levyscreen.calibrate.affine import LEAST_SCALE
from levyscreen.errors import CalibrationError


def crps_at(signal, error, a, b):
    return float(crps_gaussian(0, a * signal + b, error).mean())


def heteroscedastic(rng, n, a, b, tails=None):
    """Signals (n,), and errors whose scale is a s + b; Student's t with `tails` degrees of freedom, else Gaussian."""
    signal = rng.gamma(2.0, 1.0, n)
    return signal, (a * signal + b) * (rng.standard_normal(n) if tails is None else rng.standard_t(tails, n))


@pytest.mark.parametrize(("a", "b"), [(0.4, 0.2), (0.05, 0.5), (3.0, 0.1), (40.0, 2.0), (0.001, 0.0002)])
def test_a_known_scale_is_recovered(a, b):
    fitted = fit_global(*heteroscedastic(np.random.default_rng(0), 60_000, a, b))
    assert (fitted.a, fitted.b) == pytest.approx((a, b), rel=0.05, abs=0.03 * a)


@pytest.mark.parametrize("tails", [None, 2, 1.5])
def test_the_search_ends_where_scipys_minimiser_does(tails):
    signal, error = heteroscedastic(np.random.default_rng(1), 4_000, 0.3, 0.3, tails)
    fitted = fit_global(signal, error)
    found = minimize(
        lambda p: crps_at(signal, error, *p), x0=(0.5, 0.5), bounds=[(0, None), (1e-6, None)], options={"ftol": 1e-14}
    )
    assert crps_at(signal, error, fitted.a, fitted.b) <= found.fun * (1 + 1e-6)
    assert (fitted.a, fitted.b) == pytest.approx(tuple(found.x), abs=0.01)


def test_no_point_of_a_dense_grid_is_better():
    signal, error = heteroscedastic(np.random.default_rng(2), 500, 0.5, 0.1, 3)
    fitted = fit_global(signal, error)
    dense = min(crps_at(signal, error, a, b) for a in np.linspace(0, 2, 81) for b in np.linspace(1e-3, 1, 81))
    assert crps_at(signal, error, fitted.a, fitted.b) <= dense + 1e-7


def test_the_finer_grids_are_never_worse_than_the_coarse_one(monkeypatch):
    rng = np.random.default_rng(3)
    for _ in range(20):
        signal, error = heteroscedastic(rng, 80, rng.uniform(0, 2), rng.uniform(0, 1), 2)
        s, e = signal.astype(np.float32), error.astype(np.float32)
        fine = module._search(s, e)
        with monkeypatch.context() as only_coarse:
            only_coarse.setattr(module, "ROUNDS", 0)
            coarse = module._search(s, e)
        at = [np.array([x]) for x in (fine.a, fine.b, coarse.a, coarse.b)]
        assert module.mean_crps(s, e, *at[:2]) <= module.mean_crps(s, e, *at[2:])


def test_a_few_wild_errors_do_not_set_the_fit():
    signal, error = heteroscedastic(np.random.default_rng(4), 20_000, 0.4, 0.2)
    plain = fit_global(signal, error)
    error[:20] *= 1_000
    wild = fit_global(signal, error)
    assert (wild.a, wild.b) == pytest.approx((plain.a, plain.b), rel=0.05)


def test_the_mean_crps_is_the_same_in_chunks_and_whole(monkeypatch):
    rng = np.random.default_rng(5)
    signal, error = heteroscedastic(rng, 1_003, 0.4, 0.2)
    a, b = rng.uniform(0, 1, 17), rng.uniform(0.1, 1, 17)
    whole = module.mean_crps(signal, error, a, b)
    np.testing.assert_allclose(whole, [crps_at(signal, error, *p) for p in zip(a, b, strict=True)], rtol=1e-12)
    for elements in (5, 1_003, 5_000):
        monkeypatch.setattr(module, "ELEMENTS", elements)
        np.testing.assert_allclose(module.mean_crps(signal, error, a, b), whole, rtol=1e-12)


def test_a_signal_of_noise_carries_nothing():
    rng = np.random.default_rng(6)
    fits = [fit_global(rng.gamma(2.0, 1.0, 1_000), rng.standard_t(3, 1_000)) for _ in range(20)]
    assert not any(fit.carries_signal or fit.a for fit in fits)


def test_what_patients_share_does_not_pass_for_a_signal():
    """A level of each of 12 patients, and one of their errors that has nothing to do with it; 500 targets each."""
    rng, patient = np.random.default_rng(7), np.repeat(np.arange(12), 500)

    def drawn(own):
        level, spread = rng.gamma(2.0, 1.0, (2, 12))
        return level[patient], (level if own else spread)[patient] * rng.standard_normal(6_000)

    unrelated, related = ([drawn(own) for _ in range(20)] for own in (False, True))
    assert sum(fit_global(*one).carries_signal for one in unrelated) > 5  # taken as independent
    assert sum(fit_global(*one, patient).carries_signal for one in unrelated) <= 2
    assert sum(fit_global(*one, patient).carries_signal for one in related) >= 15
    assert not fit_global(*related[0], np.zeros(6_000, int)).carries_signal  # nor does one patient's


def test_a_signal_that_runs_against_the_error_carries_nothing():
    signal, error = heteroscedastic(np.random.default_rng(7), 5_000, 0.5, 0.1)
    assert not fit_global(signal.max() - signal, error).carries_signal


def test_a_weak_signal_on_many_targets_carries_something():
    assert fit_global(*heteroscedastic(np.random.default_rng(8), 60_000, 0.03, 0.5)).carries_signal


@pytest.mark.parametrize("signal", [np.zeros(100), np.ones(100)])
def test_a_constant_signal_carries_nothing(signal):
    fitted = fit_global(signal, np.random.default_rng(9).standard_normal(100))
    assert not fitted.carries_signal
    assert fitted.b > 0


def test_the_scale_is_positive_where_signal_and_error_are_0():
    rng = np.random.default_rng(10)
    signal = np.append(rng.gamma(2.0, 1.0, 5_000), 0.0)
    assert fit_global(signal, signal * rng.standard_normal(5_001)).b > 0
    assert fit_global(np.zeros(30), np.zeros(30)).b > 0


@pytest.mark.parametrize("n", [1, 10, 50, 450])
def test_the_own_fit_weighs_n_over_n_plus_50(n):
    rng = np.random.default_rng(11)
    signal, error = heteroscedastic(rng, n, 0.5, 0.5)
    variable = np.full(n, 1)

    def fit(pooled):
        return np.array(fit_by_variable(signal, error, variable, 3, pooled))  # (2, V)

    low, high = fit(Affine(0.0, 1.0)), fit(Affine(2.0, 5.0))
    np.testing.assert_allclose((high - low)[:, 1], np.array([2.0, 4.0]) * 50 / (n + 50))
    np.testing.assert_array_equal(high[:, [0, 2]].T, [[2.0, 5.0], [2.0, 5.0]])  # no targets: the global fit


def test_each_variable_gets_its_own_scale():
    rng = np.random.default_rng(12)
    a, b = np.array([0.2, 0.6, 0.4]), np.array([0.5, 0.1, 0.3])
    variable = rng.integers(0, 3, 60_000)
    signal, noise = heteroscedastic(rng, 60_000, 0.0, 1.0)
    error = (a[variable] * signal + b[variable]) * noise
    found = fit_by_variable(signal, error, variable, 3, fit_global(signal, error))
    np.testing.assert_allclose(found, [a, b], atol=0.03)


def test_the_scale_stays_above_its_floor_where_the_errors_are_smaller_than_it():
    assert fit_global(np.full(60, 1.0), np.full(60, 1e-12)).b >= LEAST_SCALE


def test_a_signal_that_errors_exceed_beyond_measure_carries_nothing():
    error = np.abs(np.random.default_rng(9).standard_normal(400))
    assert fit_global(error * 1e-30, error).a == 0


def test_a_negative_signal_is_refused():
    with pytest.raises(CalibrationError, match=r"0 or more to be calibrated, got -0\.25"):
        fit_global([-0.25, 1.0], [1.0, 1.0])
