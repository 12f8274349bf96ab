"""A lattice of queries is read as the unfolded operator reads each of them; its draws have the operator's law."""

import numpy as np
import pytest
import torch
from scipy import stats

from levyscreen.operator import (
    Grid,
    Lattice,
    LatticeReader,
    Timestamps,
    build_field,
    deviation,
    lattice,
    read_beam,
    timestamps,
    unit,
)
from levyscreen.operator.measure import LEVELS, RandomMeasure
from tests.operator.cases import GRID, TAU
from tests.operator.unfolded import phi_by_definition, unfolded

HEADS, D = 2, 8
# Differences are taken over the largest entry.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
AT_A_TIME = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17)  # readings at a time: each size of a group, full and not, one to three
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def times_of(kind, n, generator):
    if kind == "one time":
        return torch.full((n,), 0.4, dtype=torch.float64)
    every = torch.rand(n, generator=generator, dtype=torch.float64)
    if kind == "mix":  # half the readings at one time, the others at a time each
        return torch.where(torch.arange(n) % 2 == 0, 0.7, every)
    if kind == "every size":
        repeated = every[: len(AT_A_TIME)].repeat_interleave(torch.tensor(AT_A_TIME))
        return repeated[torch.randperm(n, generator=generator)]
    return every if kind == "all different" else every[torch.randint(0, max(1, n // 5), (n,), generator=generator)]


class Case:
    """One record with HEADS heads, asked V x T queries, in float64; `slow` is the unfolded operator of each head."""

    def __init__(self, kind="shared times", n=50, variables=3, times=5, seed=0, offset=0.5, spread=1.0):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.variable, self.at = normal(HEADS, variables, D), normal(HEADS, times, D)
        self.key, self.value = normal(1, HEADS, n, D), normal(1, HEADS, n, D) * spread + offset
        self.time = times_of(kind, n, generator)
        self.channel = torch.rand(1, HEADS, n, generator=generator, dtype=torch.float64)
        query = (self.variable[:, :, None] + self.at[:, None]).flatten(1, 2)  # (H, V T, d)
        grid = (GRID.time_cells, GRID.channel_cells)
        self.slow = [
            unfolded(query[h], self.key[0, h], self.value[0, h], self.time, self.channel[0, h], grid, TAU)
            for h in range(HEADS)
        ]
        self.shape = (variables, times)

    def field(self, dtype=torch.float64):
        key, value, time, channel = (x.to(dtype) for x in (self.key, self.value, self.time, self.channel))
        return build_field(key, value, time[None, None], channel, GRID)

    def reader(self, dtype=torch.float64, with_beam=True, tau=TAU):
        field, time = self.field(dtype), self.time.to(dtype)
        asked = Lattice.of(self.variable.to(dtype), self.at.to(dtype))
        return LatticeReader(asked, field, tau, Timestamps.of(time, field, GRID) if with_beam else None)

    def queries(self, dtype=torch.float64):
        """All queries as the other forms of the operator take them, (1, H, V T, d) unit."""
        return unit((self.variable[:, :, None] + self.at[:, None]).flatten(1, 2))[None].to(dtype)

    def expected(self, name):
        """(V, H, ..., T) of the slow twin's (V T, ...)."""
        each = np.stack([getattr(slow, name) for slow in self.slow])  # (H, V T, ...)
        each = each.reshape(HEADS, *self.shape, *each.shape[2:])
        return np.moveaxis(np.moveaxis(each, 1, 0), 2, -1)


def difference(got, expected):
    return float(np.abs(got.double().numpy() - expected).max() / max(np.abs(expected).max(), 1e-300))


CASES = [
    *(dict(kind=kind, n=n) for kind in ("one time", "all different", "shared times") for n in (1, 2, 50)),
    dict(kind="mix", n=60),
    dict(kind="every size", n=sum(AT_A_TIME)),
    dict(variables=1, times=7),
    dict(variables=7, times=1),
]


@each_dtype
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
    # Both are squares less squares: taken over |v|^2, since one reading has none and two may have little.
    square = float(case.value.square().sum(-1).max())
    for got, name in ((joined("disagreement"), "disagreement"), (joined("sigma_hat").square(), "sigma_hat")):
        expected = case.expected(name) ** (2 if name == "sigma_hat" else 1)
        assert np.abs(got.double().numpy() - expected).max() < TOLERANCE[dtype] * square
        if case.key.shape[2] > 2:
            assert difference(got, expected) < TOLERANCE[dtype]
    if with_beam:
        assert difference(TAU * joined("intensity"), case.expected("lam")) < TOLERANCE[dtype]


@each_dtype
@pytest.mark.parametrize("with_beam", [False, True], ids=["mean path", "beam"])
def test_values_far_from_0_lose_no_digits(with_beam, dtype):
    case = Case(offset=100.0, spread=0.01)
    reader = case.reader(dtype, with_beam)
    reading = reader.read(slice(None))
    mean = reading.moments[:, :, :-2] + reader.field.centre[0, :, 0, :, None]
    assert difference(mean, case.expected("mean")) < TOLERANCE[dtype]
    near = Case(offset=0.0, spread=0.01).expected("disagreement")  # the same: the twin's own squares lose digits here
    # The values themselves are rounded, in float32 by 4e-6 of 0.01.
    assert difference(reading.disagreement, near) < (1e-3 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("kind", ["one time", "all different", "shared times", "mix"])
def test_the_deviation_is_the_sum_over_cells_and_heads_of_the_definition(kind):
    case = Case(kind, n=30)
    gradient = torch.linspace(-1, 2, 3 * HEADS * D * 5, dtype=torch.float64).view(3, HEADS, D, 5)
    variance = np.zeros((3, 5))
    for h, slow in enumerate(case.slow):
        for q in range(15):
            v, t = divmod(q, 5)
            offset = (slow.field - slow.mean[q]) @ gradient[v, h, :, t].numpy()
            variance[v, t] += phi_by_definition(slow.evidence[q]) * (slow.p[q] * offset**2).sum()
    for dtype, rtol in ((torch.float64, 1e-9), (torch.float32, 5e-6)):
        reader, g = case.reader(dtype), gradient.to(dtype)
        got = torch.cat([reader.deviation(reader.read(v), g[v]) for v in (slice(0, 2), slice(2, 3))])
        np.testing.assert_allclose(got.numpy(), np.sqrt(variance), rtol=rtol)


@each_dtype
@pytest.mark.parametrize("settings", CASES, ids=str)
def test_the_deviation_is_that_of_the_beam_of_each_query(settings, dtype):
    case = Case(**settings)
    v, t = case.shape
    gradient = torch.randn(v, HEADS, D, t, dtype=dtype, generator=torch.Generator().manual_seed(9))
    field = case.field(dtype)
    by_query = gradient.permute(1, 0, 3, 2).flatten(1, 2)[None]  # (1, H, V T, d)
    expected = deviation(read_beam(case.queries(dtype), field, TAU), field, by_query).view(v, t).double().numpy()
    reader = case.reader(dtype)
    got = reader.deviation(reader.read(slice(None)), gradient)
    # One reading has no deviation but that of rounding, which is of the values' size.
    largest = max(expected.max(), float(case.value.norm(dim=-1).max()) if case.key.shape[2] == 1 else 0)
    assert np.abs(got.double().numpy() - expected).max() < 5 * TOLERANCE[dtype] * largest


@each_dtype
def test_equal_values_have_no_disagreement_and_no_deviation_but_evidence(dtype):
    reader = Case(offset=3.0, spread=0.0).reader(dtype)
    reading = reader.read(slice(None))
    precision = TOLERANCE[dtype]
    assert float(reading.disagreement.max()) < precision**2
    assert float(reader.deviation(reading, torch.ones(3, HEADS, D, 5, dtype=dtype)).max()) < precision
    assert float(reading.evidence.min()) > 1


def test_everything_at_once_is_what_blocks_give(monkeypatch):
    reader = Case().reader()
    by_block = reader.read(slice(None))
    monkeypatch.setattr(lattice, "_blocks", lambda *tensors: [(slice(None), tensors)])  # as off a CPU
    at_once = reader.read(slice(None))
    torch.testing.assert_close(at_once.moments, by_block.moments, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(at_once.intensity, by_block.intensity, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "n"), [("shared times", 60), ("one time", 50), ("mix", 60), ("every size", sum(AT_A_TIME))]
)
def test_each_reading_has_one_place_in_a_group_of_its_own_time_and_fillings_weigh_nothing(kind, n):
    case = Case(kind, n=n)
    grouped = Timestamps.of(case.time, case.field(), GRID)
    places = [(g, s) for c in grouped.channel for g in range(c.shape[1]) for s in [c.shape[3]]]
    weights = [c[0, g, :, k].sum() > 0 for c in grouped.channel for g in range(c.shape[1]) for k in range(c.shape[3])]
    assert sum(size for _, size in places) == len(grouped.order) == len(weights)
    real = grouped.order[torch.tensor(weights)]
    assert sorted(real.tolist()) == list(range(n))
    start = 0
    for _, size in places:
        inside = [int(i) for i, w in zip(grouped.order[start : start + size], weights[start:], strict=False) if w]
        assert len({float(case.time[i]) for i in inside}) == 1
        assert size == min(s for s in timestamps.SIZES if s >= len(inside))  # not more fillings than needed
        start += size


def test_by_default_readings_are_grouped_where_there_are_few_times_and_summed_directly_where_there_are_many():
    grouped = {kind: Case(kind).reader().timestamps.mass is None for kind in ("one time", "mix", "all different")}
    assert grouped == {"one time": True, "mix": True, "all different": False}


@pytest.mark.parametrize("worthwhile", [0.0, 10.0])
def test_the_direct_sum_and_the_grouped_one_are_equal(worthwhile, monkeypatch):
    monkeypatch.setattr(timestamps, "WORTHWHILE", worthwhile)
    case = Case("mix", n=60)
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


def test_counts_have_the_law_of_poisson_and_rates_between_levels_are_met_to_a_level():
    # 40,000 draws, seed 1: chi-square of all counts that are expected 10 times at least.
    highest = torch.tensor([[9.0, 2.0]], dtype=torch.float64)
    measure = RandomMeasure(highest, 40_000, seed=1, record_id=2)
    rate = torch.tensor([[1.2345, 7.654], [0.321, 1.999]], dtype=torch.float64)
    for counts, expected in zip(measure.counts(0, rate).view(4, -1).numpy(), rate.flatten().tolist(), strict=True):
        pmf = 40_000 * stats.poisson.pmf(np.arange(60), expected)
        observed = np.bincount(counts.astype(int), minlength=60)
        kept = pmf >= 10
        chi = ((observed - pmf)[kept] ** 2 / pmf[kept]).sum()
        assert stats.chi2.sf(chi, kept.sum()) > 1e-3
        assert observed[~kept].sum() < 60


def test_a_rate_counts_as_the_nearest_level_does():
    highest = torch.tensor([[50.0]], dtype=torch.float64)
    measure = RandomMeasure(highest, 400, 0, 1)

    def counts(level):
        return measure.counts(0, (torch.tensor([[level]], dtype=torch.float64) / LEVELS) ** 2 * 50)

    for level in (1, 100, 254):
        assert torch.equal(counts(level + 0.4), counts(level))
        assert torch.equal(counts(level + 0.6), counts(level + 1))
    assert int((counts(101) - counts(100)).sum()) > 0
    assert torch.equal(counts(LEVELS + 0.001), counts(LEVELS))  # above the highest by rounding


def test_counts_of_different_heads_cells_draws_and_records_are_uncorrelated():
    # 3,000 records of seed 0: 2 heads x 3 cells x 2 draws; the standard error of a correlation is 0.018.
    highest, rate = torch.full((2, 3), 4.0), torch.full((3, 1), 2.0)
    every = []
    for record in range(3000):
        measure = RandomMeasure(highest, 2, 0, record)
        every.append(torch.cat([measure.counts(head, rate).flatten() for head in (0, 1)]))
    counts = torch.stack(every).double().numpy()  # (records, 12)
    np.testing.assert_allclose(counts.mean(0), 2, atol=4.5 * np.sqrt(2 / 3000))
    correlation = np.corrcoef(counts.T) - np.eye(12)
    assert np.abs(correlation).max() < 0.08
    assert abs(np.corrcoef(counts[1:, 0], counts[:-1, 0])[0, 1]) < 0.08  # of neighbouring records


def test_another_seed_gives_other_counts():
    highest, rate = torch.full((1, 4), 5.0), torch.full((4, 2), 3.0)
    first, other = (RandomMeasure(highest, 7, seed, 3).counts(0, rate) for seed in (0, 1))
    assert not torch.equal(first, other)


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


@pytest.mark.parametrize("tau", [0.002, 0.02], ids=["mostly empty draws", "few atoms"])
def test_draws_have_the_deviation_sigma_hat_where_phi_is_not_the_reciprocal(tau):
    # 30 root mean squares of 4,000 draws, most of them empty; they share counts, so their mean is off by some 3 %.
    case = Case(n=30)
    reading, samples = drawn(case, 4000, tau)
    evidence = tau / TAU * case.expected("evidence")
    exact = np.sqrt(case.expected("disagreement") * np.vectorize(phi_by_definition)(evidence))
    mean = reading.moments[:, :, :-2].unsqueeze(-1)
    ratio = (samples - mean).square().sum(2).mean(-1).sqrt().numpy() / exact
    assert ratio.mean() == pytest.approx(1, abs=0.03)
    assert np.abs(ratio - 1).max() < 0.12
    empty = (samples == mean).all(2).double().mean(-1).numpy()  # as often as no atom falls
    np.testing.assert_allclose(empty, np.exp(-evidence), atol=4 * np.sqrt(0.25 / 4000))


def test_each_draw_is_the_mean_of_the_field_at_its_atoms_one_by_one():
    case, draws = Case(n=20), 6
    reader = case.reader()
    reading = reader.read(slice(1, 3))
    measure = RandomMeasure(TAU * reading.intensity.amax((0, 3)), draws, 5, 8)
    lam, centre = case.expected("lam")[1:3], reader.field.centre[0, :, 0].numpy()
    samples = torch.stack(list(reader.draw(reading, measure))).numpy()  # (V, H, d + 2, T K)
    for v, h, t in np.ndindex(2, HEADS, 5):
        counts = measure.counts(h, torch.from_numpy(lam[v, h, :, t : t + 1].copy())).numpy()  # (L, K)
        for k in range(draws):
            cells = np.repeat(np.arange(len(counts)), counts[:, k].astype(int))  # one an atom
            at = case.slow[h].field[cells]
            assert len(at) > 0
            got = samples[v, h, :-2, t * draws + k] + centre[h]
            np.testing.assert_allclose(got, at.mean(0), rtol=0, atol=1e-12)


def test_a_draw_without_atoms_gives_the_mean():
    reading, samples = drawn(Case(n=2), 50, tau=1e-9)
    torch.testing.assert_close(samples, reading.moments[:, :, :-2].unsqueeze(-1).expand_as(samples))


def test_a_grid_of_one_cell_has_one_count():
    case = Case(n=5)
    field = build_field(case.key, case.value, case.time[None, None], case.channel, Grid(1, 1))
    reader = LatticeReader(Lattice.of(case.variable, case.at), field, TAU, Timestamps.of(case.time, field, Grid(1, 1)))
    assert float(reader.read(slice(None)).disagreement.max()) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_a_query_whose_parts_cancel_is_equally_like_every_key(dtype):
    case = Case(n=50)
    case.at[:, 2] = -case.variable[:, 1]
    evidence = case.reader(dtype).read(slice(None)).evidence
    torch.testing.assert_close(evidence[1, :, 2], torch.full((HEADS,), 50 * TAU, dtype=dtype))
