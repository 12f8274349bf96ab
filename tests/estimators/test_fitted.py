"""What is fitted, against an independent form of it or against what the data were made from."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from levyscreen.calibrate import crps_gaussian
from levyscreen.errors import UsageError
from levyscreen.estimators.fitting import Queries, gathered, penultimate, predicted
from levyscreen.estimators.laplace import PRIORS
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.estimators.variance_head import fit_log_variance
from tests.estimators.cast import padded


@torch.no_grad()
def test_the_last_layer_of_penultimate_features_is_the_prediction(networks, asked):
    network = networks["levy"][0]
    features = penultimate(network, asked)
    assert features.shape == (*asked.query_mask.shape, network.config.width)
    torch.testing.assert_close(predicted(network, features, asked), network(asked), rtol=1e-5, atol=1e-6)


def test_gathered_queries_are_the_real_ones_of_all_batches(networks, train):
    network = networks["levy"][0]
    got = gathered(network, [padded(batch) for batch in train])
    assert torch.equal(got.target, torch.cat([batch.target[batch.query_mask] for batch in train]))
    assert torch.equal(got.variable, torch.cat([batch.query_variable[batch.query_mask] for batch in train]))
    torch.testing.assert_close(got.error, got.prediction.double() - got.target)
    assert float(got.target.abs().max()) < 1e4


# last-layer Laplace


def dense(network, batches):
    """Design matrix with a column of ones, and residuals."""
    found = gathered(network, batches)
    return np.column_stack([found.features.double().numpy(), np.ones(len(found.target))]), found.error.numpy()


def test_laplace_is_the_dense_formula_with_the_prior_that_validation_likes_best(networks, train, validation, asked):
    """On few training queries and wider validation targets, so that the best prior is none of the grid's ends."""
    network, train = networks["levy"][0], train[:1]
    validation = [replace(batch, target=1.1 * batch.target) for batch in validation]
    x, residual = dense(network, train)
    held, error = dense(network, validation)
    noise = np.mean(residual**2)

    def spread(prior, rows):
        covariance = np.linalg.inv(x.T @ x / noise + prior * np.eye(x.shape[1]))
        return np.array([math.sqrt(row @ covariance @ row) for row in rows])

    def loss(prior):
        variance = spread(prior, held) ** 2 + noise
        return np.mean(0.5 * np.log(2 * math.pi * variance) + error**2 / (2 * variance))

    best = min(PRIORS.tolist(), key=loss)
    assert PRIORS[3] < best < PRIORS[-4]
    laplace = ESTIMATORS["laplace"](networks)
    laplace.fit(train, validation)
    got = laplace(asked).uncertainty[asked.query_mask].numpy()
    np.testing.assert_allclose(got, spread(best, dense(network, [asked])[0]), rtol=1e-5)
    assert laplace.noise == pytest.approx(math.sqrt(noise), rel=1e-5)
    assert not np.allclose(got, spread(best * 10, dense(network, [asked])[0]), rtol=1e-2)


# variance head


