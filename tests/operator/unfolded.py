"""The slow twin of `levyscreen.operator`: one head, straight from the paper's sec:disc, float64 NumPy.

Nothing is folded, factorised, shifted or centred, and no code of the project is used. Shapes: queries (m, d), keys and
values (n, d), time and channel (n,); cell l = l_t * L_v + l_v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expi
from scipy.stats import poisson


@dataclass(frozen=True)
class Unfolded:
    """Every quantity of one head, by the paper's names."""

    lam: np.ndarray  # (m, L) lambda_l
    evidence: np.ndarray  # (m,) Lambda_q
    field: np.ndarray  # (L, d) V_l
    mean: np.ndarray  # (m, d) abar(q)
    disagreement: np.ndarray  # (m,) tr Sigma_V(q)
    sigma_hat: np.ndarray  # (m,)

    @property
    def p(self):
        """(m, L) lambda_l / Lambda_q."""
        return self.lam / self.evidence[:, None]


def unfolded(q, k, v, time, channel, grid, tau, sharpness=1.0):
    q, k, v, time, channel = (np.asarray(x, dtype=np.float64) for x in (q, k, v, time, channel))
    kernel = cosine_kernel(q, k, sharpness)  # (m, n)
    bump = mollifier(time, channel, grid)  # (n, L)
    cells = grid[0] * grid[1]
    lam = np.zeros((len(q), cells))
    for cell in range(cells):  # eq:dintensity
        lam[:, cell] = tau / cells * sum(kernel[:, i] * bump[i, cell] for i in range(len(k)))
    evidence = lam.sum(axis=1)
    field = value_field(v, time, channel, grid)
    p = lam / evidence[:, None]
    mean = np.array([sum(p[j, cell] * field[cell] for cell in range(cells)) for j in range(len(q))])  # eq:dout
    second = np.array([sum(p[j, cell] * field[cell] @ field[cell] for cell in range(cells)) for j in range(len(q))])
    disagreement = np.maximum(second - (mean**2).sum(axis=1), 0)  # eq:signals
    sigma_hat = np.sqrt(disagreement * np.array([phi_by_definition(x) for x in evidence]))
    return Unfolded(lam, evidence, field, mean, disagreement, sigma_hat)


def cosine_kernel(q, k, sharpness=1.0):
    """eq:kernel, (m, n); with a sharpness g, exp(sqrt(d) (1 - g (1 - cos)))."""
    kernel = np.empty((len(q), len(k)))
    for j, query in enumerate(q):
        for i, key in enumerate(k):
            cosine = query @ key / (np.linalg.norm(query) * np.linalg.norm(key))
            kernel[j, i] = np.exp(np.sqrt(q.shape[1]) * (1 - sharpness * (1 - cosine)))
    return kernel


def distances(time, channel, grid):
    """|s*_l - s_i|_eps^2 with eps = (1 / L_t, 1 / L_v), (n, L)."""
    time_cells, channel_cells = (int(x) for x in grid)
    squared = np.empty((len(time), time_cells * channel_cells))
    for lt in range(time_cells):
        for lv in range(channel_cells):
            along_time = ((lt + 0.5) / time_cells - time) * time_cells
            along_channel = ((lv + 0.5) / channel_cells - channel) * channel_cells
            squared[:, lt * channel_cells + lv] = along_time**2 + along_channel**2
    return squared


def mollifier(time, channel, grid):
    """eq:dmoll, (n, L); Delta times a row sums to 1."""
    bump = np.exp(-distances(time, channel, grid) / 2)
    return bump / (bump.sum(axis=1, keepdims=True) / bump.shape[1])


def value_field(v, time, channel, grid):
    """eq:field at the cell centres, (L, d)."""
    psi = np.exp(-distances(time, channel, grid) / 2)
    return np.array(
        [sum(psi[i, cell] * v[i] for i in range(len(v))) / psi[:, cell].sum() for cell in range(psi.shape[1])]
    )


def phi_by_definition(evidence):
    """E[1{Z >= 1} / Z] summed over z, for evidence up to some 1e3 (then scipy loses digits)."""
    spread = 12 * np.sqrt(evidence)
    z = np.arange(max(1, int(evidence - spread - 60)), int(evidence + spread + 60))
    return float((poisson.pmf(z, evidence) / z).sum())


def phi_by_integral(evidence):
    """exp(-L) (Ei(L) - ln L - gamma), eq:howto; below 0.5 it cancels and from 700 on it overflows."""
    return float(np.exp(-evidence) * (expi(evidence) - np.log(evidence) - np.euler_gamma))
