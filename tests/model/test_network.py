"""The network whole: its size, its two ways to an answer, its heads, its dropout."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import nn

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import ModelError
from levyscreen.estimators.dropout import dropout_spread
from levyscreen.learn.losses import summed_loss
from levyscreen.model.dropout import Dropout, drawing_from
from levyscreen.model.encoder import join_heads, split_heads
from levyscreen.model.network import build
from levyscreen.operator import LatticeReader, Timestamps, draw, read_beam
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


@pytest.mark.parametrize("with_deviation", [True, False])
def test_queries_are_asked_a_few_at_a_time_where_all_at_once_would_take_too_much_memory(with_deviation, monkeypatch):
    model, asked = build(SMALL, 1).eval(), batch()
    with torch.no_grad():
        whole = model.predict(asked, with_deviation)
        monkeypatch.setattr("levyscreen.model.network.INTENSITIES", 1)
        parts = model.predict(asked, with_deviation)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-5, atol=1e-6)
    for name in ("evidence", "disagreement", "sigma_hat", "deviation")[: 3 + with_deviation]:
        torch.testing.assert_close(getattr(parts.signals, name), getattr(whole.signals, name), rtol=1e-5, atol=1e-6)
    assert (parts.signals.deviation is None) != with_deviation


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
        predictions = torch.stack([network.read_out(join_heads(one), asked) for one in drawn])
        predicted = network.predict(asked)
    ratio = (predictions - predicted.mean).square().mean(0).sqrt() / predicted.signals.deviation
    assert float(ratio.median()) == pytest.approx(1, abs=0.02)
    assert bool(((ratio - 1).abs() < 0.1).all())


@pytest.mark.parametrize("decode", ["levy", "softmax", "cosine"])
@pytest.mark.parametrize(("pad", "garbage"), [(1, 0.0), (7, 3.0), (600, 1e4)])
def test_padding_does_not_move_the_mean(decode, pad, garbage):
    network = build(replace(SMALL, decode=decode), 1).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(batch(pad=pad, garbage=garbage)), network(batch()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decode", ["levy", "softmax", "cosine"])
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


@pytest.mark.parametrize("decode", ["levy", "softmax", "cosine"])
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
    with mock.patch.object(torch.cuda, "manual_seed_all") as of_gpus:
        first, again, other = (build(SMALL, seed).state_dict() for seed in (3, 3, 4))
    assert not of_gpus.called
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["decode.query.weight"], other["decode.query.weight"])


def encoded(network, tokens):
    """The encoder written out for one record without padding, (n, width), a head and a reading at a time."""
    x, heads = tokens, SMALL.heads
    for block in network.encode.blocks:
        query, key, value = block.qkv(block.attention_norm(x)).split(SMALL.width, dim=-1)
        attended = torch.zeros_like(x)
        for head in range(heads):
            at = slice(head * SMALL.width // heads, (head + 1) * SMALL.width // heads)
            for i in range(len(x)):
                weight = torch.exp(key[:, at] @ query[i, at] / math.sqrt(SMALL.width // heads))
                attended[i, at] = (weight[:, None] * value[:, at]).sum(0) / weight.sum()
        x = x + block.dropout(block.out(attended))
        norm, widen, _, drop, narrow = block.feed_forward
        hidden = widen(norm(x))
        x = x + block.dropout(narrow(drop(hidden * torch.distributions.Normal(0, 1).cdf(hidden))))
    return network.encode.norm(x)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("lengths", [(9, 4, 1), (9, 9)], ids=["padded", "not padded"])
def test_the_encoder_is_the_one_written_out_whole_or_begun_and_finished(blocks, lengths):
    network = build(replace(SMALL, blocks=blocks), 1).eval().double()
    asked = batch(lengths)
    with torch.no_grad():
        embedded = network.embed.token(asked.time.double(), asked.variable, asked.value.double())
        whole = network.encode(embedded, asked.mask)
        begun = network.encode.begin(embedded, asked.mask)
        finished = network.encode.finish(embedded, begun, asked.mask)
        for row, n in enumerate(lengths):
            expected = encoded(network, embedded[row, :n])
            torch.testing.assert_close(whole[row, :n], expected)
            torch.testing.assert_close(finished[row, :n], expected)


@torch.no_grad()
@pytest.mark.parametrize("blocks", [1, 3])
def test_in_training_the_encoder_drops_from_each_branch_once_whole_or_begun_and_finished(blocks):
    network = build(replace(SMALL, blocks=blocks), 1).double()
    asked = batch((9,))
    embedded = network.embed.token(asked.time.double(), asked.variable, asked.value.double())

    def dropping(run):
        with drawing_from(seeded(3)):
            return run()

    expected = dropping(lambda: encoded(network, embedded[0]))
    whole = dropping(lambda: network.encode(embedded, asked.mask))
    begun = network.encode.begin(embedded, asked.mask)
    finished = dropping(lambda: network.encode.finish(embedded, begun, asked.mask))
    torch.testing.assert_close(whole[0], expected)
    torch.testing.assert_close(finished[0], expected)


@torch.no_grad()
@pytest.mark.parametrize("with_deviation", [False, True])
@pytest.mark.parametrize("head", ["point", "nll"])
def test_a_lattice_is_answered_as_each_of_its_queries_asked_by_itself(head, with_deviation):
    network = build(replace(SMALL, head=head), 4).eval().double()
    context = batch((12, 5), seed=6)
    floats = {k: v.double() for k, v in vars(context).items() if v.is_floating_point()}
    floats["time"] = (floats["time"] * 4).round() / 4  # few times, so that they are grouped
    context = replace(context, **floats)
    variable, time = torch.tensor([4, 0, 2]), torch.tensor([0.0, 0.3, 0.5, 0.9], dtype=torch.float64)
    field, lattice = network.record_side(context), network.lattice(variable, time)
    for row, n in enumerate((12, 5)):
        own, at = field.record(row, n), context.time[row, :n]
        stamps = Timestamps.of(at, own, network.decode.grid) if with_deviation else None
        reader = LatticeReader(lattice, own, SMALL.tau, stamps)
        merged = network.fused_head().around(own.centre[0, :, 0])
        got = [network.ask_lattice(reader, merged, part) for part in (slice(0, 2), slice(2, 3))]
        for v, t in ((v, t) for v in range(3) for t in range(4)):
            one = rows(context, slice(row, row + 1))
            one = replace(one, **{k: getattr(one, k)[:, :n] for k in ("time", "variable", "value", "mask")})
            one = replace(one, query_time=time[t].view(1, 1), query_variable=variable[v].view(1, 1))
            expected = network.predict(one, with_deviation)
            answer = got[v // 2]
            torch.testing.assert_close(answer.mean[v % 2, t], expected.mean[0, 0])
            for name in ("evidence", "disagreement", "sigma_hat", *(["deviation"] if with_deviation else [])):
                found, truth = getattr(answer.signals, name)[v % 2, t], getattr(expected.signals, name)[0, 0]
                torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-12)


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


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_generator_of_its_own_drops_as_the_global_one_of_that_seed_and_leaves_it_alone():
    x = torch.ones(1000)
    torch.manual_seed(8)
    expected = [Dropout(0.5)(x) for _ in range(2)]
    torch.manual_seed(9)
    state = torch.get_rng_state()
    with drawing_from(seeded(8)):
        got = [Dropout(0.5)(x) for _ in range(2)]
    assert all(map(torch.equal, got, expected))
    assert torch.equal(torch.get_rng_state(), state)


def test_after_a_generator_the_one_before_it_is_drawn_from_even_if_something_failed():
    x = torch.ones(1000)

    def failing():
        with drawing_from(seeded(2)):
            Dropout(0.5)(x)
            raise RuntimeError("interrupted")

    with drawing_from(seeded(1)):
        first, second = Dropout(0.5)(x), Dropout(0.5)(x)
    with drawing_from(seeded(1)):
        assert torch.equal(Dropout(0.5)(x), first)
        with pytest.raises(RuntimeError, match="interrupted"):
            failing()
        assert torch.equal(Dropout(0.5)(x), second)
    state = torch.get_rng_state()
    Dropout(0.5)(x)
    assert not torch.equal(torch.get_rng_state(), state)  # the global one again


def test_threads_that_drop_at_the_same_time_draw_each_from_its_own_generator():
    x, together = torch.ones(1000), threading.Barrier(3, timeout=10)

    def run(seed):
        drawn = []
        with drawing_from(seeded(seed)):
            for _ in range(20):
                together.wait()  # all three are between two draws
                drawn.append(Dropout(0.5)(x))
        return torch.stack(drawn)

    def alone(seed):
        with drawing_from(seeded(seed)):
            return torch.stack([Dropout(0.5)(x) for _ in range(20)])

    with ThreadPoolExecutor(3) as pool:
        got = list(pool.map(run, (1, 2, 3)))
    assert all(torch.equal(one, alone(seed)) for one, seed in zip(got, (1, 2, 3), strict=True))


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_dropout_spread_of_a_generator_is_the_standard_deviation_of_whole_passes_drawn_from_it(blocks):
    network, asked = build(replace(SMALL, blocks=blocks), 0).eval(), batch()
    with torch.no_grad(), drawing_from(seeded(4)):
        passes = torch.stack([network(asked) for _ in range(20)])
    got = dropout_spread(network, asked, 20, seeded(4))
    torch.testing.assert_close(got, passes.std(0), rtol=1e-4, atol=1e-6)
