"""Deep ensemble (Lakshminarayanan and others, 2017): mean and spread of models trained from other seeds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levyscreen.estimators.dropout import spread
from levyscreen.model.network import Network
from levyscreen.types import Batch


@torch.no_grad()
def ensemble_mean_and_spread(members: Sequence[Network], batch: Batch) -> tuple[Tensor, Tensor]:
    """The ensemble's own prediction and its members' standard deviation, (R, m) each, in z units."""
    return spread(member(batch) for member in members)
