"""Random records for the operator's tests, and the fields and beams made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from levyscreen.operator import Field, Grid, build_field, unit

GRID = Grid(8, 4)
TAU = 0.5


@dataclass(frozen=True)
class Records:
    """R records of n readings with H heads, asked m queries."""

    query: Tensor  # (R, H, m, d) unit
    key: Tensor  # (R, H, n, d)
    value: Tensor  # (R, H, n, d)
    time: Tensor  # (R, 1, n)
    channel: Tensor  # (R, H, n)

    def field(self, grid: Grid = GRID, mask: Tensor | None = None) -> Field:
        return build_field(self.key, self.value, self.time, self.channel, grid, mask)

    def readings(self, index) -> Records:
        """The same records with the readings at `index`, in that order."""
        return Records(
            self.query, self.key[:, :, index], self.value[:, :, index], self.time[..., index], self.channel[..., index]
        )

    def row(self, index: int) -> Records:
        """One of the records, alone."""
        return Records(*(getattr(self, f.name)[index : index + 1] for f in fields(self)))

    def to(self, dtype: torch.dtype) -> Records:
        return Records(*(getattr(self, f.name).to(dtype) for f in fields(self)))


def records(seed, r=1, heads=2, m=16, n=50, d=8, dtype=torch.float64):
    """Gaussian queries, keys and values (these around 0.5, so that their mean is not 0), uniform positions."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    query, key, value = normal(r, heads, m, d), normal(r, heads, n, d), normal(r, heads, n, d) + 0.5
    return Records(unit(query), key, value, uniform(r, 1, n), uniform(r, heads, n)).to(dtype)
