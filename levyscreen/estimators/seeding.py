"""Random numbers of estimators that draw when asked: from a seed and the batch alone, whichever thread asks when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from levyscreen.estimators.base import Estimator
from levyscreen.types import Batch


class Seeded(Estimator):
    """An estimator whose answers are drawn; nothing is fitted, but `fit` says from which seed to draw."""

    seed: int = 0

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Keeps the seed."""
        self.seed = seed

    def generator(self, batch: Batch) -> torch.Generator:
        """A new generator on the batch's device, seeded by the seed and the batch's first record."""
        state = np.random.SeedSequence((self.seed, int(batch.record[0]))).generate_state(1)[0]
        return torch.Generator(batch.time.device).manual_seed(int(state))
