"""Networks trained by likelihood, which predict a scale beside each mean; each ranks its own errors."""

from __future__ import annotations

import torch

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.types import Batch


class _Likelihood(Estimator):
    needs_labels = True
    in_units = True

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """Mean and scale of the network's Gaussian, in z units."""
        return Estimate(*self.network.mean_and_scale(batch))


class GaussianNll(_Likelihood):
    """Trained by Gaussian negative log-likelihood."""

    title = "heteroscedastic Gaussian-NLL head"
    reads = "nll"


class BetaNll(_Likelihood):
    """The same, reweighted by scale^(2 beta) (Seitzer and others, 2022)."""

    title = "beta-NLL head (beta=0.5)"
    reads = "beta-nll"


class TnpD(_Likelihood):
    """A Transformer Neural Process on its deterministic path (Nguyen and Grover, 2022)."""

    title = "TNP-D, natively probabilistic"
    reads = "tnp-d"
