"""The sharpness that each head learns for its kernel (`kernel.py` has the formula)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levyscreen.operator.kernel import rate, sharpened


class Sharpness(nn.Module):
    """g > 0 of each head, learned as a logarithm; without `initial` the paper's kernel, g = 1 and nothing to learn."""

    def __init__(self, heads: int, d: int, initial: float | None):
        """`d` is the width of a head."""
        super().__init__()
        self.d = d
        self.log: nn.Parameter | None = None
        if initial is not None:
            self.log = nn.Parameter(torch.full((heads, 1, 1), math.log(initial)))

    @property
    def g(self) -> Tensor | None:
        """(H, 1, 1); None for the paper's kernel."""
        return None if self.log is None else self.log.exp()

    def forward(self, query: Tensor) -> Tensor:
        """Queries of length g, from unit queries (R, H, m, d)."""
        return query if self.g is None else sharpened(query, self.g.to(query.dtype))

    def rate(self, tau: float) -> float | Tensor:
        """What takes the place of tau for these queries: a number, or (H, 1)."""
        return tau if self.g is None else rate(tau, self.g.squeeze(-1), self.d)
