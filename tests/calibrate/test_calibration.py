"""A whole calibration: fit, scale, interval, JSON, and what it refuses."""

import json
import warnings

import numpy as np
import pytest

from levyscreen.calibrate import CalibrationWarning, conformal_quantile, coverage, crps_gaussian, fit_calibration
from levyscreen.calibrate.calibration import Calibration
from levyscreen.errors import CalibrationError, UsageError

NAMES = ("HR", "MAP", "pH")


def targets(seed, n, shares=(0.6, 0.3, 0.1)):
    """signal, mean, target, variable, record: heavy-tailed errors whose scale depends on signal and variable."""
    rng = np.random.default_rng(seed)
    variable = rng.choice(3, n, p=shares)
    signal = rng.gamma(2.0, 1.0, n)
    scale = np.array([0.2, 0.5, 0.1])[variable] * signal + np.array([0.1, 0.3, 0.8])[variable]
    mean = rng.standard_normal(n)
    target = mean + scale * rng.standard_t(3, n)
    return signal, mean, target, variable, rng.integers(0, 400, n)


def fitted(n=6_000, seed=0, **options):
    signal, mean, target, variable, _ = targets(seed, n)
    return fit_calibration(signal, "deviation", mean, target, variable, NAMES, **options)


@pytest.mark.parametrize("by", ["variable", "nothing"])
def test_unseen_targets_are_covered_overall(by):
    calibration = fitted(by=by)
    signal, mean, target, variable, _ = targets(1, 20_000)
    scale = calibration.scale(signal, variable)
    for level in (0.8, 0.9, 0.95):
        half = calibration.half_width(scale, variable, level)
        assert coverage(mean, half, target) == pytest.approx(level, abs=0.015)  # 6,000 targets: 3 sd at 80 %


def test_by_variable_each_variable_is_covered_and_by_nothing_it_is_not():
    signal, mean, target, variable, _ = targets(1, 60_000)

    def gaps(calibration):
        half = calibration.half_width(calibration.scale(signal, variable), variable, 0.8)
        return [abs(coverage(mean[variable == v], half[variable == v], target[variable == v]) - 0.8) for v in range(3)]

    assert max(gaps(fitted())) < 0.03
    assert max(gaps(fitted(by="nothing"))) > 0.1


def test_calibrating_by_variable_lowers_the_crps():
    signal, mean, target, variable, _ = targets(1, 20_000)
    crps = {
        by: crps_gaussian(mean, fitted(by=by).scale(signal, variable), target).mean() for by in ("variable", "nothing")
    }
    assert crps["variable"] < 0.98 * crps["nothing"]


def test_by_nothing_every_variable_has_the_pooled_numbers():
    c = fitted(by="nothing")
    assert set(c.a) == {c.pooled.a}
    assert set(c.b) == {c.pooled.b}
    np.testing.assert_array_equal(c.quantiles_by_variable, np.repeat(c.quantiles[:, None], 3, axis=1))


def test_a_variable_of_few_patients_has_no_finite_interval_however_many_targets_these_have():
    """The finite-sample rank counts patients: 9 are needed at level 0.9, 19 at 0.95."""
    signal, mean, target, variable, _ = targets(2, 6_000)
    patient = np.where(variable == 1, np.arange(6_000) % 7, np.arange(6_000))
    with pytest.warns(CalibrationWarning, match=r"level 0\.9 \(needs 9 .*\): MAP; 0\.95 \(needs 19 .*\): MAP$"):
        c = fit_calibration(signal, "deviation", mean, target, variable, NAMES, patient=patient)
    assert np.isfinite(c.quantiles_by_variable).tolist() == [[True] * 3, [True, False, True], [True, False, True]]


