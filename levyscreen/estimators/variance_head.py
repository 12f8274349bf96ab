"""A variance head fitted after training on a frozen network's features (app:details).

A few errors far beyond all others outweigh them in the likelihood, in a step of the training and in a sum over the
validation targets. So gradients are clipped, as in every training here, and the epoch is chosen by CRPS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from levyscreen.calibrate import crps_gaussian
from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.estimators.fitting import Queries, fitted, gathered, penultimate, predicted
from levyscreen.model.heads import SCALE_FLOOR
from levyscreen.types import Batch

EPOCHS, PATIENCE = 100, 10
BATCH_QUERIES = 1_024
RATE, WEIGHT_DECAY, CLIP = 1e-3, 0.01, 1.0
# Of the logarithm of a variance: from the floor of the likelihood heads up to where no z-scored error lies.
LOWEST, HIGHEST = 2 * math.log(SCALE_FLOOR), 10.0


class _LogVariance(nn.Module):
    """Standardised features -> hidden layer of the same width -> log variance of the error, (..., width) -> (...,)."""

    def __init__(self, train: Queries):
        super().__init__()
        width = train.features.shape[-1]
        self.mean, self.scale = train.features.mean(0), train.features.std(0, correction=0).clamp(min=1e-6)
        last = nn.Linear(width, 1)
        nn.init.zeros_(last.weight)  # starts from one variance for all
        nn.init.constant_(last.bias, float(train.error.square().mean().log().clamp(LOWEST, HIGHEST)))
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), last).to(self.mean)

    def forward(self, features: Tensor) -> Tensor:
        raw: Tensor = self.layers((features - self.mean) / self.scale).squeeze(-1)
        return raw.clamp(LOWEST, HIGHEST)


class VarianceHead(Estimator):
    """A small network that predicts each error's variance, by Gaussian likelihood; the predictor stays as it is."""

    title = "post-hoc variance head (frozen backbone)"
    needs_labels = True
    in_units = True
    _head: _LogVariance | None = None

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Trains on training targets, keeps what is best on validation. UsageError where either has no query."""
        self._head = fit_log_variance(gathered(self.network, train), gathered(self.network, validation), seed)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, and the standard deviation of its error, in z units."""
        features = penultimate(self.network, batch)
        scale = (0.5 * fitted(self._head, self.title)(features)).exp()
        return Estimate(predicted(self.network, features, batch), scale)


def fit_log_variance(train: Queries, validation: Queries, seed: int) -> _LogVariance:
    """The head of the best epoch on `validation`; same seed, same head. Global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        head = _LogVariance(train)
    optimiser = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    order = torch.Generator().manual_seed(seed)
    best, least, waited = deepcopy(head), _crps(head, validation), 0
    for _ in range(EPOCHS):
        _train_once(head, train, optimiser, order)
        crps, waited = _crps(head, validation), waited + 1
        if crps < least:
            best, least, waited = deepcopy(head), crps, 0
        if waited >= PATIENCE:
            break
    return best.requires_grad_(False)


def _train_once(head: _LogVariance, train: Queries, optimiser: torch.optim.Optimizer, order: torch.Generator) -> None:
    """One epoch over the queries, in an order drawn from `order`."""
    error = train.error.to(train.features)
    for rows in torch.randperm(len(error), generator=order).to(error.device).split(BATCH_QUERIES):
        optimiser.zero_grad(set_to_none=True)
        _loss(head(train.features[rows]), error[rows]).backward()
        nn.utils.clip_grad_norm_(head.parameters(), CLIP)
        optimiser.step()


@torch.no_grad()
def _crps(head: _LogVariance, queries: Queries) -> float:
    """Mean over the queries, z units."""
    scale = (0.5 * head(queries.features)).exp().cpu()
    return float(crps_gaussian(np.zeros(len(scale)), scale.numpy(), queries.error.cpu().numpy()).mean())


def _loss(log_variance: Tensor, error: Tensor) -> Tensor:
    """Mean Gaussian negative log-likelihood, up to factor and constant."""
    return (error.square() * (-log_variance).exp() + log_variance).mean()
