"""Losses over a batch's hidden targets; each returns the sum over targets, to be divided by their number."""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.config import HUBER_WIDTH, TrainingConfig
from levyscreen.model.network import Network
from levyscreen.types import Batch


def summed_loss(network: Network, batch: Batch, config: TrainingConfig) -> Tensor:
    """Squared error for a point head; Gaussian negative log-likelihood, for beta-nll reweighted by scale^(2 beta)."""
    kind = network.config.head
    if kind == "point":
        error = network(batch) - batch.target
        each = error.square() if config.loss == "squared" else _huber(error)
    else:
        mean, scale = network.mean_and_scale(batch)
        each = 0.5 * ((mean - batch.target) / scale).square() + scale.log()
        if kind == "beta-nll":
            each = each * scale.detach() ** (2 * config.beta)
    return torch.where(batch.query_mask, each, torch.zeros_like(each)).sum()


def _huber(error: Tensor) -> Tensor:
    """|e| beyond HUBER_WIDTH, and within it a parabola that meets it."""
    return torch.nn.functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none", beta=HUBER_WIDTH)
