"""Deep ensemble (Lakshminarayanan and others, 2017): mean and spread of models trained from other seeds."""

from __future__ import annotations

import torch

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.estimators.dropout import spread
from levyscreen.types import Batch

MEMBERS = 5


class DeepEnsemble(Estimator):
    """Predicts its members' mean; their standard deviation, in z units, is its uncertainty."""

    title = f"deep ensemble ({MEMBERS}x models)"
    passes = MEMBERS
    reads = "ensemble"
    in_units = True

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """One pass of each member."""
        return Estimate(*spread(member(batch) for member in self.networks))
