"""The three free signals of eq:signals, a head at a time, and the beam that draws and the deviation need besides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from levyscreen.operator.field import Field, cell_probability
from levyscreen.operator.kernel import logits, weighted_mean_and_mass
from levyscreen.operator.phi import phi


@dataclass(frozen=True)
class Reading:
    """What one head reads at each query; leading axes (...) are records and heads."""

    mean: Tensor  # (..., m, d) abar(q)
    evidence: Tensor  # (..., m) Lambda_q
    disagreement: Tensor  # (..., m) tr Sigma_V(q)
    sigma_hat: Tensor  # (..., m)


def read(query: Tensor, field: Field, tau: float) -> Reading:
    """Mean path and signals of unit queries (..., m, d): one attention over values of width d + 1 (thm:variance)."""
    value = torch.cat([field.key_value, field.key_second_moment.unsqueeze(-1)], dim=-1)  # (..., n, d + 1)
    moments, log_mass = weighted_mean_and_mass(query, field.key, value, field.mask)
    return _reading(moments[..., :-1], moments[..., -1], log_mass, field, tau)


@dataclass(frozen=True)
class Beam:
    """The normalised intensity itself, cached: what the deviation and K draws are computed from."""

    reading: Reading
    probability: Tensor  # (..., m, L) p_l


def read_beam(query: Tensor, field: Field, tau: float) -> Beam:
    """As `read`, and p_l (..., m, L) besides; costs the (m x n) matrix that `read` avoids."""
    scores = logits(query, field.key, field.mask)
    log_mass = torch.logsumexp(scores, dim=-1)
    probability = cell_probability(torch.exp(scores - log_mass.unsqueeze(-1)), field)
    mean = probability @ field.value
    second = (probability @ field.value.square().sum(-1, keepdim=True)).squeeze(-1)
    return Beam(_reading(mean, second, log_mass, field, tau), probability)


def _reading(centred_mean: Tensor, second_moment: Tensor, log_mass: Tensor, field: Field, tau: float) -> Reading:
    evidence = torch.exp(log_mass + math.log(tau))
    # Rounding may take equal values a hair below 0; an epsilon instead of 0 would invent disagreement.
    disagreement = (second_moment - centred_mean.square().sum(-1)).clamp(min=0)
    return Reading(centred_mean + field.centre, evidence, disagreement, torch.sqrt(disagreement * phi(evidence)))
