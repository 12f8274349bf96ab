"""The Levy layer's ablations (sec:exp_abl): an index space of time alone, training on the sampled path, no field."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.model.dropout import drawing_from
from levyscreen.model.network import build
from levyscreen.operator import LatticeReader, Timestamps
from tests.model.test_network import SMALL, batch

TIME_ONLY = replace(SMALL, channel_cells=1)


# Time alone ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("time_cells", [8, 32, 64])
def test_with_one_channel_cell_the_field_is_the_one_over_time_alone(time_cells):
    network = build(replace(TIME_ONLY, time_cells=time_cells), 1).eval().double()
    asked = batch((9, 4))
    tokens = torch.randn(2, 9, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = network.decode.field(tokens, asked.time.double(), asked.mask)
    values = network.decode.value(tokens).unflatten(-1, (2, 8))  # (R, n, H, d)
    centre = (torch.arange(time_cells, dtype=torch.float64) + 0.5) / time_cells
    for row, n in enumerate((9, 4)):
        squared = ((centre - asked.time[row, :n, None].double()) * time_cells) ** 2  # (n, L)
        weights = torch.softmax(-squared / 2, dim=0)  # over the readings: eq:field
        expected = torch.einsum("nl,nhd->hld", weights, values[row, :n])
        torch.testing.assert_close((field.value + field.centre)[row], expected)
        shares = torch.softmax(-squared / 2, dim=1)  # over the cells: eq:dmoll
        torch.testing.assert_close(field.mass[row, :, :n], shares.expand(2, -1, -1))


def test_with_one_channel_cell_there_is_no_channel_map_to_learn():
    names = dict(build(TIME_ONLY, 1).named_parameters())
    assert not [name for name in names if "channel" in name]
    assert names.keys() == dict(build(replace(SMALL, decode="softmax"), 1).named_parameters()).keys()


def test_with_one_channel_cell_a_record_whose_readings_all_come_early_has_a_finite_answer_and_gradient():
    network = build(replace(TIME_ONLY, time_cells=64), 1)
    asked = batch()
    answer = network(replace(asked, time=asked.time * 0.01))
    answer.sum().backward()
    assert bool(torch.isfinite(answer).all())
    assert all(bool(torch.isfinite(p.grad).all()) for p in network.parameters() if p.grad is not None)


@torch.no_grad()
def test_with_one_channel_cell_a_lattice_is_answered_as_its_queries_are():
    network = build(TIME_ONLY, 4).eval().double()
    context = batch((12,), seed=6)
    context = replace(context, time=(context.time.double() * 4).round() / 4, value=context.value.double())
    variable, time = torch.tensor([4, 0, 2]), torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    field = network.record_side(context)
    reader = LatticeReader(
        network.lattice(variable, time), field, 0.5, Timestamps.of(context.time[0], field, network.decode.grid)
    )
    got = network.ask_lattice(reader, network.fused_head().around(field.centre[0, :, 0]), slice(0, 3))
    pairs = replace(context, query_variable=variable.repeat_interleave(3)[None], query_time=time.repeat(3)[None])
    expected = network.predict(pairs)
    torch.testing.assert_close(got.mean.flatten(), expected.mean[0])
    for name, truth in vars(expected.signals).items():
        torch.testing.assert_close(getattr(got.signals, name).flatten(), truth[0], rtol=1e-9, atol=1e-12)


# The sampled path ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sampling():
    """A network on its sampled path, in training mode and without dropout."""
    network = build(replace(SMALL, dropout=0.0), 1).double()
    network.decode.sampled = True
    return network


@pytest.fixture
def asked():
    whole = batch((9, 4))
    return replace(whole, **{k: v.double() for k, v in vars(whole).items() if v.is_floating_point()})


def test_in_training_the_answer_is_a_sample_and_its_gradient_that_of_the_mean_path(sampling, asked):
    towards = torch.randn(2, 6, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    below = [p for name, p in sampling.named_parameters() if not name.startswith(("head.", "decode.out."))]

    def answer_and_gradient():
        features = sampling.features(asked)
        return features.detach(), torch.autograd.grad((features * towards).sum(), below)

    torch.manual_seed(0)
    sample, through = answer_and_gradient()
    sampling.decode.sampled = False
    mean, own = answer_and_gradient()
    assert float((sample - mean).abs().min()) > 0
    for one, other in zip(through, own, strict=True):
        torch.testing.assert_close(one, other)


def test_the_samples_follow_the_global_seed_and_differ_from_pass_to_pass(sampling, asked):
    torch.manual_seed(5)
    first, second = sampling(asked), sampling(asked)
    torch.manual_seed(5)
    assert torch.equal(sampling(asked), first)
    assert not torch.equal(first, second)


@torch.no_grad()
def test_outside_training_the_path_is_the_mean_and_dropout_does_not_change_that(sampling, asked):
    sampling.eval()
    torch.testing.assert_close(sampling(asked), sampling.predict(asked).mean)
    with drawing_from(None):  # of probability 0
        assert torch.equal(sampling(asked), sampling(asked))


# No field -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_cosine_control_weighs_readings_by_the_kernel_alone():
    network = build(replace(SMALL, decode="cosine"), 1).eval().double()
    asked = batch((9, 4))
    generator = torch.Generator().manual_seed(0)
    tokens, query = (torch.randn(2, n, 16, dtype=torch.float64, generator=generator) for n in (9, 3))
    got = network.decode(query, tokens, asked.time, asked.mask)
    for row, n in enumerate((9, 4)):
        keys = network.decode.key(tokens[row, :n]).unflatten(-1, (2, 8)).numpy()  # (n, H, d)
        values = network.decode.value(tokens[row, :n]).unflatten(-1, (2, 8)).numpy()
        for place in range(3):
            question = network.decode.query(query[row, place]).unflatten(-1, (2, 8)).numpy()
            for head in range(2):
                q, k = question[head], keys[:, head]
                cosine = [q @ key / math.sqrt((q @ q) * (key @ key)) for key in k]
                kappa = [math.exp(math.sqrt(8) * c) for c in cosine]  # eq:kernel
                expected = sum(w * v for w, v in zip(kappa, values[:, head], strict=True)) / sum(kappa)
                np.testing.assert_allclose(got[row, place, 8 * head : 8 * head + 8].numpy(), expected, rtol=1e-10)
