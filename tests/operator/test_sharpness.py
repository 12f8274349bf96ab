"""T1 to T5 for a kernel of any sharpness, by the folded path, the beam, the draws and the lattice.

The slow twin has the kernel as it is defined; the code has queries of length g and another rate. Statistics: 4,000
draws a query, tolerances as in test_identities.py.
"""

import math

import numpy as np
import pytest
import torch

from levyscreen.model.encoder import join_heads, split_heads
from levyscreen.operator import (
    Lattice,
    LatticeReader,
    LevyAttention,
    RandomMeasure,
    Sharpness,
    Timestamps,
    deviation,
    draw,
    mean_path,
    output_gradient,
    phi,
    read,
    read_beam,
)
from tests.operator.cases import GRID, TAU, records
from tests.operator.unfolded import cosine_kernel, unfolded

HEADS, D, DRAWS = 2, 8, 4000
FACTORS = (1.0, 1.3)  # of the two heads: each has a sharpness of its own
each_g = pytest.mark.parametrize("g", [0.4, 1.0, 1.65, 4.0])


def sharpness_of(g):
    sharpness = Sharpness(HEADS, D, g).double()
    with torch.no_grad():
        sharpness.log.copy_((g * torch.tensor(FACTORS, dtype=torch.float64)).log()[:, None, None])
    return sharpness.requires_grad_(False)


def slow(case, g):
    """The unfolded operator of each head of one record."""
    grid = (GRID.time_cells, GRID.channel_cells)
    return [
        unfolded(
            case.query[0, h], case.key[0, h], case.value[0, h], case.time[0, 0], case.channel[0, h], grid, TAU, g * f
        )
        for h, f in enumerate(FACTORS)
    ]


def asked(case, g):
    sharpness = sharpness_of(g)
    return sharpness(case.query), case.field(), sharpness.rate(TAU)


@each_g
def test_every_form_gives_what_the_kernel_by_its_definition_gives(g):
    case = records(1, n=40)
    query, field, rate = asked(case, g)
    twin = slow(case, g)
    beam = read_beam(query, field, rate)
    for reading in (read(query, field, rate), beam.reading):
        for name in ("mean", "evidence", "disagreement", "sigma_hat"):
            expected = np.stack([getattr(head, name) for head in twin])
            np.testing.assert_allclose(getattr(reading, name)[0].numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean_path(query, field)[0].numpy(), np.stack([h.mean for h in twin]), rtol=1e-9)
    intensity = beam.reading.evidence[..., None] * beam.probability
    np.testing.assert_allclose(intensity[0].numpy(), np.stack([h.lam for h in twin]), rtol=1e-9, atol=1e-15)


@each_g
def test_in_float32_no_digit_is_lost(g):
    case = records(2, n=40)
    exact = read(*asked(case, g))
    sharpness = sharpness_of(g).float()
    found = read(sharpness(case.query.float()), case.to(torch.float32).field(), sharpness.rate(TAU))
    for name in ("mean", "evidence", "disagreement", "sigma_hat"):
        expected = getattr(exact, name)
        assert float((getattr(found, name).double() - expected).abs().max() / expected.abs().max()) < 3e-6


@each_g
def test_t1_the_intensities_sum_to_the_kernel_mass(g):
    case = records(3, n=50)
    beam = read_beam(*asked(case, g))
    for head, factor in enumerate(FACTORS):
        mass = TAU * cosine_kernel(case.query[0, head].numpy(), case.key[0, head].numpy(), g * factor).sum(1)
        np.testing.assert_allclose(beam.reading.evidence[0, head].numpy(), mass, rtol=1e-12)


@each_g
def test_the_kernels_maximum_does_not_move_with_the_sharpness(g):
    # A query that is its only key: the evidence is tau exp(sqrt(d)), whatever g.
    case = records(4, m=1, n=1)
    alone = type(case)(case.query, case.query * 3, case.value, case.time, case.channel)
    evidence = read(*asked(alone, g)).evidence
    torch.testing.assert_close(evidence, torch.full_like(evidence, TAU * math.exp(math.sqrt(D))))


@each_g
def test_t2_and_t3_the_draws_have_the_mean_of_the_mean_path_and_the_deviation_sigma_hat(g):
    case = records(5, m=8, n=50)
    query, field, rate = asked(case, g)
    beam = read_beam(query, field, rate)
    drawn = draw(beam, field, DRAWS, 5, torch.tensor([132539]), torch.arange(8)[None])
    mean, sigma = beam.reading.mean, beam.reading.sigma_hat
    # A root mean square over 4,000 draws in 8 dimensions: 1.1 % at most, of 16; few atoms have heavier tails.
    empirical = (drawn - mean).square().sum(-1).mean(0).sqrt()
    assert float((empirical / sigma).mean()) == pytest.approx(1, abs=0.02)
    assert float((empirical / sigma - 1).abs().max()) < 0.1
    standard_error = sigma / math.sqrt(DRAWS)
    assert float(((drawn.mean(0) - mean).norm(dim=-1) / standard_error).max()) < 4


@each_g
def test_t4_equal_values_leave_no_deviation_while_the_reciprocal_evidence_stays(g):
    case = records(6, n=50)
    equal = type(case)(case.query, case.key, case.value[:, :, :1].expand_as(case.value), case.time, case.channel)
    agreeing, conflicting = read(*asked(equal, g)), read(*asked(case, g))
    assert float(agreeing.sigma_hat.max() / case.value.norm(dim=-1).max()) < 1e-6
    assert torch.equal(agreeing.evidence, conflicting.evidence)
    assert float((1 / agreeing.evidence).min()) > 0


