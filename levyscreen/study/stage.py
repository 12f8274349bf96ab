"""What all runs of one dataset and seed share: the split by patient, the hidden targets, the trained networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from levyscreen.learn.data import TrainingData, epoch_seed, prepare
from levyscreen.records.hiding import hide
from levyscreen.study.answers import Questions
from levyscreen.study.datasets import read
from levyscreen.study.networks import Networks

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCREENED = 20, 512  # readings of a record that the paper screens
SCREENING_SEED = 0  # the same targets for every training seed (sec:exp_cohort, Protocol)


@dataclass(frozen=True)
class Stage:
    """One dataset and seed. Targets are hidden by the seed; nothing but `screening` is of another cohort."""

    networks: Networks
    data: Path  # folder of the datasets

    @cached_property
    def training(self) -> TrainingData:
        """The cohort cleaned, split and scaled by its training records."""
        return prepare(self.networks.cohort, self.networks.dataset.protocol, self.networks.seed)

    @cached_property
    def train(self) -> Questions:
        """For what is fitted on a frozen network."""
        return self._of(self.training.split.train)

    @cached_property
    def validation(self) -> Questions:
        """For scales."""
        return self._of(self.training.split.validation)

    @cached_property
    def test(self) -> Questions:
        """For scores."""
        return self._of(self.training.split.test)

    @cached_property
    def screening(self) -> Questions:
        """Of the cohort that no training saw. Raises UsageError where the dataset has none."""
        dataset = self.networks.dataset
        cohort = read(dataset, self.data, dataset.screening)
        readings = self.training.preprocessor.apply(cohort)
        few, many = SCREENED
        chosen = readings.take(np.flatnonzero((readings.lengths >= few) & (readings.lengths <= many)))
        return Questions.of(chosen, hide(chosen, dataset.protocol.hide, SCREENING_SEED), self.networks.device)

    def _of(self, rows: NDArray[np.int64]) -> Questions:
        part = self.training.part(rows)
        return Questions.of(part, self.training.targets(part, epoch_seed(self.networks.seed, 0)), self.networks.device)
