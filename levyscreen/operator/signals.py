"""The three free signals of eq:signals, a head at a time, and the beam that draws and the deviation need besides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.kernel import weighted_mean_and_mass
from levyscreen.operator.phi import phi


@dataclass(frozen=True)
class Reading:
    """What one head reads at each query; leading axes (...) are records and heads."""

    mean: Tensor  # (..., m, d) abar(q)
    evidence: Tensor  # (..., m) Lambda_q
    disagreement: Tensor  # (..., m) tr Sigma_V(q)
    sigma_hat: Tensor  # (..., m)


def read(query: Tensor, field: Field, tau: float | Tensor) -> Reading:
    """Mean path and signals of queries (..., m, d): one attention over values of width d + 1 (thm:variance).

    Unit queries and the paper's tau, or sharpened ones and their `rate`, which broadcasts to (..., m).
    """
    value = torch.cat([field.key_value, field.key_second_moment.unsqueeze(-1)], dim=-1)  # (..., n, d + 1)
    moments, log_mass = weighted_mean_and_mass(query, field.key, value, field.mask)
    return _reading(moments[..., :-1], moments[..., -1], tau * torch.exp(log_mass), field)


@dataclass(frozen=True)
class Beam:
    """The intensity itself, cached: what the deviation and K draws are computed from."""

    reading: Reading
    intensity: Tensor  # (..., m, L) lambda_l / tau
    total: Tensor  # (..., m, 1) its sum over the cells
    centred_mean: Tensor  # (..., m, d) abar - centre

    @property
    def probability(self) -> Tensor:
        """p_l, (..., m, L)."""
        return self.intensity / self.total


def read_beam(query: Tensor, field: Field, tau: float | Tensor) -> Beam:
    """As `read`, and lambda_l besides; costs the (m x n) matrix that `read` avoids.

    The cosine bounds ln kappa by g sqrt(d), so it is exponentiated as it is; rows of D sum to 1, so the mass of all
    cells is that of all keys (eq:dintensity).
    """
    binary_log = (query @ field.key.transpose(-1, -2)) * (math.sqrt(query.shape[-1]) / math.log(2))  # (..., m, n)
    mass = field.mass if field.mask is None else field.mass * field.mask.unsqueeze(-1)
    intensity = binary_log.exp2_() @ mass  # exp2: twice as fast as exp
    total = intensity.sum(dim=-1, keepdim=True)
    value = torch.cat([field.value, field.value.square().sum(-1, keepdim=True)], dim=-1)
    moments = (intensity @ value) / total
    centred_mean = moments[..., :-1]
    reading = _reading(centred_mean, moments[..., -1], tau * total.squeeze(-1), field)
    return Beam(reading, intensity, total, centred_mean)


def _reading(centred_mean: Tensor, second_moment: Tensor, evidence: Tensor, field: Field) -> Reading:
    # Rounding may take equal values a hair below 0; an epsilon instead of 0 would invent disagreement.
    disagreement = (second_moment - centred_mean.square().sum(-1)).clamp(min=0)
    return Reading(centred_mean + field.centre, evidence, disagreement, torch.sqrt(disagreement * phi(evidence)))
