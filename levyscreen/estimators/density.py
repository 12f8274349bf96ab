"""Feature density as in DDU (Mukhoti and others, 2023): how unlike the training queries' a query's features are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from levyscreen.estimators.base import Estimate, Estimator, Networks
from levyscreen.estimators.fitting import fitted, gathered, penultimate, predicted, require_scikit_learn
from levyscreen.types import Batch

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

COMPONENTS = 20  # of the mixture (app:details)
DIMENSIONS = 32  # principal components kept; the paper does not say how many
MOST = 50_000  # training queries fitted on, drawn by the seed: 20 full covariances of 32 dimensions need no more


class Density(Estimator):
    """Negative log density, in nats, of the penultimate features under a Gaussian mixture on their principal axes."""

    title = "DDU-style feature density"
    _model: Pipeline | None = None

    def __init__(self, networks: Networks):
        """Raises UsageError without scikit-learn."""
        super().__init__(networks)
        require_scikit_learn("density")

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Fits both to training queries; no target is read. Raises UsageError where there is no query."""
        from sklearn.decomposition import PCA
        from sklearn.mixture import GaussianMixture
        from sklearn.pipeline import make_pipeline

        features = gathered(self.network, train).features.double().cpu().numpy()
        if len(features) > MOST:
            features = features[np.random.default_rng(seed).choice(len(features), MOST, replace=False)]
        axes = PCA(min(DIMENSIONS, *features.shape), svd_solver="full")
        mixture = GaussianMixture(min(COMPONENTS, len(features)), random_state=seed)
        self._model = make_pipeline(axes, mixture).fit(features)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction; scikit-learn scores on the CPU."""
        features = penultimate(self.network, batch)
        flat = features.flatten(0, 1).double().cpu().numpy()
        density = torch.from_numpy(fitted(self._model, self.title).score_samples(flat))
        uncertainty = -density.view(features.shape[:2]).to(features)
        return Estimate(predicted(self.network, features, batch), uncertainty)
