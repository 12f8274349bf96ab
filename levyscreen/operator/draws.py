"""K-draw mode (sec:modes): redraw the cell counts under a cached beam, average the field at the atoms."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.signals import Beam, read_beam


def draw(beam: Beam, field: Field, draws: int, seed: int, record_id: Tensor, query: Tensor) -> Tensor:
    """`draws` samples of the operator's output, eq:counts and eq:dout: (draws, R, H, m, d).

    `record_id` (R,) and `query` (R, m) are integers that name what is asked, the same whatever batch they stand in;
    each query has its own stream of counts, keyed by (seed, record id, query). A draw without atoms returns the mean.
    """
    rate = beam.reading.evidence.unsqueeze(-1) * beam.probability  # (R, H, m, L) lambda_l
    counts = torch.from_numpy(
        _counts(rate.cpu().double().numpy(), draws, seed, record_id.cpu().numpy(), query.cpu().numpy())
    )
    counts = counts.to(rate)  # (draws, R, H, m, L)
    atoms = counts.sum(-1, keepdim=True)
    sampled = (counts @ field.value) / atoms.clamp(min=1) + field.centre
    return torch.where(atoms > 0, sampled, beam.reading.mean)


@torch.no_grad()
def draw_once(query: Tensor, field: Field, tau: float | Tensor) -> Tensor:
    """One sample of the output at queries (..., m, d), for training: (..., m, d), by torch's own random state.

    `draw` names every query's stream, so that an answer can be had again; that takes a generator a query, and a step of
    training asks thousands of them once. The same law otherwise.
    """
    beam = read_beam(query, field, tau)
    counts = torch.poisson(beam.reading.evidence.unsqueeze(-1) * beam.probability)  # (..., m, L)
    atoms = counts.sum(-1, keepdim=True)
    sampled = (counts @ field.value) / atoms.clamp(min=1) + field.centre
    return torch.where(atoms > 0, sampled, beam.reading.mean)


def straight_through(mean: Tensor, sample: Tensor) -> Tensor:
    """The sample's value with the mean's gradient (Bengio and others, 2013)."""
    return mean + (sample - mean).detach()


def _counts(rate: np.ndarray, draws: int, seed: int, record_id: np.ndarray, query: np.ndarray) -> np.ndarray:
    counts = np.empty((draws, *rate.shape), dtype=np.float32)
    for row, identity in enumerate(record_id):
        for column, name in enumerate(query[row]):
            generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, int(identity), int(name)))))
            at = rate[row, :, column]  # (H, L)
            counts[:, row, :, column] = generator.poisson(at, size=(draws, *at.shape))
    return counts
