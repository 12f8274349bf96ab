"""The operator and phi against values from outside the project (float64; phi by 60-digit arithmetic), tests/golden.

Differences are taken over the largest entry of the array. Where the true disagreement is 0 they are taken over |v|^2.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from levyscreen.operator import Grid, build_field, mean_path, phi, read, read_beam, unit
from tests.operator.unfolded import phi_by_definition, phi_by_integral, unfolded

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.stem.removeprefix("operator_") for path in GOLDEN.glob("operator_*.npz"))
NO_DISAGREEMENT = ("same_values", "single_key")
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
# In cells far from every key a quotient of two tiny sums decides; they receive next to no intensity.
FIELD_TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-12}

each_case = pytest.mark.parametrize("case", CASES)
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
each_reader = pytest.mark.parametrize(
    "reader", [read, lambda *asked: read_beam(*asked).reading], ids=["read", "read_beam"]
)


def load(case, dtype):
    """Golden arrays, and the field, unit queries and tau made from them as one record with one head."""
    with np.load(GOLDEN / f"operator_{case}.npz") as file:
        golden = {name: file[name] for name in file}
    q, k, v, time, channel = (
        torch.from_numpy(golden[x]).to(dtype)[None, None] for x in ("q", "k", "v", "time", "channel")
    )
    return golden, build_field(k, v, time, channel, Grid(*map(int, golden["grid"]))), unit(q), float(golden["tau"])


def difference(computed, truth, scale=None):
    return np.abs(computed[0, 0].double().numpy() - truth).max() / (np.abs(truth).max() if scale is None else scale)


def test_all_nine_cases_are_there():
    assert len(CASES) == 9
    assert set(NO_DISAGREEMENT) < set(CASES)


@torch.no_grad()
@each_dtype
@each_case
@each_reader
def test_mean_and_signals_are_the_golden_ones(case, dtype, reader):
    golden, field, query, tau = load(case, dtype)
    reading = reader(query, field, tau)
    assert difference(reading.mean, golden["mean"]) < TOLERANCE[dtype]
    assert difference(reading.evidence, golden["evidence"]) < TOLERANCE[dtype]
    if case in NO_DISAGREEMENT:
        largest = (golden["v"] ** 2).sum(axis=1).max()
        assert np.abs(golden["disagreement"]).max() < 1e-20
        assert difference(reading.disagreement, 0 * golden["disagreement"], largest) < 1e-12
        assert difference(reading.sigma_hat, 0 * golden["sigma_hat"], np.sqrt(largest)) < 1e-6
    else:
        assert difference(reading.disagreement, golden["disagreement"]) < TOLERANCE[dtype]
        assert difference(reading.sigma_hat, golden["sigma_hat"]) < TOLERANCE[dtype]


@torch.no_grad()
@each_dtype
@each_case
def test_field_intensities_and_mean_path_are_the_golden_ones(case, dtype):
    golden, field, query, tau = load(case, dtype)
    beam = read_beam(query, field, tau)
    assert difference(field.value + field.centre, golden["field"]) < FIELD_TOLERANCE[dtype]
    assert difference(beam.reading.evidence[..., None] * beam.probability, golden["lam"]) < TOLERANCE[dtype]
    assert difference(mean_path(query, field), golden["mean"]) < TOLERANCE[dtype]


@each_case
def test_the_slow_twin_agrees_with_the_golden_values(case):
    golden, *_ = load(case, torch.float64)
    slow = unfolded(*(golden[x] for x in ("q", "k", "v", "time", "channel", "grid", "tau")))
    for name in ("lam", "evidence", "field", "mean"):
        np.testing.assert_allclose(getattr(slow, name), golden[name], rtol=0, atol=1e-12 * np.abs(golden[name]).max())
    # The twin takes E|V|^2 - |E V|^2 at its word, so it has |V|^2 times the machine's precision and no better.
    atol = 1e-14 * (golden["field"] ** 2).sum(axis=1).max()
    np.testing.assert_allclose(slow.disagreement, golden["disagreement"], rtol=1e-12, atol=atol)


@each_dtype
def test_phi_is_the_golden_one_to_a_relative_error_from_1e_minus_8_to_1e6(dtype):
    with np.load(GOLDEN / "phi.npz") as file:
        evidence, truth = file["evidence"], file["phi"]
    computed = phi(torch.from_numpy(evidence).to(dtype)).double().numpy()
    assert (computed[truth == 0] == 0).all()
    assert np.abs(computed / np.where(truth == 0, 1, truth) - 1)[truth > 0].max() < TOLERANCE[dtype]


def test_phi_is_the_sum_over_atom_counts_that_defines_it():
    evidence = np.concatenate([np.geomspace(1e-6, 1e3, 60), [19.99, 20.0, 20.01, 39.99, 40.0, 40.01]])
    computed = phi(torch.from_numpy(evidence)).numpy()
    np.testing.assert_allclose(computed, [phi_by_definition(x) for x in evidence], rtol=1e-12)


def test_phi_is_the_integral_of_the_variance_theorem():
    evidence = np.linspace(0.5, 600, 200)
    np.testing.assert_allclose(
        phi(torch.from_numpy(evidence)).numpy(), [phi_by_integral(x) for x in evidence], rtol=1e-12
    )


@each_dtype
def test_phi_is_0_without_evidence_and_0_at_infinity(dtype):
    assert phi(torch.tensor([0.0, torch.inf], dtype=dtype)).tolist() == [0.0, 0.0]
    assert phi(torch.tensor([torch.inf], dtype=dtype)).tolist() == [0.0]


@each_dtype
def test_phi_has_its_maximum_of_0_517_near_1_503(dtype):
    evidence = torch.arange(1.0, 2.0, 1e-3, dtype=torch.float64)
    value = phi(evidence.to(dtype))
    assert float(value.max()) == pytest.approx(0.517, abs=5e-4)
    assert float(evidence[phi(evidence).argmax()]) == pytest.approx(1.503, abs=1e-3)
    assert float(phi(torch.linspace(0, 1000, 100_001, dtype=dtype)).max()) <= float(value.max()) + 1e-6


@each_dtype
def test_phi_and_its_gradient_are_finite_and_phi_within_0_and_0_518_from_0_to_1e38(dtype):
    evidence = torch.cat(
        [torch.zeros(1), torch.logspace(-38, 38, 4000), torch.linspace(0, 120, 4001), torch.tensor([1e38])]
    )
    evidence = evidence.to(dtype).clamp(max=1e38).requires_grad_()
    value = phi(evidence)
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(gradient).all())
    assert bool(((value >= 0) & (value < 0.518)).all())


def test_the_gradient_of_phi_is_that_of_its_integral():
    # d/dL exp(-L) int_0^L (e^t - 1) / t dt = (1 - exp(-L)) / L - phi(L)
    evidence = torch.cat([torch.logspace(-6, 3, 200, dtype=torch.float64), torch.tensor([39.9, 40.0, 40.1]).double()])
    evidence.requires_grad_()
    value = phi(evidence)
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    truth = -torch.expm1(-evidence) / evidence - value
    torch.testing.assert_close(gradient, truth.detach(), rtol=1e-9, atol=1e-12)
