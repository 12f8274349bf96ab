"""What holds for every estimator of the registry, so that a table may treat them alike."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from levyscreen.errors import UsageError
from levyscreen.estimators.base import Estimator
from levyscreen.estimators.registry import ESTIMATORS
from tests.estimators.cast import alone, padded

# passes, the network that predicts, labels, units: the columns and blocks of tab:unc_interp.
DECLARED = {
    "interpolation": (0, "levy", False, False),
    "last-value": (0, "levy", False, False),
    "by-lot": (0, "levy", False, False),
    "gap-same-variable": (0, "levy", False, False),
    "gap-any-variable": (0, "levy", False, False),
    "count-same-variable": (0, "levy", False, False),
    "density-window": (0, "levy", False, False),
    "record-length": (0, "levy", False, False),
    "softmax-partition": (1, "softmax", False, False),
    "softmax-entropy": (1, "softmax", False, False),
    "softmax-dispersion": (1, "softmax", False, False),
    "cosine-partition": (1, "cosine", False, False),
    "cosine-entropy": (1, "cosine", False, False),
    "cosine-dispersion": (1, "cosine", False, False),
    "cosine-deviation": (1, "cosine", False, True),
    "inverse-evidence": (1, "levy", False, False),
    "sigma-hat": (1, "levy", False, False),
    "draws-layer": (9, "levy", False, False),
    "draws-prediction": (9, "levy", False, True),
    "disagreement": (1, "levy", False, False),
    "deviation": (1, "levy", False, True),
    "density": (1, "levy", False, False),
    "laplace": (1, "levy", False, True),
    "dropout": (20, "levy", False, True),
    "ensemble": (5, "ensemble", False, True),
    "student": (1, "student", False, True),
    "variable-error": (0, "levy", True, False),
    "variance-head": (1, "levy", True, True),
    "rich": (1, "levy", True, True),
    "meta-model": (1, "levy", True, True),
    "features": (1, "levy", True, True),
    "student-rich": (1, "student", True, True),
    "no-signal-rich": (1, "levy", True, True),
    "softmax-rich": (1, "softmax", True, True),
    "cosine-rich": (1, "cosine", True, True),
    "nll": (1, "nll", True, True),
    "beta-nll": (1, "beta-nll", True, True),
    "tnp-d": (1, "tnp-d", True, True),
}
RICH = ("rich", "meta-model", "features", "student-rich", "no-signal-rich", "softmax-rich", "cosine-rich")
FITTED = ("density", "laplace", "variable-error", "variance-head", *RICH)
BY_BATCH = ("dropout",)  # one stream of random numbers a batch: another batch, other passes
every = pytest.mark.parametrize("name", ESTIMATORS)
whatever_the_batch = pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in BY_BATCH])


@pytest.fixture(scope="module")
def cast(networks, train, validation):
    estimators = {name: of(networks) for name, of in ESTIMATORS.items()}
    for estimator in estimators.values():
        estimator.fit(train, validation, seed=1)
    return estimators


def close(got, expected):
    torch.testing.assert_close(got.prediction, expected.prediction, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.uncertainty, expected.uncertainty, rtol=1e-4, atol=1e-5)


def equal(got, expected):
    return torch.equal(got.prediction, expected.prediction) and torch.equal(got.uncertainty, expected.uncertainty)


def only(estimate, where):
    return type(estimate)(estimate.prediction[where], estimate.uncertainty[where])


def state_of(networks):
    """Modes, weights and global random state."""
    members = [network for of_kind in networks.values() for network in of_kind]
    modes = [module.training for network in members for module in network.modules()]
    weights = [tensor.clone() for network in members for tensor in network.state_dict().values()]
    return modes, [*weights, torch.get_rng_state(), torch.from_numpy(np.random.get_state()[1])]  # noqa: NPY002


def same_state(one, other):
    return one[0] == other[0] and all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


def test_the_registry_is_the_papers_cast_and_declares_its_columns():
    declared = {name: (e.passes, e.reads, e.needs_labels, e.in_units) for name, e in ESTIMATORS.items()}
    assert declared == DECLARED
    assert len({estimator.title for estimator in ESTIMATORS.values()}) == len(ESTIMATORS)
    assert all(issubclass(e, Estimator) and not inspect.isabstract(e) for e in ESTIMATORS.values())


@every
def test_every_query_gets_a_finite_prediction_and_uncertainty(cast, asked, name):
    estimate = cast[name](asked)
    for part in (estimate.prediction, estimate.uncertainty):
        assert part.shape == asked.query_mask.shape
        assert part.dtype == torch.float32
        assert not part.requires_grad
        assert part[asked.query_mask].isfinite().all()
    assert len(estimate.uncertainty[asked.query_mask].unique()) > 1
    if cast[name].in_units:
        assert (estimate.uncertainty[asked.query_mask] > 0).all()


@every
def test_what_reads_the_point_model_ranks_that_models_errors_and_the_others_their_own(cast, networks, asked, name):
    with torch.no_grad():
        point = networks["levy"][0](asked)[asked.query_mask]
    prediction = cast[name](asked).prediction[asked.query_mask]
    without_a_model = name in ("interpolation", "last-value")
    assert torch.allclose(prediction, point, rtol=1e-4, atol=1e-5) == (
        cast[name].reads == "levy" and not without_a_model
    )


@whatever_the_batch
def test_padding_changes_no_estimate(cast, asked, name):
    wider = padded(asked)
    assert wider.query_mask.shape != asked.query_mask.shape
    close(only(cast[name](wider), wider.query_mask), only(cast[name](asked), asked.query_mask))


@whatever_the_batch
def test_a_record_gets_the_same_estimate_whatever_stands_beside_it(cast, asked, name):
    together = cast[name](asked)
    for row, real in enumerate(asked.query_mask):
        close(only(cast[name](alone(asked, row)), 0), only(only(together, row), real))


@every
def test_the_same_batch_gets_the_same_estimate_from_several_threads_at_once(cast, batches, name):
    first = [cast[name](batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(cast[name], 3 * batches))
    assert all(equal(got, first[i % len(first)]) for i, got in enumerate(again))


@every
def test_asking_and_fitting_leave_networks_and_global_random_state_as_they_were(networks, train, validation, name):
    before = state_of(networks)
    estimator = ESTIMATORS[name](networks)
    estimator.fit(train, validation, seed=1)
    assert same_state(state_of(networks), before)
    estimator(validation[0])
    assert same_state(state_of(networks), before)


@every
def test_a_fit_is_the_same_for_the_same_seed(cast, networks, train, validation, asked, name):
    again = ESTIMATORS[name](networks)
    again.fit(train, validation, seed=1)
    assert equal(again(asked), cast[name](asked))


@pytest.mark.parametrize("name", ["density", "variance-head", "dropout", "draws-layer", "draws-prediction"])
def test_another_seed_gives_another_estimate(cast, networks, train, validation, asked, name):
    other = ESTIMATORS[name](networks)
    other.fit(train, validation, seed=2)
    assert not torch.equal(other(asked).uncertainty, cast[name](asked).uncertainty)


@pytest.mark.parametrize("name", FITTED)
def test_padding_is_not_fitted_on(cast, networks, train, validation, asked, name):
    other = ESTIMATORS[name](networks)
    other.fit([padded(batch) for batch in train], [padded(batch) for batch in validation], seed=1)
    got, expected = (e(asked).uncertainty[asked.query_mask] for e in (other, cast[name]))
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", FITTED)
def test_what_must_be_fitted_says_so_and_says_what_is_missing(networks, asked, name):
    estimator = ESTIMATORS[name](networks)
    with pytest.raises(UsageError, match=r"fit\(\) it before asking it"):
        estimator(asked)
    with pytest.raises(UsageError, match="nothing to fit on"):
        estimator.fit([], [])
