"""A record's readings grouped by the time they were taken at: the beam of many queries in fewer products.

lambda_l / tau = sum_i kappa_i T_i,lt C_i,lv, and T is the same for all readings of one time: so sum the channel over
the readings of each time first, n L_v products a query, and then the times, J L_v L_t. The direct sum takes n L_t L_v;
a record of set-b has some 370 readings at 68 times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.grid import Grid

SIZES = (2, 4, 6, 8)  # readings a group, filled up with readings of no weight: few sizes make few products
WORTHWHILE = 0.75  # groups a reading, from which on the direct sum is as fast


@dataclass(frozen=True)
class Timestamps:
    """The readings of one record in an order of their own, by the size of their group, with the fillings."""

    order: Tensor  # (n',) reading at each place
    time: Tensor  # (L_t, J) share of a group's time in each time cell
    channel: tuple[Tensor, ...]  # for each size s that J_s groups have: (H, J_s, L_v, s), in that order
    mass: Tensor | None  # (H, L, n) for the direct sum, where grouping would gain nothing

    @classmethod
    def of(cls, time: Tensor, field: Field, grid: Grid) -> Timestamps:
        """From the times (n,) of a record and its field (1, H, ...) without padding."""
        mass, n, device = field.mass[0], len(time), time.device  # (H, n, L)
        group, place = _groups(time)
        count = torch.bincount(group)
        if len(count) > WORTHWHILE * n:
            return cls(torch.arange(n, device=device), time, (), mass.transpose(1, 2).contiguous())
        sizes = torch.tensor(SIZES, device=device)
        size = sizes[torch.searchsorted(sizes, count)]
        by_size = torch.argsort(size, stable=True)
        start = torch.empty_like(size)
        start[by_size] = torch.cumsum(size[by_size], 0) - size[by_size]
        position = start[group] + place
        order = torch.zeros(int(size.sum()), dtype=torch.int64, device=device)
        order[position] = torch.arange(n, device=device)
        cells = mass.unflatten(2, (grid.time_cells, grid.channel_cells))
        by_channel = mass.new_zeros(len(mass), len(order), grid.channel_cells)
        by_channel[:, position] = cells.sum(2)  # the factors of D are its marginals: rows of both sum to 1
        by_time = cells[0].sum(2)[order[start[by_size]]]  # (J, L_t)
        channel, first = [], 0
        for s, groups in zip(SIZES, torch.bincount(size, minlength=SIZES[-1] + 1)[sizes].tolist(), strict=True):
            of_size = by_channel[:, first : first + s * groups].unflatten(1, (groups, s))
            channel.append(of_size.transpose(2, 3).contiguous())
            first += s * groups
        return cls(order, by_time.T.contiguous(), tuple(c for c in channel if c.shape[1]), None)

    def summing(self, kappa: Tensor) -> Callable[[int | slice, Tensor], None]:
        """A function (head, out) that puts lambda_l / tau (..., L, T) into `out`, of what `kappa` then holds.

        `kappa` (..., n', T) is in the order of these timestamps, of one head or with an axis of heads.
        """
        if self.mass is not None:
            mass = self.mass
            return lambda head, out: product_into(out, mass[head], kappa)
        cells, times = self.channel[0].shape[2], kappa.shape[-1]
        by_group = kappa.new_empty(*kappa.shape[:-2], self.time.shape[1], cells, times)
        steps, key, group = [], 0, 0
        for channel in self.channel:
            count, size = channel.shape[1], channel.shape[3]
            readings = kappa[..., key : key + size * count, :].unflatten(-2, (count, size))
            steps.append((channel, readings, by_group[..., group : group + count, :, :]))
            key, group = key + size * count, group + count
        flat = by_group.flatten(-2)

        def intensity(head: int | slice, out: Tensor) -> None:
            for channel, readings, groups in steps:
                product_into(groups, channel[head], readings)
            product_into(out.view(*out.shape[:-2], self.time.shape[0], -1), self.time, flat)

        return intensity


def product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    """As torch.matmul, without its checks where they are not needed: they take as long as a small product."""
    dims = left.dim() if left.dim() == right.dim() else 0
    {2: torch.mm, 3: torch.bmm}.get(dims, torch.matmul)(left, right, out=out)


def _groups(time: Tensor) -> tuple[Tensor, Tensor]:
    """Of each reading (n,) its group, each holding readings of one time, and its place there."""
    at = torch.unique(time, return_inverse=True)[1]
    readings = torch.bincount(at)
    order = torch.argsort(at, stable=True)
    place = torch.empty_like(at)
    place[order] = torch.arange(len(at), device=at.device) - (torch.cumsum(readings, 0) - readings)[at[order]]
    most = SIZES[-1]
    return torch.unique(at * len(time) + place // most, return_inverse=True)[1], place % most