@each_g
def test_t5_the_deviation_is_that_of_drawn_predictions_for_a_linear_head(g):
    case = records(7, m=16, n=50)
    query, field, rate = asked(case, g)
    beam = read_beam(query, field, rate)
    weight = torch.linspace(-1, 1, HEADS * D, dtype=torch.float64)
    mean, gradient = output_gradient(lambda a: a @ weight, join_heads(beam.reading.mean))
    spread = deviation(beam, field, split_heads(gradient, HEADS))
    drawn = draw(beam, field, DRAWS, 7, torch.tensor([132539]), torch.arange(16)[None])
    predictions = drawn.transpose(2, 3).flatten(3) @ weight
    ratio = ((predictions - mean).square().mean(0).sqrt() / spread)[0]
    assert float(ratio.median()) == pytest.approx(1, abs=0.02)
    assert float((ratio - 1).abs().max()) < 0.12


@each_g
@pytest.mark.parametrize("with_beam", [False, True], ids=["mean path", "beam"])
def test_a_lattice_gives_what_its_queries_give_one_by_one(g, with_beam):
    case = records(8, n=30)
    generator = torch.Generator().manual_seed(0)
    variable, time = (torch.randn(HEADS, count, D, generator=generator, dtype=torch.float64) for count in (3, 5))
    query = torch.nn.functional.normalize(variable[:, :, None] + time[:, None], dim=-1).flatten(1, 2)[None]
    sharpness, field = sharpness_of(g), case.field()
    stamps = Timestamps.of(case.time[0, 0], field, GRID) if with_beam else None
    reader = LatticeReader(Lattice.of(variable, time, sharpness.g), field, sharpness.rate(TAU), stamps)
    found, expected = reader.read(slice(None)), read(sharpness(query), field, sharpness.rate(TAU))
    for name in ("evidence", "disagreement", "sigma_hat"):
        each = getattr(expected, name)[0].unflatten(1, (3, 5)).transpose(0, 1)  # (V, H, T)
        torch.testing.assert_close(getattr(found, name), each, rtol=1e-9, atol=1e-12)
    if with_beam:
        gradient = torch.randn(3, HEADS, D, 5, generator=generator, dtype=torch.float64)
        by_query = gradient.permute(1, 0, 3, 2).flatten(1, 2)[None]
        each = deviation(read_beam(sharpness(query), field, sharpness.rate(TAU)), field, by_query)
        torch.testing.assert_close(reader.deviation(found, gradient), each[0].view(3, 5), rtol=1e-9, atol=1e-12)


@each_g
def test_draws_on_a_lattice_have_the_deviation_sigma_hat(g):
    case = records(9, n=30)
    generator = torch.Generator().manual_seed(1)
    variable, time = (torch.randn(HEADS, count, D, generator=generator, dtype=torch.float64) for count in (2, 4))
    sharpness, field = sharpness_of(g), case.field()
    stamps = Timestamps.of(case.time[0, 0], field, GRID)
    reader = LatticeReader(Lattice.of(variable, time, sharpness.g), field, sharpness.rate(TAU), stamps)
    reading = reader.read(slice(None))
    highest = sharpness.rate(TAU) * reading.intensity.amax((0, 3))
    samples = torch.stack(list(reader.draw(reading, RandomMeasure(highest, DRAWS, 0, 1))))
    samples = samples.unflatten(-1, (4, DRAWS))[:, :, :-2]  # (V, H, d, T, K)
    spread = (samples - reading.moments[:, :, :-2].unsqueeze(-1)).square().sum(2).mean(-1).sqrt()
    torch.testing.assert_close(spread, reading.sigma_hat, rtol=0.12, atol=0)  # few atoms at g = 4: heavy tails
    assert float((spread / reading.sigma_hat).mean()) == pytest.approx(1, abs=0.03)


@each_g
def test_the_layer_learns_its_sharpness_and_is_the_operator_at_it(g):
    torch.manual_seed(0)
    layer = LevyAttention(16, HEADS, dtype=torch.float64, sharpness=g)
    query, key, value = (torch.randn(2, count, 16, dtype=torch.float64) for count in (3, 9, 9))
    output, signals = layer(query, key, value, torch.rand(2, 9, dtype=torch.float64))
    output.square().sum().backward()
    assert layer.sharpness.log.grad.abs().min() > 0
    unsharp = LevyAttention(16, HEADS, dtype=torch.float64)
    unsharp.load_state_dict({k: v for k, v in layer.state_dict().items() if k != "sharpness.log"})
    plain = unsharp(query, key, value, torch.rand(2, 9, dtype=torch.float64))[1]
    assert (g == 1.0) == bool(torch.allclose(signals.evidence, plain.evidence))


def test_phi_and_the_deviation_of_a_sharp_head_stay_finite_in_float32():
    # Logits reach -sqrt(d) (2 g - 1), -164 at g = 15: such evidence is 0 in float32, and nothing else is lost.
    case = records(10, n=20).to(torch.float32)
    sharpness = Sharpness(HEADS, D, 15.0).requires_grad_(False)
    reading = read(sharpness(case.query), case.field(), sharpness.rate(TAU))
    for name in ("mean", "evidence", "disagreement", "sigma_hat"):
        assert torch.isfinite(getattr(reading, name)).all()
    assert torch.isfinite(phi(reading.evidence)).all()
