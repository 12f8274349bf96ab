"""Last-layer Laplace (Daxberger and others, 2021): a Gaussian posterior over the head's last linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from levyscreen.errors import UsageError
from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.estimators.fitting import fitted, gathered, penultimate, predicted, queries
from levyscreen.model.network import Network
from levyscreen.types import Batch

PRIORS = torch.logspace(-4, 4, 33, dtype=torch.float64)  # precisions tried: four a factor of ten


@dataclass(frozen=True)
class _Posterior:
    """N(trained weights, (X'X / noise + prior I)^-1), in the eigenbasis of X'X; p = width + 1, for the bias."""

    basis: Tensor  # (p, p) float64, eigenvectors in columns
    precision: Tensor  # (p,) float64

    def variance(self, features: Tensor) -> Tensor:
        """Of the prediction, (...,) float64, in squared z units: x' S x of x = (features, 1)."""
        return ((_with_one(features) @ self.basis).square() / self.precision).sum(-1)


class Laplace(Estimator):
    """Posterior standard deviation of the prediction, in z units, without the noise.

    The noise is one number for all queries. With it ranks would be the same, but for float32: it is a thousand times
    the posterior's share and would leave that few digits. Its predictive law has it (`noise`); dropout and the ensemble
    have none.
    Residuals set it and the prior; what tells one query from another is their features, and so the paper counts this
    among the estimators without labels.
    """

    title = "last-layer Laplace"
    in_units = True
    _posterior: _Posterior | None = None

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Curvature and noise from training queries, the prior from validation. UsageError where either has none."""
        curvature, noise = _curvature(self.network, train)
        eigenvalue, basis = torch.linalg.eigh(curvature / noise)
        eigenvalue = eigenvalue.clamp(min=0)  # rounding takes those of idle features a hair below
        found = gathered(self.network, validation)
        shares = (_with_one(found.features) @ basis).square()  # (N, p)
        grid = PRIORS.to(eigenvalue)
        losses = [_loss(shares @ (1 / (eigenvalue + prior)) + noise, found.error) for prior in grid]
        self.noise = math.sqrt(noise)
        self._posterior = _Posterior(basis, eigenvalue + grid[int(torch.stack(losses).argmin())])

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, which is the posterior's mean, and the standard deviation."""
        features = penultimate(self.network, batch)
        variance = fitted(self._posterior, self.title).variance(features)
        return Estimate(predicted(self.network, features, batch), variance.sqrt().float())


@torch.no_grad()
def _curvature(network: Network, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """X'X (p, p), the generalised Gauss-Newton matrix of unit noise, and the mean squared residual (); float64.

    A batch at a time: in double precision the features of all training queries would take hundreds of megabytes.
    """
    design, square, count = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64), 0
    for batch in batches:
        found = queries(network, batch)
        x = _with_one(found.features)
        design, square, count = design.to(x) + x.T @ x, square.to(x) + found.error.square().sum(), count + len(x)
    if not count:
        raise UsageError("nothing to fit on: no query in any of the training batches")
    return design, square / count


def _loss(variance: Tensor, error: Tensor) -> Tensor:
    """Gaussian negative log-likelihood, up to factor and constant."""
    return (error.square() / variance + variance.log()).mean()


def _with_one(features: Tensor) -> Tensor:
    """(..., width) -> (..., width + 1) float64."""
    return F.pad(features.double(), (0, 1), value=1.0)
