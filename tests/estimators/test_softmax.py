"""The control's read-outs against loops over heads, queries and readings in double precision."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch

from levyscreen.errors import ModelError
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.operator import phi

NAMES = ("softmax-dispersion", "softmax-entropy", "softmax-partition")


@pytest.fixture(scope="module")
def control(networks):
    """Sharper than a network fresh from its seed, whose weights hardly differ from key to key."""
    network = deepcopy(networks["softmax"][0])
    with torch.no_grad():
        network.decode.query.weight.mul_(6)
        network.decode.value.weight.mul_(3)
    return network


def projected(linear, x):
    """(k, width) -> (k, H, d) for the two heads, in double precision."""
    return (x @ linear.weight.numpy().astype(float).T + linear.bias.numpy()).reshape(len(x), 2, -1)


@torch.no_grad()
def heads_of(network, batch, row, query):
    """Of each head kappa of every reading, by eq:kernel or unbounded, and the values (n, d)."""
    real = batch.mask[row].numpy()
    tokens = network.tokens(batch)[row].numpy()[real].astype(float)
    asked = network.embed.query(batch.query_time, batch.query_variable)[row, query].numpy().astype(float)
    keys, values = projected(network.decode.key, tokens), projected(network.decode.value, tokens)
    question = projected(network.decode.query, asked[None])[0]
    for head in range(2):
        asked_of, told = question[head], [key[head] for key in keys]
        if network.config.decode == "cosine":
            asked_of, told = asked_of * 8 / math.hypot(*asked_of), [key / math.hypot(*key) for key in told]
        yield [math.exp(asked_of @ key / math.sqrt(8)) for key in told], values[:, head]


def slow(network, batch, row, query):
    """Dispersion, entropy and -ln of the partition function of one query, each by its definition."""
    dispersion, entropy, partition = [], [], []
    for kappa, value in heads_of(network, batch, row, query):
        alpha = [k / sum(kappa) for k in kappa]
        mean = sum(a * v for a, v in zip(alpha, value, strict=True))
        dispersion.append(sum(a * ((v - mean) ** 2).sum() for a, v in zip(alpha, value, strict=True)))
        entropy.append(-sum(a * math.log(a) for a in alpha))
        partition.append(sum(kappa))
    return np.mean(dispersion), np.mean(entropy), -math.log(np.mean(partition))


@pytest.mark.parametrize(("place", "name"), list(enumerate(NAMES)))
def test_a_read_out_is_its_definition_summed_by_loops(control, asked, place, name):
    got = ESTIMATORS[name]({"softmax": [control]})(asked).uncertainty
    places = asked.query_mask.nonzero()[::5].tolist()
    expected = [slow(control, asked, row, query)[place] for row, query in places]
    np.testing.assert_allclose([float(got[row, query]) for row, query in places], expected, rtol=2e-5)
    assert np.ptp(expected) > 0.1 * abs(np.mean(expected))


@pytest.mark.parametrize(("place", "name"), [(0, "cosine-dispersion"), (1, "cosine-entropy"), (2, "cosine-partition")])
def test_the_cosine_controls_read_outs_are_of_its_bounded_kernel(networks, asked, place, name):
    (network,) = networks["cosine"]
    got = ESTIMATORS[name]({"cosine": [network]})(asked).uncertainty
    for row, query in asked.query_mask.nonzero()[::5].tolist():
        assert float(got[row, query]) == pytest.approx(slow(network, asked, row, query)[place], rel=2e-5)


def test_values_far_from_zero_disperse_no_more(control, asked):
    far = deepcopy(control)
    with torch.no_grad():
        far.decode.value.bias.add_(100.0)
    near, shifted = (ESTIMATORS["softmax-dispersion"]({"softmax": [n]})(asked).uncertainty for n in (control, far))
    torch.testing.assert_close(shifted[asked.query_mask], near[asked.query_mask], rtol=1e-3, atol=1e-4)


def test_a_partition_function_that_float32_cannot_hold_still_ranks(control, asked):
    sharp = deepcopy(control)
    with torch.no_grad():
        sharp.decode.query.weight.mul_(200)
    got = ESTIMATORS["softmax-partition"]({"softmax": [sharp]})(asked).uncertainty[asked.query_mask]
    assert got.min() < -math.log(torch.finfo(torch.float32).max)
    assert got.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_levy_model_has_no_attention_weights_to_read(networks, asked, name):
    with pytest.raises(ModelError, match="does not decode by softmax"):
        ESTIMATORS[name]({"softmax": networks["levy"]})(asked)


@torch.no_grad()
def slow_deviation(network, batch, row, query):
    """sqrt(sum_h phi(tau sum kappa) sum_i alpha_i (g . (v_i - mean))^2), g by differences of the head's answers."""
    heads = [
        (kappa, value, np.average(value, axis=0, weights=kappa))
        for kappa, value in heads_of(network, batch, row, query)
    ]
    mean = np.concatenate([mean for _, _, mean in heads])
    exact = deepcopy(network).double()

    def answer(layer_output):
        return float(exact.head(exact.decode.out(torch.from_numpy(layer_output))))

    steps = 1e-5 * np.eye(len(mean))
    gradient = np.array([(answer(mean + step) - answer(mean - step)) / 2e-5 for step in steps]).reshape(2, -1)
    variance = 0.0
    for g, (kappa, value, centre) in zip(gradient, heads, strict=True):
        share = float(phi(torch.tensor(network.config.tau * sum(kappa), dtype=torch.float64)))
        variance += share * np.average([(g @ (v - centre)) ** 2 for v in value], weights=kappa)
    return math.sqrt(variance)


def test_the_deviation_without_a_field_is_its_definition_summed_by_loops(networks, asked):
    (network,) = networks["cosine"]
    got = ESTIMATORS["cosine-deviation"]({"cosine": [network]})(asked).uncertainty
    places = asked.query_mask.nonzero()[::7].tolist()
    expected = [slow_deviation(network, asked, row, query) for row, query in places]
    np.testing.assert_allclose([float(got[row, query]) for row, query in places], expected, rtol=1e-4)
    assert np.ptp(expected) > 0.1 * np.mean(expected)
