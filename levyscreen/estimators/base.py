"""What every uncertainty estimator of the paper's tables has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levyscreen.model.network import Network
from levyscreen.types import Batch

Networks = Mapping[str, Sequence[Network]]  # trained, by what they are: see Estimator.reads


@dataclass(frozen=True)
class Estimate:
    """What an estimator says of each query of a batch, (R, m) each; where a query is padding, nothing is meant."""

    prediction: Tensor  # z units; what the uncertainty is about, and whose errors it is scored on
    uncertainty: Tensor  # larger: less trusted


class Estimator(ABC):
    """One way to say how far each prediction should be believed (app:details, "Baseline suite").

    Made from trained networks, fitted where it has something to fit, then asked batch by batch.
    """

    title: ClassVar[str]  # its row in a table
    passes: ClassVar[int] = 1  # forward passes a query
    reads: ClassVar[str] = "levy"  # the network that predicts: by its name in study/networks.py
    needs_labels: ClassVar[bool] = False  # fits its uncertainty on targets: the lower block of tab:unc_interp
    all_folds: ClassVar[bool] = False  # fits on every disjoint hiding of the validation records, not on one alone
    in_units: ClassVar[bool] = False  # its uncertainty is a standard deviation of the prediction, calibrated or not
    noise: float = 0.0  # standard deviation that every query has besides, z units; orders nothing, so it is left out
    patients: NDArray[np.int64] | None = None  # whose each validation record is, (R,), where one may have several

    def __init__(self, networks: Networks):
        self.networks = networks[self.reads]  # of an ensemble all members, else one

    @property
    def network(self) -> Network:
        """The one that predicts, or an ensemble's first."""
        return self.networks[0]

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:  # noqa: B027
        """Fits what the estimator has to fit, on training and validation records alone; most have nothing."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Estimate:
        """One batch, in inference mode and without gradients. Called from several threads at once."""

    def on_validation(self, batch: Batch) -> Estimate:
        """What it says of a batch that `fit` was given as validation; scales are fitted to this.

        As asked, which most may be: they have seen no validation target, or too many for each to matter. What learns
        from these targets closely answers each record by a fit without it, or its scale would be too narrow.
        """
        return self(batch)

    def scores_besides(self, batch: Batch) -> dict[str, Tensor]:
        """Scores of each query, (R, m) by name, that prediction and uncertainty do not give; most have none."""
        return {}