def made_up(n, seed, spread):
    """Standard normal features, predictions of 0, targets as wide as `spread` of the features says."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 6, generator=generator)
    target = spread(features) * torch.randn(n, generator=generator)
    return Queries(features, torch.zeros(n), target, torch.zeros(n, dtype=torch.int64))


def test_the_variance_head_recovers_how_the_noise_depends_on_the_features():
    def spread(features):
        return 0.3 * (0.8 * features[:, 0] - 0.4 * features[:, 1]).exp()

    head = fit_log_variance(made_up(12_000, 0, spread), made_up(3_000, 1, spread), seed=0)
    features = made_up(2_000, 2, spread).features
    got = 0.5 * head(features)
    assert float((got - spread(features).log()).abs().mean()) < 0.1  # of a range from -5 to 2
    assert float(torch.corrcoef(torch.stack([got, spread(features).log()]))[0, 1]) > 0.98


def test_the_variance_head_finds_one_variance_where_there_is_one():
    def spread(features):
        return torch.full((len(features),), 0.5)

    head = fit_log_variance(made_up(8_000, 0, spread), made_up(2_000, 1, spread), seed=0)
    scale = (0.5 * head(made_up(500, 2, spread).features)).exp()
    assert float((scale - 0.5).abs().max()) < 0.1


def test_the_variance_head_keeps_the_epoch_that_validation_likes_best():
    """Few queries and noise that depends on nothing: what is learnt after the start is chance."""

    def spread(features):
        return torch.ones(len(features))

    train, validation = made_up(40, 0, spread), made_up(4_000, 1, spread)
    head = fit_log_variance(train, validation, seed=0)

    def crps(scale):
        return float(crps_gaussian(0, scale, validation.error.numpy()).mean())

    started = float(train.error.square().mean().sqrt())
    assert crps((0.5 * head(validation.features)).exp().numpy()) <= crps(started) + 1e-6


def test_a_few_huge_errors_do_not_keep_the_variance_head_from_the_others():
    """Three of them, as large as the worst of set-a, in training and in validation."""

    def spread(features):
        return 0.3 * (0.8 * features[:, 0] - 0.4 * features[:, 1]).exp()

    def struck(queries):
        target = queries.target.clone()
        target[:: len(target) // 3] = 90.0
        return replace(queries, target=target)

    head = fit_log_variance(struck(made_up(12_000, 0, spread)), struck(made_up(3_000, 1, spread)), seed=0)
    features = made_up(2_000, 2, spread).features
    got = torch.stack([0.5 * head(features), spread(features).log()])
    assert float(torch.corrcoef(got)[0, 1]) > 0.9


# density


def test_records_unlike_the_training_records_are_less_dense(networks, train, validation, asked):
    density = ESTIMATORS["density"](networks)
    density.fit(train, validation)
    usual = density(validation[0]).uncertainty[validation[0].query_mask]
    strange = density(replace(asked, value=5 + 10 * asked.value)).uncertainty[asked.query_mask]
    assert float((strange > usual.max()).float().mean()) > 0.9


def test_one_component_is_the_normal_density_on_the_principal_axes(networks, train, validation, asked, monkeypatch):
    monkeypatch.setattr("levyscreen.estimators.density.COMPONENTS", 1)
    monkeypatch.setattr("levyscreen.estimators.density.DIMENSIONS", 4)
    density = ESTIMATORS["density"](networks)
    density.fit(train, validation)
    fitted, found = (gathered(networks["levy"][0], of).features.double().numpy() for of in (train, [asked]))
    axes = np.linalg.svd(fitted - fitted.mean(0), full_matrices=False)[2][:4]
    on_axes, asked_on_axes = (fitted - fitted.mean(0)) @ axes.T, (found - fitted.mean(0)) @ axes.T
    covariance = on_axes.T @ on_axes / len(on_axes) + 1e-6 * np.eye(4)
    expected = -multivariate_normal(np.zeros(4), covariance).logpdf(asked_on_axes)
    np.testing.assert_allclose(density(asked).uncertainty[asked.query_mask], expected, rtol=1e-3, atol=1e-3)


def test_a_density_of_many_queries_is_fitted_on_a_draw_of_them(networks, train, validation, asked, monkeypatch):
    def of(most, seed):
        monkeypatch.setattr("levyscreen.estimators.density.MOST", most)
        density = ESTIMATORS["density"](networks)
        density.fit(train, validation, seed)
        return density(asked).uncertainty

    count = sum(int(batch.query_mask.sum()) for batch in train)
    assert torch.equal(of(count, 0), of(10**6, 0))
    assert not torch.equal(of(count - 1, 0), of(10**6, 0))


def test_without_scikit_learn_density_says_what_to_install(networks, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UsageError, match=r"density needs scikit-learn: pip install 'levyscreen\[study\]'"):
        ESTIMATORS["density"](networks)


# error by variable


def test_the_error_of_a_variable_is_its_mean_on_validation_or_that_of_all(networks, train, validation, asked):
    without = [replace(batch, query_mask=batch.query_mask & (batch.query_variable != 2)) for batch in validation]
    by_variable = ESTIMATORS["variable-error"](networks)
    by_variable.fit(train, without)
    errors = {variable: [] for variable in range(4)}
    for batch in without:
        with torch.no_grad():
            prediction = networks["levy"][0](batch)
        for row, query in batch.query_mask.nonzero().tolist():
            error = abs(float(prediction[row, query]) - float(batch.target[row, query]))
            errors[int(batch.query_variable[row, query])].append(error)
    mean_of_all = np.mean([error for of_one in errors.values() for error in of_one])
    expected = np.array([np.mean(errors[v]) if errors[v] else mean_of_all for v in range(4)])
    assert not errors[2]
    got = by_variable(asked).uncertainty
    np.testing.assert_allclose(got, expected[asked.query_variable], rtol=1e-5)


# likelihood heads


@pytest.mark.parametrize("name", ["nll", "beta-nll", "tnp-d"])
def test_a_likelihood_head_emits_its_mean_and_a_softplus_with_a_floor(networks, asked, name):
    network = networks[name][0]
    with torch.no_grad():
        features = penultimate(network, asked).double().numpy()
    last = network.head.layers[-1]
    raw = features @ last.weight.detach().double().numpy().T + last.bias.detach().double().numpy()
    estimate = ESTIMATORS[name](networks)(asked)
    np.testing.assert_allclose(estimate.prediction, raw[..., 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(estimate.uncertainty, np.log1p(np.exp(raw[..., 1])) + 1e-3, rtol=1e-4)
