"""Losses over a batch's hidden targets; each returns the sum over targets, to be divided by their number."""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.config import TrainingConfig
from levyscreen.model.network import Network
from levyscreen.types import Batch


def summed_loss(network: Network, batch: Batch, config: TrainingConfig) -> Tensor:
    """Squared error for a point head; Gaussian negative log-likelihood, for beta-nll reweighted by scale^(2 beta)."""
    kind = network.config.head
    if kind == "point":
        each = (network(batch) - batch.target).square()
    else:
        mean, scale = network.head.mean_and_scale(network.features(batch))
        each = 0.5 * ((mean - batch.target) / scale).square() + scale.log()
        if kind == "beta-nll":
            each = each * scale.detach() ** (2 * config.beta)
    return torch.where(batch.query_mask, each, torch.zeros_like(each)).sum()
