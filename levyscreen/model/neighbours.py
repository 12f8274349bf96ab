"""The readings next to a query in time, as inputs of the head: what interpolation of a patient's own values uses.

Attention over many readings cannot pick out the last one of a variable, which for slow variables (creatinine, GCS) is
nearly the whole answer. So the head is also given, for each query, the readings before and after it: of its own
variable in detail, of every other variable the nearest ones and how far away they are. The head reads them through one
linear layer, so that a dense timeline pays little: readings of other variables depend on the time alone. A linear
regression for each variable on the same inputs is one of the candidates of the head's gate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from levyscreen.config import NEARBY, ModelConfig
from levyscreen.model.heads import Beside

# A reading's weight falls off with its distance at these rates, shares of the stay: 6 minutes, 1 and 6 hours of 48.
SCALES = 0.002, 0.02, 0.12
DECAYS = 1 + len(SCALES)  # and one weight that does not fall off
SIDES = 4  # second last, last, next and second next reading
LAST, NEXT = 1, 2
OWN = SIDES * (2 + DECAYS) + 6 + 3  # inputs of a query's own variable
EACH = 2 * 2 * DECAYS  # inputs of each variable: last and next reading
RESOLUTION = 1e-4  # share of the stay, 17 seconds of 48 hours: two readings at one time share a query between them


@dataclass(frozen=True)
class Around:
    """Readings of one variable around a time, in the order of SIDES: (..., 4) each, 0 where there is none."""

    value: Tensor  # z units
    distance: Tensor  # share of the stay, 0 or more
    there: Tensor  # 1 or 0

    def unflatten(self, shape: tuple[int, ...]) -> Around:
        """(R, q, 4) as (R, *shape, 4)."""
        return Around(*(x.unflatten(1, shape) for x in (self.value, self.distance, self.there)))

    def transpose(self, one: int, other: int) -> Around:
        """Two axes exchanged."""
        return Around(*(x.transpose(one, other) for x in (self.value, self.distance, self.there)))

    @property
    def interpolated(self) -> Tensor:
        """(...,): linear between last and next; the one there is; 0, the mean of the variable, where there is none."""
        last, following = self.value[..., LAST], self.value[..., NEXT]
        return torch.where(self.both > 0, last + self.share * (following - last), last + following)

    @property
    def share(self) -> Tensor:
        """How far the query lies on the way from the last to the next reading, (...,) in [0, 1]."""
        before, after = self.distance[..., LAST], self.distance[..., NEXT]
        return (before + RESOLUTION) / (before + after + 2 * RESOLUTION)

    @property
    def both(self) -> Tensor:
        """(...,) 1 where there is a last and a next reading."""
        return self.there[..., LAST] * self.there[..., NEXT]

    @property
    def jump(self) -> Tensor:
        """From the last to the next reading, (...,); 0 unless there are both."""
        return (self.value[..., NEXT] - self.value[..., LAST]) * self.both


@dataclass(frozen=True)
class Timetable:
    """Readings by record, variable and time: R records, n readings, V variables."""

    key: Tensor  # (R, n) float64, 2 variable + time, rising; padding comes last, as infinity
    time: Tensor  # (R, n) in [0, 1]
    value: Tensor  # (R, n) z units
    variable: Tensor  # (R, n); -1 for padding
    statistics: Tensor  # (R, V, 3): ln(1 + readings), their mean and standard deviation; 0 of no reading

    @classmethod
    def of(cls, time: Tensor, variable: Tensor, value: Tensor, mask: Tensor, variables: int) -> Timetable:
        """From readings (R, n) in any order; `mask` is False for padding."""
        value = value.masked_fill(~mask, 0)
        key = (2.0 * variable + time.double()).masked_fill(~mask, torch.inf)
        by_value = value.argsort(dim=1)  # readings of one variable and time: their order is not that of the rows
        order = by_value.gather(1, key.gather(1, by_value).argsort(dim=1, stable=True))
        key, time, ordered, of = (x.gather(1, order) for x in (key, time, value, variable.masked_fill(~mask, -1)))
        return cls(key, time, ordered, of, _statistics(variable, value, mask, variables))

    def record(self, place: int, n: int) -> Timetable:
        """One record of a batch, of n readings, without padding."""
        one = slice(place, place + 1)
        key, time, value, variable = (x[one, :n] for x in (self.key, self.time, self.value, self.variable))
        return Timetable(key, time, value, variable, self.statistics[one])

    def around(self, variable: Tensor, time: Tensor) -> Around:
        """Of queries (R, q): (R, q, 4). A reading at the very time of a query is both its last and its next one."""
        wanted = (2.0 * variable + time.double()).contiguous()
        later = torch.searchsorted(self.key, wanted, right=True)  # (R, q): the first later reading
        not_earlier = torch.searchsorted(self.key, wanted)
        place = torch.stack([later - 2, later - 1, not_earlier, not_earlier + 1], dim=-1)  # (R, q, 4)
        inside = (place >= 0) & (place < self.key.shape[1])
        flat = place.clamp(0, self.key.shape[1] - 1).flatten(1)
        value, at, of = (x.gather(1, flat).view(place.shape) for x in (self.value, self.time, self.variable))
        there = inside & (of == variable.unsqueeze(-1))
        distance = (time.unsqueeze(-1) - at).abs()
        return Around(value.where(there, 0), distance.where(there, 0), there.to(value.dtype))

    def around_all(self, time: Tensor) -> Around:
        """Of every variable at times (R, m): (R, m, V, 4)."""
        pairs = (*time.shape, self.statistics.shape[1])
        variable = torch.arange(pairs[-1], device=time.device).expand(pairs)
        return self.around(variable.flatten(1), time.unsqueeze(-1).expand(pairs).flatten(1)).unflatten(pairs[1:])

    def within(self, time: Tensor, distance: float) -> Tensor:
        """How many readings of any variable lie within `distance` of each time, (R, m)."""
        when = self.time.masked_fill(self.variable < 0, torch.inf).sort(dim=1).values.contiguous()
        before = torch.searchsorted(when, (time - distance).contiguous())
        return (torch.searchsorted(when, (time + distance).contiguous(), right=True) - before).to(time.dtype)

    @property
    def readings(self) -> Tensor:
        """(R,)."""
        return (self.variable >= 0).sum(1).to(self.time.dtype)

    def statistics_of(self, variable: Tensor) -> Tensor:
        """Of the variables of queries (R, m): (R, m, 3)."""
        return self.statistics.gather(1, variable.unsqueeze(-1).expand(-1, -1, 3))


def _statistics(variable: Tensor, value: Tensor, mask: Tensor, variables: int) -> Tensor:
    weight = mask.to(value.dtype)
    count, total, square = (
        value.new_zeros(len(value), variables).scatter_add_(1, variable, each * weight)
        for each in (torch.ones_like(value), value, value.square())
    )
    mean = total / count.clamp(min=1)
    variance = square / count.clamp(min=1) - mean.square()
    return torch.stack([count.log1p(), mean, variance.clamp(min=0).sqrt()], dim=-1)


def candidates(around: Around, statistics: Tensor, regression: Tensor) -> tuple[Tensor, Tensor]:
    """Values that a prediction may be taken from, and whether there are any, (..., CANDIDATES) each; see `Beside`."""
    last, following = around.there[..., LAST], around.there[..., NEXT]
    either, mean = last.maximum(following), statistics[..., 1]
    value = [around.value[..., LAST], around.value[..., NEXT], around.interpolated, mean, regression]
    return torch.stack(value, dim=-1), torch.stack([last, following, either, either, torch.ones_like(last)], dim=-1)


def own_inputs(around: Around, statistics: Tensor) -> Tensor:
    """(..., OWN) of a query's own variable, from its neighbours and the record's statistics (..., 3) of it."""
    either = around.there[..., LAST].maximum(around.there[..., NEXT])
    jump, both = around.jump, around.both
    single = torch.stack([around.interpolated, either, both, around.share * both, jump, jump.abs()], dim=-1)
    decays = _decays(around).flatten(-2)
    return torch.cat([around.value, around.there, decays, single, statistics], dim=-1)


def inputs_by_variable(around: Around) -> Tensor:
    """(..., V EACH) of all variables at one time, from their neighbours (..., V, 4)."""
    sides = slice(LAST, NEXT + 1)
    nearest = Around(*(x[..., sides] for x in (around.value, around.distance, around.there)))
    decays = _decays(nearest)  # (..., V, 2, DECAYS)
    return torch.cat([decays, decays * nearest.value.unsqueeze(-1)], dim=-1).flatten(-3)


def _decays(around: Around) -> Tensor:
    """(..., DECAYS): 1 and exp(-distance / scale) where there is a reading, else 0."""
    rate = around.distance.new_tensor([0.0, *(-1 / scale for scale in SCALES)])
    return torch.exp(around.distance.unsqueeze(-1) * rate) * around.there.unsqueeze(-1)


def nearby(timetable: Timetable, variable: Tensor, time: Tensor) -> Tensor:
    """NEARBY of config.py for queries (R, m), on the last axis."""
    around, statistics = timetable.around(variable, time), timetable.statistics_of(variable)
    gap = torch.where(around.there > 0, around.distance, torch.ones_like(around.distance)) + RESOLUTION
    step = around.value.diff(dim=-1).abs() * around.there[..., 1:] * around.there[..., :-1]  # (R, m, 3)
    count, _, spread = statistics.unbind(-1)
    found = {
        "last_gap": gap[..., LAST].log(),
        "next_gap": gap[..., NEXT].log(),
        "last": around.there[..., LAST],
        "next": around.there[..., NEXT],
        "jump": step[..., LAST],
        "step_before": step[..., LAST - 1],
        "step_after": step[..., NEXT],
        "count": count,
        "spread": spread,
        "at_once": timetable.within(time, SCALES[0]).log1p(),
        "near": timetable.within(time, SCALES[1]).log1p(),
        "readings": timetable.readings.log1p().unsqueeze(1).expand_as(time),
    }
    return torch.stack([found[name] for name in NEARBY], dim=-1)


@dataclass(frozen=True)
class Weights:
    """The linear layer, with whatever follows it merged into it; `width` is that of its output."""

    own: Tensor  # (OWN, width)
    variable: Tensor  # (V, width)
    others: Tensor | None  # (V EACH, width)
    regression: Tensor  # (V, OWN) a linear prediction for each variable, of its own inputs
    regression_of_others: Tensor | None  # (V, V EACH) and of all variables' inputs

    def of_queries(self, timetable: Timetable, variable: Tensor, time: Tensor) -> Beside:
        """For queries (R, m)."""
        around, statistics = timetable.around(variable, time), timetable.statistics_of(variable)
        own = own_inputs(around, statistics)
        read, regression = own @ self.own + self.variable[variable], (own * self.regression[variable]).sum(-1)
        if self.others is not None and self.regression_of_others is not None:
            every = inputs_by_variable(timetable.around_all(time))
            read = read + every @ self.others
            regression = regression + (every * self.regression_of_others[variable]).sum(-1)
        return Beside(read, *candidates(around, statistics, regression))

    def of_lattice(self, timetable: Timetable, variable: Tensor, time: Tensor) -> Beside:
        """(V', T, .) for every pair of `variable` (V',) and `time` (T,), of one record."""
        around = timetable.around_all(time.unsqueeze(0))  # (1, T, V, 4)
        own = Around(*(x[0, :, variable].transpose(0, 1) for x in (around.value, around.distance, around.there)))
        statistics = timetable.statistics[0, variable].unsqueeze(1).expand(-1, len(time), -1)
        inputs = own_inputs(own, statistics)  # (V', T, OWN)
        read = inputs @ self.own + self.variable[variable].unsqueeze(1)
        regression = (inputs @ self.regression[variable].unsqueeze(-1)).squeeze(-1)  # (V', T)
        if self.others is not None and self.regression_of_others is not None:
            every = inputs_by_variable(around)[0]  # (T, V EACH)
            read = read + every @ self.others
            regression = regression + self.regression_of_others[variable] @ every.T
        return Beside(read, *candidates(own, statistics, regression))

    def then(self, weight: Tensor) -> Weights:
        """Followed by a linear layer of `weight` (out, width) without bias."""
        others = None if self.others is None else self.others @ weight.T
        return replace(self, own=self.own @ weight.T, variable=self.variable @ weight.T, others=others)


class Neighbours(nn.Module):
    """What the head reads of a query's neighbours."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.own = nn.Linear(OWN, config.width)
        self.variable = nn.Embedding(config.variables, config.width)
        every = config.neighbours == "all"
        self.others = nn.Linear(config.variables * EACH, config.width, bias=False) if every else None
        self.regression = nn.Embedding(config.variables, OWN)
        self.regression_of_others = nn.Embedding(config.variables, config.variables * EACH) if every else None
        for begins_at_nought in (self.variable, self.regression, self.regression_of_others):
            if begins_at_nought is not None:
                nn.init.zeros_(begins_at_nought.weight)

    @property
    def weights(self) -> Weights:
        """As one layer."""
        others, own = (None if x is None else x.weight for x in (self.others, self.regression_of_others))
        return Weights(
            self.own.weight.T,
            self.variable.weight + self.own.bias,
            None if others is None else others.T,
            self.regression.weight,
            own,
        )

    def forward(self, timetable: Timetable, variable: Tensor, time: Tensor) -> Beside:
        """For queries (R, m)."""
        return self.weights.of_queries(timetable, variable, time)
