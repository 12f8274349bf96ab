"""The free signals are those that screening reads, and many draws come to what the closed forms say."""

from dataclasses import replace

import pytest
import torch

from levyscreen.estimators.draws import drawn
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.model.encoder import join_heads
from levyscreen.questions import answer

MANY = 3_000


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("disagreement", "disagreement"),
        ("sigma-hat", "sigma_hat"),
        ("inverse-evidence", "inverse_evidence"),
        ("deviation", "deviation"),
    ],
)
def test_a_signal_is_what_screening_answers(networks, asked, name, signal):
    expected = torch.from_numpy(answer(networks["levy"][0], asked).signal(signal))
    got = ESTIMATORS[name](networks)(asked).uncertainty[asked.query_mask]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


def many(networks, asked, name, monkeypatch):
    """The estimate of 3,000 draws in place of eight."""
    monkeypatch.setattr("levyscreen.estimators.draws.DRAWS", MANY)
    return ESTIMATORS[name](networks)(asked).uncertainty[asked.query_mask]


def test_the_spread_of_many_draws_at_the_layer_is_sigma_hat(networks, asked, monkeypatch):
    """The standard deviation of 3,000 draws has a relative error of 1.3 % for a Gaussian; heavier tails have more."""
    spread = many(networks, asked, "draws-layer", monkeypatch)
    ratio = spread / ESTIMATORS["sigma-hat"](networks)(asked).uncertainty[asked.query_mask]
    assert (ratio - 1).abs().max() < 0.06
    assert abs(float(ratio.mean()) - 1) < 0.01


def test_the_spread_of_many_drawn_predictions_is_the_deviation(networks, asked, monkeypatch):
    """To first order of the head, so in the median and not query by query."""
    spread = many(networks, asked, "draws-prediction", monkeypatch)
    ratio = spread / ESTIMATORS["deviation"](networks)(asked).uncertainty[asked.query_mask]
    assert abs(float(ratio.median()) - 1) < 0.05


@torch.no_grad()
def test_the_spread_of_eight_draws_is_that_of_a_loop_over_them(networks, asked):
    network = networks["levy"][0]
    _, layer = drawn(network, asked, 8, 0)  # (8, R, H, m, d)
    predictions = [network.read_out(join_heads(one), asked) for one in layer]
    middle, mean = sum(predictions) / 8, layer.sum(0) / 8
    by_head = sum((one - mean).square().sum(-1) for one in layer) / 7  # (R, H, m)
    torch.testing.assert_close(
        ESTIMATORS["draws-layer"](networks)(asked).uncertainty, (by_head[:, 0].sqrt() + by_head[:, 1].sqrt()) / 2
    )
    torch.testing.assert_close(
        ESTIMATORS["draws-prediction"](networks)(asked).uncertainty,
        (sum((one - middle).square() for one in predictions) / 7).sqrt(),
        rtol=1e-4,
        atol=1e-6,
    )


def test_draws_are_scored_by_the_distances_to_the_target_and_among_themselves(networks, asked):
    estimator = ESTIMATORS["draws-prediction"](networks)
    estimator.fit([], [], 4)
    crps = {name: float(score[asked.query_mask].mean()) for name, score in estimator.scores_besides(asked).items()}
    network, real = networks["levy"][0], asked.query_mask
    _, layer = drawn(network, asked, 50, 4)
    with torch.no_grad():
        x = torch.stack([network.read_out(join_heads(one), asked) for one in layer])[:, real].double()
    y = asked.target[real].double()
    for k in (1, 8, 50):
        among = (x[:k, None] - x[None, :k]).abs().mean((0, 1))
        assert crps[f"crps_of_draws_{k}"] == pytest.approx(
            float(((x[:k] - y).abs().mean(0) - among / 2).mean()), rel=1e-6
        )
    assert crps["crps_of_draws_1"] > crps["crps_of_draws_8"] > crps["crps_of_draws_50"]


def test_dropout_draws_anew_for_another_record_and_the_same_for_the_same(networks, asked):
    dropout = ESTIMATORS["dropout"](networks)
    other = replace(asked, record=asked.record + 1)
    assert torch.equal(dropout(other).prediction, dropout(asked).prediction)
    assert not torch.equal(dropout(other).uncertainty, dropout(asked).uncertainty)
    assert torch.equal(dropout(asked).uncertainty, dropout.spread(asked))
