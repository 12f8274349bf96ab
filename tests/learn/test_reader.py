"""A reader learns the scale of the errors from the signals, and what it says of a record it fitted without it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from levyscreen.calibrate import crps_gaussian
from levyscreen.errors import CalibrationError
from levyscreen.learn.reader import fit_reader

N, RECORDS, VARIABLES = 3_000, 60, 3


def world(seed):
    """Questions whose errors have a known scale: by evidence, by prediction and by variable, the last never asked."""
    rng = np.random.default_rng(seed)
    variable = rng.integers(0, VARIABLES - 1, N)
    emitted = SimpleNamespace(
        prediction=rng.normal(size=N).astype(np.float32),
        variable=variable,
        evidence=rng.lognormal(size=N).astype(np.float32),
        disagreement=rng.lognormal(size=N).astype(np.float32),
        deviation=rng.lognormal(size=N).astype(np.float32),
    )
    scale = np.array([0.5, 2.0])[variable] * emitted.evidence**-0.5 * (1 + np.abs(emitted.prediction))
    return emitted, (rng.normal(size=N) * scale).astype(np.float32), rng.integers(0, RECORDS, N), scale


@pytest.fixture(scope="module", autouse=True)
def _as_often_as_users_fit_it():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levyscreen.learn.reader.EPOCHS", 20)
        yield


@pytest.fixture(scope="module")
def fitted():
    emitted, error, record, scale = world(0)
    return *fit_reader(emitted, error, record, VARIABLES, 0), emitted, error, record, scale


def test_its_scale_is_nearly_as_good_as_the_true_one_on_questions_it_never_saw(fitted):
    emitted, error, _, scale = world(1)
    mean = np.zeros(N)
    own, true, constant = (
        crps_gaussian(mean, s, error).mean() for s in (fitted[0](emitted), scale, np.full(N, error.std()))
    )
    assert own < true + 0.1 * (constant - true)


def test_a_record_is_answered_by_a_reader_that_did_not_see_it(fitted):
    _, apart, emitted, error, record, _ = fitted
    changed = np.where(record == 7, 100, error).astype(np.float32)
    whole, again = fit_reader(emitted, changed, record, VARIABLES, 0)
    np.testing.assert_array_equal(again[record == 7], apart[record == 7])
    assert not np.array_equal(again, apart)
    assert not np.array_equal(whole(emitted), fitted[0](emitted))


def test_the_seed_decides_it_and_nobody_elses_random_numbers_are_used(fitted):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    reader, apart = fit_reader(*fitted[2:5], VARIABLES, 0)
    np.testing.assert_array_equal(apart, fitted[1])
    np.testing.assert_array_equal(reader(fitted[2]), fitted[0](fitted[2]))
    assert torch.equal(torch.get_rng_state(), before)


def test_one_record_alone_is_not_enough():
    emitted, error, record, _ = world(0)
    with pytest.raises(CalibrationError, match="two patients"):
        fit_reader(emitted, error, np.zeros_like(record), VARIABLES, 0)
