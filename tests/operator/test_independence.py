"""An answer depends on its own record and query alone; the fast forms are the slow one; gradients are right.

Differences are taken over the largest entry: 1e-6 in float32, 1e-13 in float64.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levyscreen.operator import Grid, build_field, deviation, mean_path, read, read_beam, unit
from levyscreen.operator.kernel import weighted_mean_and_mass
from tests.operator.cases import GRID, TAU, Records, records
from tests.operator.unfolded import unfolded

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
NAMES = ("mean", "evidence", "disagreement", "sigma_hat")


@torch.no_grad()
def answers(query, field):
    """Everything that is read of a field, by name: from `read`, `read_beam`, `mean_path` and `deviation`."""
    fast, beam = read(query, field, TAU), read_beam(query, field, TAU)
    found = {f"read {name}": getattr(fast, name) for name in NAMES}
    found |= {f"read_beam {name}": getattr(beam.reading, name) for name in NAMES}
    gradient = torch.linspace(-1, 1, query.shape[-1], dtype=query.dtype).expand_as(beam.reading.mean)
    return found | {
        "probability": beam.probability,
        "mean_path": mean_path(query, field),
        "deviation": deviation(beam, field, gradient),
    }


def check(computed, expected, tolerance):
    assert computed.keys() == expected.keys()
    for name, truth in expected.items():
        difference = float((computed[name] - truth).abs().max() / truth.abs().max())
        assert difference < tolerance, f"{name} differs by {difference:.1e}"


def padded(case, n, garbage):
    """The records with readings of any value appended up to n, and the mask (R, 1, n) that hides them."""
    r, heads, length, d = case.key.shape
    tail = torch.full((r, heads, n - length, d), garbage, dtype=case.key.dtype)
    position = torch.zeros(r, heads, n - length, dtype=case.key.dtype)
    mask = (torch.arange(n) < length).expand(r, 1, n)
    return Records(
        case.query,
        torch.cat([case.key, tail], 2),
        torch.cat([case.value, tail], 2),
        torch.cat([case.time, position[:, :1]], 2),
        torch.cat([case.channel, position], 2),
    ), mask


@each_dtype
@pytest.mark.parametrize("garbage", [0.0, 1.0, -1e4])
@pytest.mark.parametrize("n", [51, 1300])
def test_padding_changes_nothing_whatever_it_holds(dtype, n, garbage):
    case = records(0, r=2, dtype=dtype)
    filled, mask = padded(case, n, garbage)
    check(answers(filled.query, filled.field(mask=mask)), answers(case.query, case.field()), TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("n", [1, 2])
def test_padding_changes_nothing_for_the_shortest_records(dtype, n):
    case = records(1, n=n, dtype=dtype)
    filled, mask = padded(case, 700, 5.0)
    got, truth = answers(filled.query, filled.field(mask=mask)), answers(case.query, case.field())
    for name in ("read mean", "read evidence", "read_beam mean", "read_beam evidence", "mean_path"):
        check({name: got[name]}, {name: truth[name]}, TOLERANCE[dtype])
    square = float(case.value.square().sum(-1).max())
    for name in ("read disagreement", "read_beam disagreement"):  # 0 for one reading, so taken over |v|^2
        assert float((got[name] - truth[name]).abs().max()) < TOLERANCE[dtype] * square


@each_dtype
def test_a_mask_of_true_is_no_mask(dtype):
    case = records(2, r=2, dtype=dtype)
    mask = torch.ones(2, 1, 50, dtype=torch.bool)
    check(answers(case.query, case.field(mask=mask)), answers(case.query, case.field()), TOLERANCE[dtype])


@each_dtype
def test_a_record_answers_alike_alone_and_among_longer_ones(dtype):
    lengths = (3, 90, 41)
    case = records(3, r=3, n=90, dtype=dtype)
    mask = (torch.arange(90) < torch.tensor(lengths)[:, None])[:, None]
    together = answers(case.query, case.field(mask=mask))
    for row, length in enumerate(lengths):
        alone = case.row(row).readings(torch.arange(length))
        check({k: v[row : row + 1] for k, v in together.items()}, answers(alone.query, alone.field()), TOLERANCE[dtype])


@each_dtype
@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_chunks_of_the_queries_give_what_all_at_once_give(dtype, chunk):
    case = records(4, r=2, m=37, dtype=dtype)
    field = case.field()
    chunks = [answers(part, field) for part in case.query.split(chunk, dim=2)]
    # Queries are axis 2 of (R, H, m, ...) and axis 1 of the deviation (R, m).
    joined = {name: torch.cat([c[name] for c in chunks], 1 if name == "deviation" else 2) for name in chunks[0]}
    check(joined, answers(case.query, field), TOLERANCE[dtype])


@each_dtype
def test_the_order_of_a_records_readings_changes_nothing(dtype):
    case = records(5, r=2, n=120, dtype=dtype)
    order = torch.from_numpy(np.random.default_rng(5).permutation(120))
    shuffled = case.readings(order)
    check(answers(shuffled.query, shuffled.field()), answers(case.query, case.field()), TOLERANCE[dtype])


@each_dtype
def test_one_set_of_queries_serves_all_records(dtype):
    case = records(6, r=3, dtype=dtype)
    shared = case.query[:1]
    with torch.enable_grad():  # the plain form
        apart = read(shared.expand_as(case.query), case.field(), TAU)
    with torch.no_grad():
        broadcast = read(shared, case.field(), TAU), read_beam(shared, case.field(), TAU).reading
    for reading in broadcast:
        check({n: getattr(reading, n) for n in NAMES}, {n: getattr(apart, n) for n in NAMES}, TOLERANCE[dtype])


def test_a_zero_vector_stays_zero_and_has_a_gradient_like_any_other():
    x = torch.zeros(2, 8, requires_grad=True)
    out = unit(x)
    out.sum().backward()
    assert not out.any()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_no_query_at_all_is_answered_by_nothing():
    case = records(6, r=3)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            reading = read(case.query[:, :, :0], case.field(), TAU)
        assert reading.mean.shape[2] == reading.evidence.shape[2] == 0


@each_dtype
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize(("width", "n"), [(1, 5), (8, 40), (9, 1300)])
def test_the_fused_attention_is_the_plain_one(dtype, with_mask, width, n):
    case = records(7, r=2, n=n, dtype=dtype)
    mask = (torch.arange(n) < n - n // 3).expand(2, 1, n) if with_mask else None
    value = torch.cat([case.value, case.value], dim=-1)[..., :width]
    with torch.enable_grad():  # the plain form
        plain = weighted_mean_and_mass(case.query, unit(case.key), value, mask)
    with torch.no_grad():
        fused = weighted_mean_and_mass(case.query, unit(case.key), value, mask)
    # In float32 each of the two is off by 2e-6 itself where it sums 1,300 values that are not centred.
    tolerance = 5 * TOLERANCE[dtype]
    for got, truth in zip(fused, plain, strict=True):
        assert got.shape == truth.shape
        assert float((got - truth).abs().max() / truth.abs().max()) < tolerance


coordinate = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0, 1))


@st.composite
def any_record(draw):
    """Positions as hypothesis likes them; features Gaussian at any scale and offset, from a seed."""
    n, m, d = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    grid = draw(st.sampled_from([(16, 8), (1, 1), (5, 1), (1, 4), (6, 3)]))
    time, channel = (np.array(draw(st.lists(coordinate, min_size=n, max_size=n))) for _ in range(2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread, offset = draw(st.sampled_from([1e-3, 1.0, 1e3])), draw(st.sampled_from([0.0, 1.0, -50.0]))
    q, k, v = rng.standard_normal((m, d)), rng.standard_normal((n, d)), rng.standard_normal((n, d)) * spread + offset
    return q, k, v, time, channel, grid, draw(st.sampled_from([0.5, 1e-3, 3.0]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(any_record())
def test_the_folded_form_is_the_unfolded_one_on_any_record(asked):
    q, k, v, time, channel, grid, tau = asked
    slow = unfolded(*asked)
    q, k, v, time, channel = (torch.from_numpy(x)[None, None] for x in (q, k, v, time, channel))
    field, query = build_field(k, v, time, channel, Grid(*grid)), unit(q)
    square = max(float((v**2).sum(-1).max()), 1e-300)
    with torch.no_grad():
        beam = read_beam(query, field, tau)
        both = (read(query, field, tau), beam.reading)
    np.testing.assert_allclose((field.value + field.centre)[0, 0], slow.field, rtol=0, atol=1e-12 * math.sqrt(square))
    np.testing.assert_allclose(beam.probability[0, 0], slow.p, rtol=1e-12, atol=1e-15)
    for reading in both:
        mean, evidence, disagreement, sigma_hat = (getattr(reading, name)[0, 0].numpy() for name in NAMES)
        np.testing.assert_allclose(mean, slow.mean, rtol=0, atol=1e-12 * math.sqrt(square))
        np.testing.assert_allclose(evidence, slow.evidence, rtol=1e-12)
        # The twin's E|V|^2 - |E V|^2 is good to |V|^2 times the machine's precision.
        np.testing.assert_allclose(disagreement, slow.disagreement, rtol=1e-10, atol=1e-13 * square)
        np.testing.assert_allclose(sigma_hat**2, slow.sigma_hat**2, rtol=1e-10, atol=1e-13 * square)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(any_record())
def test_in_float32_every_answer_is_finite_and_disagreement_never_negative(asked):
    *parts, grid, tau = asked
    q, k, v, time, channel = (torch.from_numpy(x).float()[None, None] for x in parts)
    with torch.no_grad():
        reading = read(unit(q), build_field(k, v, time, channel, Grid(*grid)), tau)
    for name in NAMES:
        assert bool(torch.isfinite(getattr(reading, name)).all())
    assert bool((reading.disagreement >= 0).all())


def test_a_zero_vector_has_no_direction_and_stays_zero():
    assert unit(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist() == [[0.0, 0.0], pytest.approx([0.6, 0.8])]


@pytest.mark.parametrize("with_mask", [False, True])
def test_the_mean_path_has_exact_gradients_in_query_key_value_and_channel_map(with_mask):
    case = records(12, r=1, heads=2, m=3, n=6, d=4)
    mask = (torch.arange(6) < 5).expand(1, 1, 6) if with_mask else None
    logits = torch.logit(case.channel)

    def layer(query, key, value, channel_logits):
        field = build_field(key, value, case.time, torch.sigmoid(channel_logits), GRID, mask)
        return mean_path(unit(query), field)

    inputs = [x.clone().requires_grad_() for x in (case.query * 2, case.key, case.value, logits)]
    assert torch.autograd.gradcheck(layer, inputs)


def test_the_signals_have_exact_gradients_too():
    case = records(13, r=1, heads=2, m=3, n=6, d=4)

    def signals(query, key, value):
        reading = read(unit(query), build_field(key, value, case.time, case.channel, GRID), TAU)
        return reading.evidence, reading.disagreement, reading.sigma_hat

    inputs = [x.clone().requires_grad_() for x in (case.query * 2, case.key, case.value)]
    assert torch.autograd.gradcheck(signals, inputs)


def test_padding_receives_no_gradient():
    case = records(14, r=1, n=8)
    filled, mask = padded(case, 12, 3.0)
    key, value = (x.clone().requires_grad_() for x in (filled.key, filled.value))
    field = build_field(key, value, filled.time, filled.channel, GRID, mask)
    mean_path(filled.query, field).square().sum().backward()
    for tensor in (key, value):
        assert bool((tensor.grad[:, :, 8:] == 0).all())
        assert bool((tensor.grad[:, :, :8] != 0).any())
