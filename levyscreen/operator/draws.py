"""K-draw mode (sec:modes): redraw the cell counts under a cached beam, average the field at the atoms."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.signals import Beam


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


def _counts(rate: np.ndarray, draws: int, seed: int, record_id: np.ndarray, query: np.ndarray) -> np.ndarray:
    counts = np.empty((draws, *rate.shape), dtype=np.float32)
    for row, identity in enumerate(record_id):
        for column, name in enumerate(query[row]):
            generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, int(identity), int(name)))))
            at = rate[row, :, column]  # (H, L)
            counts[:, row, :, column] = generator.poisson(at, size=(draws, *at.shape))
    return counts