def test_targets_of_one_patient_cover_less_of_others_than_as_many_of_many_patients():
    """The figures of `warn_of_few_patients`: errors of a spread by patient, lognormal of 0.5, 90 % intervals."""
    rng = np.random.default_rng(0)
    covered = {}
    for patients in (1, 20):
        spread = np.exp(0.5 * rng.standard_normal((4000, patients, 1)))
        scores = np.abs(spread * rng.standard_normal((4000, patients, 20 // patients))).reshape(4000, 20)
        bound = np.array([conformal_quantile(row, 0.9) for row in scores])[:, None]
        others = np.exp(0.5 * rng.standard_normal((4000, 200))) * rng.standard_normal((4000, 200))
        covered[patients] = float((np.abs(others) <= bound).mean())
    assert covered[1] == pytest.approx(0.83, abs=0.01)
    assert covered[20] == pytest.approx(0.905, abs=0.01)


def test_fitting_on_the_same_targets_costs_no_more_than_a_point_of_coverage():
    signal, mean, target, variable, _ = targets(3, 200_000)
    own = variable == 0
    signal, mean, target, variable = signal[own], mean[own], target[own], variable[own]
    found = []
    for k in range(40):
        part = slice(300 * k, 300 * (k + 1))
        c = fit_calibration(signal[part], "deviation", mean[part], target[part], variable[part], NAMES[:1])
        half = c.half_width(c.scale(signal[20_000:], variable[20_000:]), variable[20_000:], 0.9)
        found.append(coverage(mean[20_000:], half, target[20_000:]))
    assert np.mean(found) == pytest.approx(0.9, abs=0.01)  # one fit's sd is 0.017, their mean's 0.003


def test_rare_variables_get_an_infinite_interval_and_a_warning_that_names_them():
    signal, mean, target, _, _ = targets(4, 100)
    variable = np.repeat([0, 1], [90, 10])
    with pytest.warns(
        CalibrationWarning, match=r"at level 0\.9 \(needs 9 targets\): pH; 0\.95 \(needs 19 targets\): MAP, pH$"
    ):
        c = fit_calibration(signal, "deviation", mean, target, variable, NAMES, levels=(0.9, 0.95))
    np.testing.assert_array_equal(np.isinf(c.quantiles_by_variable), [[False, False, True], [False, True, True]])
    scale = c.scale(signal[:3], np.arange(3))
    assert np.isfinite(scale).all()
    np.testing.assert_array_equal(np.isinf(c.half_width(scale, np.arange(3), 0.95)), [False, True, True])
    assert (c.a[2], c.b[2]) == (c.pooled.a, c.pooled.b)


def test_enough_targets_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted().rankable


def test_a_signal_of_noise_is_not_rankable():
    signal, mean, target, variable, _ = targets(5, 4_000)
    noise = np.random.default_rng(6).permutation(signal)
    c = fit_calibration(noise, "disagreement", mean, target, np.zeros_like(variable), NAMES[:1])
    assert not c.rankable
    assert c.pooled.a == 0


def test_a_signal_that_one_patients_targets_show_is_not_rankable():
    signal, mean, target, variable, _ = targets(5, 4_000)
    many, few = np.arange(len(signal)), np.arange(len(signal)) % 30  # 30 are enough for intervals
    noise = np.random.default_rng(0).normal(size=30)[few]  # of one patient all targets miss alike
    for patient, rankable in ((many, True), (few, False)):
        target = target if rankable else mean + noise
        c = fit_calibration(signal, "deviation", mean, target, variable, NAMES, by="nothing", patient=patient)
        assert c.rankable == rankable


def test_json_is_strict_and_brings_every_number_back():
    signal, mean, target, variable, _ = targets(7, 60)
    with pytest.warns(CalibrationWarning):
        c = fit_calibration(signal, "deviation", mean, target, variable, NAMES, provenance={"seed": 3, "records": 12})
    assert np.isinf(c.quantiles_by_variable).any()
    text = json.dumps(c.to_json(), allow_nan=False)
    back = Calibration.from_json(json.loads(text))
    assert back.to_json() == c.to_json()
    assert back.provenance == {"seed": 3, "records": 12}
    assert (back.signal, back.by, back.variables, back.levels, back.pooled) == (
        "deviation",
        "variable",
        NAMES,
        (0.8, 0.9, 0.95),
        c.pooled,
    )
    for name in ("a", "b", "n_targets", "quantiles", "quantiles_by_variable"):
        np.testing.assert_array_equal(getattr(back, name), getattr(c, name))
    np.testing.assert_array_equal(back.scale(signal, variable), c.scale(signal, variable))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99, this version reads 1"),
        ({"global": None}, "not a calibration: ValueError global must be an object, got None"),
        ({"a": [1.0]}, r"damaged calibration: 3 variables and 3 levels"),
        ({"a": [1.0, "1", 1.0]}, r"a\[1\] must be a number within 1e\+15, got '1'"),
        ({"a": [1.0, -1.0, 1.0]}, "damaged calibration: a, mean_error, n_targets and quantiles must be 0 or more"),
        ({"b": [1.0, 0.0, 1.0]}, "damaged calibration: b must be above 0"),
        ({"levels": [0.8, 0.9, 0.9]}, "damaged calibration: levels must lie between 0 and 1, each once"),
        ({"levels": [0.9, 0.95, 0.8]}, "damaged calibration: quantiles must rise with the level"),
        ({"signal": "doubt"}, "signal must be one of deviation, sigma_hat, disagreement, inverse_evidence"),
        ({"colour": "blue"}, "'colour' is not known to this version"),
    ],
)
def test_a_damaged_file_is_refused(change, message):
    with pytest.raises(CalibrationError, match=message):
        Calibration.from_json(fitted(n=900).to_json() | change)


def test_a_missing_field_is_named():
    data = fitted(n=900).to_json()
    del data["n_targets"]
    with pytest.raises(CalibrationError, match="n_targets"):
        Calibration.from_json(data)


def test_a_level_that_was_not_calibrated_is_refused_with_those_that_were():
    c = fitted(n=900)
    assert c.level_index(1 - 0.1) == 1
    with pytest.raises(CalibrationError, match=r"level 0\.99: calibrated at 0\.8, 0\.9, 0\.95"):
        c.half_width(np.ones(1), np.zeros(1, dtype=int), 0.99)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_variable_that_the_calibration_lacks_is_refused(index):
    with pytest.raises(CalibrationError, match="the 3 variables 0 to 2"):
        fitted(n=900).scale(np.ones(1), np.array([index]))


def test_scales_keep_the_shape_and_precision_of_the_signal():
    c = fitted(n=900)
    signal, variable = np.ones((2, 5), dtype=np.float32), np.zeros((2, 5), dtype=np.int64)
    scale = c.scale(signal, variable)
    assert (scale.shape, scale.dtype) == ((2, 5), np.float32)
    assert c.half_width(scale, variable, 0.9).dtype == np.float32
    assert c.scale(np.ones(1, dtype=int), np.zeros(1, dtype=int)) == pytest.approx(c.a[0] + c.b[0])
    assert c.scale(np.ones((0, 4)), np.zeros((0, 4), dtype=int)).shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"signal_name": "hunch"}, UsageError, "'hunch' is not one of deviation"),
        ({"by": "ward"}, UsageError, "'ward' is not one of variable, nothing"),
        ({"levels": (0.9, 90)}, UsageError, "between 0.001 and 0.999, each once; got 0.9, 90"),
        ({"levels": (0.9, 0.9)}, UsageError, "each once"),
        ({"levels": (0.9999999,)}, UsageError, "between 0.001 and 0.999"),
        ({"levels": ()}, UsageError, "got none"),
        ({"variable": [0, 3]}, UsageError, "2 indices from 0 to 2"),
        ({"variable": [0.0, 1.0]}, UsageError, "got float64"),
        ({"signal": [1.0, np.inf]}, UsageError, "1 of 2 values of deviation are not finite"),
        ({"signal": [1.0, -1.0]}, CalibrationError, "0 or more"),
        ({"mean": [0.0]}, UsageError, r"mean \(1,\)"),
        ({"signal": [], "mean": [], "target": [], "variable": []}, CalibrationError, "no targets"),
    ],
)
def test_a_fit_that_cannot_be_made_says_why(change, error, message):
    call = {"signal": [1.0, 2.0], "signal_name": "deviation", "mean": [0.0, 0.0], "target": [1.0, 2.0]}
    with pytest.raises(error, match=message):
        fit_calibration(**(call | {"variable": [0, 1], "names": NAMES} | change))
