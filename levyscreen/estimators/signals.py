"""The free signals of eq:signals and the deviation: read from the pass that predicts, nothing fitted, nothing drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.types import Batch, Signals


class _Signal(Estimator):
    with_deviation = False

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """One pass, its prediction and its signal."""
        prediction = self.network.predict(batch, self.with_deviation)
        return Estimate(prediction.mean, self.of(prediction.signals))

    def of(self, signals: Signals) -> Tensor:
        """The one that this estimator reads, (R, m)."""
        raise NotImplementedError


class Disagreement(_Signal):
    """tr Sigma_V(q), in squared units of the layer's values."""

    title = "disagreement, tr Sigma_V(q) (the paper's)"

    def of(self, signals: Signals) -> Tensor:
        """(R, m)."""
        return signals.disagreement


class SigmaHat(_Signal):
    """sigma_hat(q), in units of the layer's output."""

    title = "sigma_hat(q) (the paper's)"

    def of(self, signals: Signals) -> Tensor:
        """(R, m)."""
        return signals.sigma_hat


class InverseEvidence(_Signal):
    """1/Lambda_q of the heads' mean evidence: an expected number of atoms, inverted."""

    title = "1/evidence, 1/Lambda_q"

    def of(self, signals: Signals) -> Tensor:
        """(R, m)."""
        return 1 / signals.evidence


class Deviation(_Signal):
    """sigma_hat pushed through the head to first order, in z units; the paper has no such row."""

    title = "deviation of the prediction (added here)"
    in_units = True
    with_deviation = True

    def of(self, signals: Signals) -> Tensor:
        """(R, m)."""
        assert signals.deviation is not None
        return signals.deviation
