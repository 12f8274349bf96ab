"""The grid over time x channel of sec:disc, and the share of each key's mass that falls in each cell.

psi factorises over the two axes, so every weight is an outer product of a time factor (n x L_t), the same for all
heads, and a channel factor (n x L_v). Cell l = l_t * L_v + l_v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Grid:
    """L_t x L_v cells of [0, 1]^2; the bandwidth along each axis is one cell, eps = (1 / L_t, 1 / L_v)."""

    time_cells: int = 16
    channel_cells: int = 8

    @property
    def cells(self) -> int:
        """L = L_t L_v."""
        return self.time_cells * self.channel_cells


def axis_log_weights(position: Tensor, cells: int) -> Tensor:
    """-(s*_l - s_i)^2 / (2 eps^2) along one axis: `position` (..., n) in [0, 1] gives (..., n, cells)."""
    centre = (torch.arange(cells, dtype=position.dtype, device=position.device) + 0.5) / cells
    return -0.5 * ((position.unsqueeze(-1) - centre) * cells) ** 2


def outer(time: Tensor, channel: Tensor) -> Tensor:
    """Product over the two axes: (..., n, L_t) and (..., n, L_v) give (..., n, L).

    Each factor is laid out over the cells by a product with zeros and ones, which is exact. Broadcasting the two
    instead runs loops of length L_v, several times slower.
    """
    cells_t, cells_v = time.shape[-1], channel.shape[-1]
    over_time = torch.eye(cells_t, dtype=time.dtype, device=time.device).repeat_interleave(cells_v, dim=1)
    over_channel = torch.eye(cells_v, dtype=channel.dtype, device=channel.device).repeat(1, cells_t)
    return (channel @ over_channel).mul_(time @ over_time)  # in place: these are the layer's largest tensors


def key_mass(log_time: Tensor, log_channel: Tensor) -> Tensor:
    """D_il = Delta delta^Delta_eps(s*_l - s_i) of eq:dmoll, (..., n, L); every row sums to 1."""
    return outer(_share(log_time), _share(log_channel))


def _share(log_weight: Tensor) -> Tensor:
    """As softmax over the cells, which is slow over so few: the nearest centre's weight is exp(-1/8) at least."""
    weight = torch.exp(_bounded(log_weight))
    return weight / weight.sum(dim=-1, keepdim=True)


def cell_weights(log_time: Tensor, log_channel: Tensor, mask: Tensor | None) -> Tensor:
    """psi_il of eq:field up to a factor a cell, which the partition of unity divides out: (..., n, L), 0 for padding.

    Each axis is shifted by its largest log weight over the keys before exponentiating. psi itself reaches
    exp(-(L_t^2 + L_v^2) / 2), which in float32 is 0 for a record whose readings all come early, and the field 0/0; so
    shifted and bounded, the sum over the keys is never smaller than the bound.
    """
    return outer(_shifted_exp(log_time, mask), _shifted_exp(log_channel, mask))


def _shifted_exp(log_weight: Tensor, mask: Tensor | None) -> Tensor:
    padding = None if mask is None else ~mask.unsqueeze(-1)
    largest = log_weight.detach()  # a constant to the gradient: the quotient does not depend on it
    if padding is not None:
        largest = largest.masked_fill(padding, -torch.inf)
    weight = torch.exp(_bounded(log_weight - largest.amax(dim=-2, keepdim=True)))
    return weight if padding is None else weight.masked_fill(padding, 0)


def _bounded(log_weight: Tensor) -> Tensor:
    """Between 0 and nearly half the log of the smallest normal number, so that no product of two axes is below that.

    On a CPU products with such numbers take several times as long. In float32 the bound is 1e-17 of the largest weight.
    """
    return log_weight.clamp(min=0.45 * math.log(torch.finfo(log_weight.dtype).tiny), max=0)
