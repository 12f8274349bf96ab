"""The network whole: its size, its two ways to an answer, its heads, its dropout."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import ModelError
from levyscreen.learn.losses import summed_loss
from levyscreen.model.dropout import Dropout
from levyscreen.model.encoder import join_heads, split_heads
from levyscreen.model.network import build
from levyscreen.operator import draw, read_beam
from levyscreen.types import Batch

SMALL = ModelConfig(variables=5, width=16, heads=2, blocks=2, feed_forward=32)
HEADS = ("point", "nll", "beta-nll")


def size(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def batch(lengths=(9, 4, 1), m=6, seed=0, pad=0, garbage=0.0):
    """Random readings and queries; `pad` more places of padding, holding `garbage`."""
    generator = torch.Generator().manual_seed(seed)
    r, n = len(lengths), max(lengths) + pad
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]

    def real(draw, fill):
        whole = torch.full((r, n), fill, dtype=draw.dtype)
        whole[:, : max(lengths)] = draw
        return torch.where(mask, whole, torch.tensor(fill, dtype=draw.dtype))

    time = real(torch.rand(r, max(lengths), generator=generator), min(garbage, 1.0))
    variable = real(torch.randint(0, 5, (r, max(lengths)), generator=generator), int(garbage > 0))
    value = real(torch.randn(r, max(lengths), generator=generator), garbage)
    query_mask = torch.arange(m).expand(r, m) < torch.tensor([m, m - 1, m])[:r, None]
    return Batch(
        time=time,
        variable=variable,
        value=value,
        mask=mask,
        query_time=torch.rand(r, m, generator=generator),
        query_variable=torch.randint(0, 5, (r, m), generator=generator),
        query_mask=query_mask,
        target=torch.randn(r, m, generator=generator) * query_mask,
        record=torch.arange(r),
    )


def rows(whole, chosen):
    return Batch(**{name: tensor[chosen] for name, tensor in vars(whole).items()})


def test_the_network_has_687365_parameters_with_36_variables():
    assert size(build(ModelConfig(variables=36), 0)) == 687_365


def test_the_two_decoders_differ_by_516_parameters_the_channel_map():
    levy, softmax = (build(ModelConfig(variables=36, decode=decode), 0) for decode in ("levy", "softmax"))
    assert size(levy) - size(softmax) == 516
    extra = dict(levy.named_parameters()).keys() - dict(softmax.named_parameters()).keys()
    assert extra == {"decode.channel.weight", "decode.channel.bias"}


@pytest.mark.parametrize("with_deviation", [True, False])
def test_predict_gives_the_mean_that_forward_gives(with_deviation):
    network = build(SMALL, 1).eval()
    asked = batch()
    with torch.no_grad():
        predicted = network.predict(asked, with_deviation)
        torch.testing.assert_close(predicted.mean, network(asked), rtol=1e-5, atol=1e-6)
    assert (predicted.signals.deviation is not None) == with_deviation


def test_predict_gives_the_same_signals_with_and_without_the_deviation():
    network = build(SMALL, 1).eval()
    with torch.no_grad():
        plain, full = (network.predict(batch(), flag).signals for flag in (False, True))
    for name in ("evidence", "disagreement", "sigma_hat"):
        torch.testing.assert_close(getattr(plain, name), getattr(full, name), rtol=1e-4, atol=1e-6)


def test_signals_are_head_means():
    network = build(SMALL, 1).eval()
    asked = batch()
    with torch.no_grad():
        query = network.decode.project_query(network.embed.query(asked.query_time, asked.query_variable))
        reading = read_beam(query, network.record_side(asked), SMALL.tau).reading
        signals = network.predict(asked).signals
    for name in ("evidence", "disagreement", "sigma_hat"):
        by_head = getattr(reading, name)  # (R, H, m)
        torch.testing.assert_close(getattr(signals, name), (by_head[:, 0] + by_head[:, 1]) / 2)


def test_the_deviation_leaves_no_gradient_in_the_parameters_and_runs_without_grad():
    network = build(SMALL, 1).eval()
    with torch.no_grad():
        spread = network.predict(batch()).signals.deviation
    assert spread.requires_grad is False
    assert all(p.grad is None for p in network.parameters())
    assert bool(torch.isfinite(spread).all())


def test_the_deviation_is_that_of_4000_drawn_predictions_in_a_whole_network():
    # 2 records of 6 queries, seed 0; 1.1 % standard error of each ratio, and the curvature of the head besides.
    network = build(SMALL, 2).eval().double()
    asked = batch((40, 40), seed=3)
    asked = replace(asked, **{k: v.double() for k, v in vars(asked).items() if v.is_floating_point()})
    with torch.no_grad():
        query = network.decode.project_query(network.embed.query(asked.query_time, asked.query_variable))
        field = network.record_side(asked)
        beam = read_beam(query, field, SMALL.tau)
        drawn = draw(beam, field, 4000, 0, asked.record, torch.arange(6).expand(2, 6))
        predictions = torch.stack([network.read_out(join_heads(one)) for one in drawn])
        predicted = network.predict(asked)
    ratio = (predictions - predicted.mean).square().mean(0).sqrt() / predicted.signals.deviation
    assert float(ratio.median()) == pytest.approx(1, abs=0.02)
    assert bool(((ratio - 1).abs() < 0.1).all())


@pytest.mark.parametrize("decode", ["levy", "softmax"])
@pytest.mark.parametrize(("pad", "garbage"), [(1, 0.0), (7, 3.0), (600, 1e4)])
def test_padding_does_not_move_the_mean(decode, pad, garbage):
    network = build(replace(SMALL, decode=decode), 1).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(batch(pad=pad, garbage=garbage)), network(batch()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decode", ["levy", "softmax"])
def test_a_record_is_answered_alike_alone_and_in_a_batch(decode):
    network = build(replace(SMALL, decode=decode), 1).eval()
    together = batch()
    with torch.no_grad():
        for row, length in enumerate((9, 4, 1)):
            alone = rows(together, slice(row, row + 1))
            context = {k: getattr(alone, k)[:, :length] for k in ("time", "variable", "value", "mask")}
            expected = network(together)[row : row + 1]
            torch.testing.assert_close(network(replace(alone, **context)), expected, rtol=1e-5, atol=1e-6)


def test_the_order_of_the_readings_does_not_move_the_mean():
    network = build(SMALL, 1).eval()
    asked = batch((9, 9))
    order = torch.tensor([3, 0, 8, 1, 7, 2, 6, 4, 5])
    shuffled = replace(asked, **{k: getattr(asked, k)[:, order] for k in ("time", "variable", "value", "mask")})
    with torch.no_grad():
        torch.testing.assert_close(network(shuffled), network(asked), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decode", ["levy", "softmax"])
@pytest.mark.parametrize("head", HEADS)
def test_every_head_gives_predictions_a_loss_and_gradients_to_every_parameter(decode, head):
    network = build(replace(SMALL, decode=decode, head=head), 1)
    asked = batch()
    assert network(asked).shape == asked.target.shape
    loss = summed_loss(network, asked, TrainingConfig())
    loss.backward()
    assert bool(torch.isfinite(loss))
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name


@pytest.mark.parametrize("head", HEADS)
def test_padded_queries_add_nothing_to_the_loss(head):
    network = build(replace(SMALL, head=head), 1).eval()
    asked = batch()
    wild = replace(asked, target=torch.where(asked.query_mask, asked.target, torch.tensor(1e6)))
    with torch.no_grad():
        assert torch.equal(*(summed_loss(network, b, TrainingConfig()) for b in (asked, wild)))


def test_the_losses_are_squared_error_and_gaussian_likelihood_target_by_target():
    asked = batch()
    for head in HEADS:
        network = build(replace(SMALL, head=head), 1).eval()
        with torch.no_grad():
            features = network.features(asked)
            loss = float(summed_loss(network, asked, TrainingConfig(beta=0.5)))
            total = 0.0
            for r, j in asked.query_mask.nonzero().tolist():
                y = asked.target[r, j]
                if head == "point":
                    total += float((network.head(features[r, j]) - y) ** 2)
                else:
                    mean, scale = network.head.mean_and_scale(features[r, j])
                    nll = -torch.distributions.Normal(mean, scale).log_prob(y) - 0.5 * math.log(2 * math.pi)
                    total += float(nll * (scale if head == "beta-nll" else 1))  # scale^(2 beta), beta = 0.5
        assert loss == pytest.approx(total, rel=1e-5)


def test_the_scale_of_a_likelihood_head_is_positive_however_low_its_raw_output():
    network = build(replace(SMALL, head="nll"), 1).eval()
    with torch.no_grad():
        network.head.layers[-1].bias.fill_(-1e4)
        _, scale = network.head.mean_and_scale(network.features(batch()))
    assert float(scale.min()) >= 1e-3


def test_a_softmax_model_says_that_it_has_no_signals():
    network = build(replace(SMALL, decode="softmax"), 0)
    with pytest.raises(ModelError, match="decodes by softmax, which emits no evidence"):
        network.predict(batch())


def test_splitting_and_joining_heads_are_inverse():
    x = torch.arange(2 * 3 * 8.0).view(2, 3, 8)
    assert split_heads(x, 4).shape == (2, 4, 3, 2)
    assert torch.equal(join_heads(split_heads(x, 4)), x)
    assert torch.equal(split_heads(x, 4)[1, 2, 0], x[1, 0, 4:6])


def test_build_is_decided_by_the_seed_and_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    first, again, other = (build(SMALL, seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["decode.query.weight"], other["decode.query.weight"])


# Dropout. A fraction over 1,000,003 draws has a standard error of at most 5e-4; tolerance 2e-3, seed 0.
ELEMENTS = 1_000_003  # no multiple of 4


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5, 0.9])
def test_dropout_drops_its_fraction_and_scales_what_it_keeps(probability):
    torch.manual_seed(0)
    out = Dropout(probability)(torch.ones(ELEMENTS))
    kept = out[out != 0]
    assert len(kept) / ELEMENTS == pytest.approx(1 - probability, abs=2e-3)
    assert float(kept.min()) == float(kept.max()) == pytest.approx(1 / (1 - probability), rel=2e-4)
    assert float(out.double().mean()) == pytest.approx(1, abs=2e-3 / (1 - probability))


def test_the_four_elements_that_share_a_random_word_are_dropped_alike_and_independently():
    torch.manual_seed(0)
    kept = (Dropout(0.1)(torch.ones(ELEMENTS - 3)) != 0).double().view(-1, 4)  # 250,000 words
    assert kept.mean(0).tolist() == pytest.approx([0.9] * 4, abs=3e-3)
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert float(correlation.abs().max()) < 0.01  # standard error 0.002


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3, 5), (0,), (7, 1)])
def test_dropout_takes_any_shape(shape):
    assert Dropout(0.3)(torch.ones(shape)).shape == shape


def test_dropout_is_the_identity_in_eval_mode_and_at_probability_0():
    x = torch.randn(100, generator=torch.Generator().manual_seed(0))
    assert Dropout(0.4).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_gradient_of_dropout_is_its_scaled_mask():
    torch.manual_seed(0)
    x = torch.full((1000,), 2.0, requires_grad=True)
    out = Dropout(0.3)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach() / 2)
    assert set(x.grad.unique().tolist()) == {0.0, float(out.detach().max()) / 2}


def test_dropout_follows_the_global_seed():
    x = torch.ones(1000)
    torch.manual_seed(5)
    first, second = Dropout(0.5)(x), Dropout(0.5)(x)
    torch.manual_seed(5)
    assert torch.equal(Dropout(0.5)(x), first)
    assert not torch.equal(first, second)


def test_two_passes_differ_in_training_mode_and_not_in_eval_mode():
    network, asked = build(SMALL, 0), batch()
    with torch.no_grad():
        assert not torch.equal(network(asked), network(asked))
        network.eval()
        assert torch.equal(network(asked), network(asked))
