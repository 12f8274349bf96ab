"""K draws of many queries of one record at once: the Poisson random measure itself, drawn once and read by each query.

A unit-rate Poisson process runs upwards from each cell; a query's count in the cell is the number of its points below
lambda_l. For every query the counts are independent and Poisson(lambda_l), as eq:counts asks; queries with similar
intensities have similar counts, so that a drawn course is smooth in time. Drawing anew for each of 10,368 queries would
take 128 Poisson numbers a head and draw; this takes some dozen points a cell for all of them, and looks into a table.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

LEVELS = 256  # of rate, by its root: a rate is rounded by less than 1 / level of itself


class RandomMeasure:
    """How many points lie below each level of each cell, K times: a function of (seed, record id) and `highest`."""

    def __init__(self, highest: Tensor, draws: int, seed: int, record_id: int):
        """`highest` (H, L): the largest rate of each cell that will be asked for."""
        heads, cells = highest.shape
        generator = np.random.default_rng(np.random.SeedSequence((seed, record_id)))
        points = generator.poisson(highest.cpu().numpy()[..., None], (heads, cells, draws))
        place = np.repeat(np.arange(points.size), points.ravel())  # (head, cell, draw) of each point
        level = np.ceil(np.sqrt(generator.random(len(place), dtype=np.float32)) * LEVELS).astype(np.int64)
        level = np.maximum(level, 1)  # a height of exactly 0 is drawn at times; no point lies below a rate of 0
        row = (place // draws * (LEVELS + 1) + level) * draws + place % draws
        table = np.bincount(row, minlength=heads * cells * (LEVELS + 1) * draws)
        counts = torch.from_numpy(table.astype(np.float32)).view(heads, cells, LEVELS + 1, draws)
        self.draws = draws
        self.below = counts.to(highest).cumsum(2).flatten(1, 2)  # (H, L (LEVELS + 1), K)
        self.scale = LEVELS / highest.clamp(min=torch.finfo(highest.dtype).tiny).sqrt().unsqueeze(-1)  # (H, L, 1)
        self.first = torch.arange(cells, device=highest.device).unsqueeze(-1) * (LEVELS + 1)

    def counts(self, head: int, rate: Tensor) -> Tensor:
        """Counts (L, T K) for the rates (L, T) of one head, none above `highest`."""
        level = rate.sqrt().mul_(self.scale[head]).round_().clamp_(max=LEVELS).long()
        return self.below[head].index_select(0, level.add_(self.first).flatten()).view(len(rate), -1)
