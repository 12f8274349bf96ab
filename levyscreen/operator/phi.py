"""phi(Lambda) = E[1{Z >= 1} / Z] for Z ~ Poisson(Lambda): the expected reciprocal number of atoms (thm:variance)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_EULER_GAMMA = 0.5772156649015329


@dataclass(frozen=True)
class _Series:
    """Below `switch` the power series with all terms positive, from there on the asymptotic one."""

    switch: float
    power_terms: int
    asymptotic_terms: int


_SERIES = {torch.float32: _Series(20.0, 64, 20), torch.float64: _Series(40.0, 150, 38)}


def phi(evidence: Tensor) -> Tensor:
    """Exact phi of `evidence` >= 0, any shape, float32 or float64; 0 at 0 and at infinity, at most 0.517 (at 1.503).

    The textbook form exp(-x)(Ei(x) - ln x - gamma) overflows from x = 88 (float32) or 709 (float64) on, and 1/x is
    22 % off at 5; relative error here is below 1e-6 in float32 and 2e-15 in float64 from 1e-8 to 1e38.
    """
    series = _SERIES[evidence.dtype]
    # Each branch sees only arguments that it can take, so that neither value nor gradient is ever non-finite.
    large = _asymptotic(evidence.clamp(min=series.switch, max=1e38), series.asymptotic_terms)
    large = torch.where(torch.isinf(evidence), torch.zeros_like(large), large)
    below = evidence < series.switch
    if not bool(below.any()):  # a well-covered record, the usual case: the long series is not needed
        return large
    small = _power(evidence.clamp(max=series.switch), series.power_terms)
    return torch.where(below, small, large)


def _power(x: Tensor, terms: int) -> Tensor:
    """exp(-x) sum_{k>=1} x^k / (k k!), by Horner on the ratio x k / (k + 1)^2 of neighbouring terms."""
    total = one = torch.ones_like(x)
    for k in range(terms, 0, -1):
        total = torch.addcmul(one, total, x, value=k / (k + 1) ** 2)
    return torch.exp(-x) * x * total


def _asymptotic(x: Tensor, terms: int) -> Tensor:
    """sum_{k>=0} k! / x^(k + 1) - exp(-x)(ln x + gamma)."""
    reciprocal = 1 / x
    total = one = torch.ones_like(x)
    for k in range(terms, 0, -1):
        total = torch.addcmul(one, total, reciprocal, value=k)
    # exp2, since exp takes a slow path where it underflows; its argument's rounding is lost in so small a term.
    return total * reciprocal - torch.exp2(x / -math.log(2)) * (torch.log(x) + _EULER_GAMMA)
