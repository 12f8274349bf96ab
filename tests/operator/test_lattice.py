"""A lattice of queries is read as the unfolded operator reads each of them; its draws have the operator's law."""

import numpy as np
import pytest
import torch

from levyscreen.operator import Grid, Lattice, LatticeReader, Timestamps, build_field, lattice, timestamps
from levyscreen.operator.measure import LEVELS, RandomMeasure
from tests.operator.cases import GRID, TAU
from tests.operator.unfolded import phi_by_definition, unfolded

HEADS, D = 2, 8
# Differences are taken over the largest entry.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}


def times_of(kind, n, generator):
    if kind == "one time":
        return torch.full((n,), 0.4, dtype=torch.float64)
    every = torch.rand(n, generator=generator, dtype=torch.float64)
    return every if kind == "all different" else every[torch.randint(0, max(1, n // 5), (n,), generator=generator)]


class Case:
    """One record with HEADS heads, asked V x T queries, in float64; `slow` is the unfolded operator of each head."""

    def __init__(self, kind="shared times", n=50, variables=3, times=5, seed=0, equal=False):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.variable, self.at = normal(HEADS, variables, D), normal(HEADS, times, D)
        self.key, self.value = normal(1, HEADS, n, D), normal(1, HEADS, n, D) + 0.5
        if equal:
            self.value = torch.ones_like(self.value) * 3
        self.time = times_of(kind, n, generator)
        self.channel = torch.rand(1, HEADS, n, generator=generator, dtype=torch.float64)
        query = (self.variable[:, :, None] + self.at[:, None]).flatten(1, 2)  # (H, V T, d)
        grid = (GRID.time_cells, GRID.channel_cells)
        self.slow = [
            unfolded(query[h], self.key[0, h], self.value[0, h], self.time, self.channel[0, h], grid, TAU)
            for h in range(HEADS)
        ]
        self.shape = (variables, times)

    def reader(self, dtype=torch.float64, with_beam=True, tau=TAU):
        key, value, time, channel = (x.to(dtype) for x in (self.key, self.value, self.time, self.channel))
        field = build_field(key, value, time[None, None], channel, GRID)
        asked = Lattice.of(self.variable.to(dtype), self.at.to(dtype))
        return LatticeReader(asked, field, tau, Timestamps.of(time, field, GRID) if with_beam else None)

    def expected(self, name):
        """(V, H, ..., T) of the slow twin's (V T, ...)."""
        each = np.stack([getattr(slow, name) for slow in self.slow])  # (H, V T, ...)
        each = each.reshape(HEADS, *self.shape, *each.shape[2:])
        return np.moveaxis(np.moveaxis(each, 1, 0), 2, -1)


def difference(got, expected):
    return float(np.abs(got.double().numpy() - expected).max() / max(np.abs(expected).max(), 1e-300))


CASES = [
    *(dict(kind=kind, n=n) for kind in ("one time", "all different", "shared times") for n in (1, 2, 50)),
    dict(variables=1, times=7),
    dict(variables=7, times=1),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("with_beam", [False, True], ids=["mean path", "beam"])
@pytest.mark.parametrize("settings", CASES, ids=str)
def test_every_query_of_a_lattice_is_answered_as_the_unfolded_operator_answers_it(settings, with_beam, dtype):
    case = Case(**settings)
    reader = case.reader(dtype, with_beam)
    parts = [reader.read(slice(v, v + 2)) for v in range(0, case.shape[0], 2)]

    def joined(name):
        return torch.cat([getattr(p, name) for p in parts])

    mean = joined("moments")[:, :, :-2] + reader.field.centre[0, :, 0, :, None]
    assert difference(mean, case.expected("mean")) < TOLERANCE[dtype]
    assert difference(joined("evidence"), case.expected("evidence")) < TOLERANCE[dtype]
    square = float(case.value.square().sum(-1).max())
    # Both are squares less squares: taken over |v|^2.
    square = float(case.value.square().sum(-1).max())
    for got, name in ((joined("disagreement"), "disagreement"), (joined("sigma_hat").square(), "sigma_hat")):
        expected = case.expected(name) ** (2 if name == "sigma_hat" else 1)
        assert np.abs(got.double().numpy() - expected).max() < TOLERANCE[dtype] * square
    if with_beam:
        assert difference(TAU * joined("intensity"), case.expected("lam")) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", ["one time", "all different", "shared times"])
def test_the_deviation_is_the_sum_over_cells_and_heads_of_the_definition(kind):
    case = Case(kind, n=30)
    gradient = torch.linspace(-1, 2, 3 * HEADS * D * 5, dtype=torch.float64).view(3, HEADS, D, 5)
    reader = case.reader()
    got = reader.deviation(reader.read(slice(None)), gradient)
    variance = np.zeros((3, 5))
    for h, slow in enumerate(case.slow):
        for q in range(15):
            v, t = divmod(q, 5)
            offset = (slow.field - slow.mean[q]) @ gradient[v, h, :, t].numpy()
            variance[v, t] += phi_by_definition(slow.evidence[q]) * (slow.p[q] * offset**2).sum()
    np.testing.assert_allclose(got.numpy(), np.sqrt(variance), rtol=1e-9)


def test_equal_values_have_no_disagreement_and_no_deviation_but_evidence():
    reader = Case(equal=True).reader()
    reading = reader.read(slice(None))
    assert float(reading.disagreement.max()) < 1e-12
    assert float(reader.deviation(reading, torch.ones(3, HEADS, D, 5, dtype=torch.float64)).max()) < 1e-7
    assert float(reading.evidence.min()) > 0


def test_everything_at_once_is_what_blocks_give(monkeypatch):
    reader = Case().reader()
    by_block = reader.read(slice(None))
    monkeypatch.setattr(lattice, "_blocks", lambda *tensors: [(slice(None), tensors)])  # as off a CPU
    at_once = reader.read(slice(None))
    torch.testing.assert_close(at_once.moments, by_block.moments, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(at_once.intensity, by_block.intensity, rtol=1e-12, atol=1e-12)


def test_each_reading_has_one_place_in_a_group_of_its_own_time_and_fillings_weigh_nothing():
    case = Case("shared times", n=60)
    field = build_field(case.key, case.value, case.time[None, None], case.channel, GRID)
    grouped = Timestamps.of(case.time, field, GRID)
    places = [(g, s) for c in grouped.channel for g in range(c.shape[1]) for s in [c.shape[3]]]
    weights = [c[0, g, :, k].sum() > 0 for c in grouped.channel for g in range(c.shape[1]) for k in range(c.shape[3])]
    assert sum(size for _, size in places) == len(grouped.order) == len(weights)
    real = grouped.order[torch.tensor(weights)]
    assert sorted(real.tolist()) == list(range(60))
    start = 0
    for _, size in places:
        inside = [int(i) for i, w in zip(grouped.order[start : start + size], weights[start:], strict=False) if w]
        assert len({float(case.time[i]) for i in inside}) == 1
        start += size


@pytest.mark.parametrize("worthwhile", [0.0, 10.0])
def test_the_direct_sum_and_the_grouped_one_are_equal(worthwhile, monkeypatch):
    monkeypatch.setattr(timestamps, "WORTHWHILE", worthwhile)
    case = Case("shared times", n=60)
    reader = case.reader()
    assert (reader.timestamps.mass is not None) == (worthwhile == 0)
    assert difference(TAU * reader.read(slice(None)).intensity, case.expected("lam")) < 1e-12


# Draws --------------------------------------------------------------------------------------------------------------


def test_counts_are_poisson_with_their_rate_for_mean_and_variance_and_uncorrelated():
    # 20,000 draws, seed 0: the standard error of the mean is sqrt(rate / 20,000); rates lie on the levels.
    highest = torch.tensor([[16.0, 4.0]], dtype=torch.float64)
    measure = RandomMeasure(highest, 20_000, seed=0, record_id=1)
    levels = torch.tensor([LEVELS // 4, LEVELS // 2, LEVELS], dtype=torch.float64)
    rate = (levels / LEVELS) ** 2 * highest[0, :, None]  # (L, T)
    counts = measure.counts(0, rate).view(2, 3, -1).numpy()
    np.testing.assert_allclose(counts.mean(-1), rate, atol=4 * np.sqrt(16 / 20_000))
    np.testing.assert_allclose(counts.var(-1), rate, rtol=0.06)
    assert abs(np.corrcoef(counts[0, 2], counts[1, 2])[0, 1]) < 0.03
    assert (np.diff(counts, axis=1) >= 0).all()  # more below a higher rate
    increments = counts[0, 2] - counts[0, 1]
    assert abs(np.corrcoef(increments, counts[0, 1])[0, 1]) < 0.03


def test_a_rate_of_zero_counts_nothing_and_names_decide_the_counts():
    highest = torch.full((1, 4), 5.0)
    rate = torch.linspace(0, 5, 6).expand(4, 6)
    first, same, other = (RandomMeasure(highest, 7, 0, record).counts(0, rate) for record in (3, 3, 4))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert bool((first.view(4, 6, 7)[:, 0] == 0).all())
    assert bool((RandomMeasure(torch.zeros(1, 4), 7, 0, 3).counts(0, torch.zeros(4, 2)) == 0).all())


def drawn(case, draws, tau=TAU):
    reader = case.reader(tau=tau)
    reading = reader.read(slice(None))
    measure = RandomMeasure(tau * reading.intensity.amax((0, 3)), draws, 0, 1)
    samples = torch.stack(list(reader.draw(reading, measure)))  # (V, H, d + 2, T K)
    return reading, samples.unflatten(-1, (case.shape[1], draws))[:, :, :-2]


def test_draws_have_the_mean_of_the_mean_path_and_the_deviation_sigma_hat():
    case = Case(n=40)
    reading, samples = drawn(case, 4000)
    mean = reading.moments[:, :, :-2]
    spread = (samples - mean.unsqueeze(-1)).square().sum(2).mean(-1).sqrt()  # (V, H, T)
    np.testing.assert_allclose(spread, case.expected("sigma_hat"), rtol=0.04)
    error = (samples.mean(-1) - mean).norm(dim=2) / (mean.norm(dim=2) + reading.disagreement.sqrt())
    assert float(error.max()) < 0.03


def test_a_draw_without_atoms_gives_the_mean():
    reading, samples = drawn(Case(n=2), 50, tau=1e-9)
    torch.testing.assert_close(samples, reading.moments[:, :, :-2].unsqueeze(-1).expand_as(samples))


def test_a_grid_of_one_cell_has_one_count():
    case = Case(n=5)
    field = build_field(case.key, case.value, case.time[None, None], case.channel, Grid(1, 1))
    reader = LatticeReader(Lattice.of(case.variable, case.at), field, TAU, Timestamps.of(case.time, field, Grid(1, 1)))
    assert float(reader.read(slice(None)).disagreement.max()) < 1e-12
