"""A record's side of the operator, computed once however many queries follow (design: fold the grid into the keys)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from levyscreen.operator.grid import Grid, axis_log_weights, cell_weights, key_mass
from levyscreen.operator.kernel import unit, weighted_mean


@dataclass(frozen=True)
class Field:
    """Keys with the values that the grid gives them. Leading axes (...) are records and heads.

    Values are centred: `centre` was subtracted before squares were taken, since tr Sigma_V = E|V|^2 - |E V|^2 loses
    all its digits in float32 when values lie far from 0. It is added back to the mean.
    """

    key: Tensor  # (..., n, d) unit vectors
    mass: Tensor  # (..., n, L) D_il, the share of key i's mass in cell l
    value: Tensor  # (..., L, d) V_l - centre
    centre: Tensor  # (..., 1, d)
    mask: Tensor | None  # broadcasts to (..., n); False for padding

    @cached_property
    def key_value(self) -> Tensor:
        """Vt = D (V - centre), (..., n, d); the mean path alone needs it."""
        return self.mass @ self.value

    @cached_property
    def key_second_moment(self) -> Tensor:
        """w = D |V - centre|^2, (..., n)."""
        return (self.mass @ self.value.square().sum(-1, keepdim=True)).squeeze(-1)

    def record(self, place: int, n: int) -> Field:
        """One record of a batch without its padding: leading axes (R, H) become (1, H), its n keys come first."""
        key, mass = (x[place : place + 1, ..., :n, :] for x in (self.key, self.mass))
        return Field(key, mass, self.value[place : place + 1], self.centre[place : place + 1], None)


def build_field(
    key: Tensor, value: Tensor, time: Tensor, channel: Tensor, grid: Grid, mask: Tensor | None = None
) -> Field:
    """The value field of eq:field on the grid, and what each key reads of it.

    `key`, `value` (..., n, d); `time`, `channel` in [0, 1] and `mask` broadcast to (..., n). At least one key must be
    unmasked in each record: an all-padding row gives NaN, so empty records are to be skipped before batching.
    """
    log_time = axis_log_weights(time, grid.time_cells)
    log_channel = axis_log_weights(channel, grid.channel_cells)
    weights = cell_weights(log_time, log_channel, mask)  # (..., n, L)
    mean = _masked_mean(value, mask)  # (..., 1, d)
    weighted = weights.transpose(-1, -2) @ (value - mean)  # (..., L, d)
    cells = weighted / weights.sum(dim=-2).unsqueeze(-1)  # (..., L, d)
    offset = cells.mean(dim=-2, keepdim=True)
    return Field(unit(key), key_mass(log_time, log_channel), cells - offset, mean + offset, mask)


def _masked_mean(value: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return value.mean(dim=-2, keepdim=True)
    keep = mask.unsqueeze(-1).to(value.dtype)
    return (value * keep).sum(dim=-2, keepdim=True) / keep.sum(dim=-2, keepdim=True)


def mean_path(query: Tensor, field: Field) -> Tensor:
    """abar(q) of eq:dout alone, for training and point predictions: `query` (..., m, d) gives (..., m, d)."""
    return weighted_mean(query, field.key, field.key_value + field.centre, field.mask)
