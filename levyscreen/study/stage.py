"""What all runs of one dataset and seed share: the split by patient, the hidden targets, the trained networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from levyscreen.learn.data import TrainingData, epoch_seed, prepare
from levyscreen.records.described import patients_of
from levyscreen.records.hiding import fold_count, hide
from levyscreen.study.answers import Questions
from levyscreen.study.datasets import read
from levyscreen.study.networks import Networks

if TYPE_CHECKING:
    import pyarrow as pa
    import torch
    from numpy.typing import NDArray

    from levyscreen.records.readings import Readings
    from levyscreen.types import Batch

SCREENED = 20, 512  # readings of a record that the paper screens
SCREENING_SEED = 0  # the same targets for every training seed (sec:exp_cohort, Protocol)


@dataclass(frozen=True)
class Asked:
    """Records of which readings are hidden and asked for: as the network sees them, and who they are."""

    readings: Readings  # R records
    described: pa.Table  # schema.RECORDS, R rows
    share: float  # hidden of each
    seed: int  # of the hiding that the scores are of
    most: int | None  # targets of a record
    device: torch.device

    def questions(self, again: int = 0, fold: int = 0) -> Questions:
        """Its targets; with `again` those of another hiding, with `fold` the next disjoint ones of the same."""
        return Questions.of(
            self.readings, hide(self.readings, self.share, self.seed + again, self.most, fold), self.device
        )

    def patient(self, record: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whose each target is, (N,), by the row of its record."""
        return patients_of(self.described, record)


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
        return self._asked(self.training.split.train).questions()

    @cached_property
    def validation(self) -> Questions:
        """For scales."""
        return self.validated.questions()

    @cached_property
    def validation_folds(self) -> list[Batch]:
        """Every disjoint hiding of the validation records, that of `validation` first."""
        others = (self.validated.questions(fold=k) for k in range(1, fold_count(self.validated.share)))
        return [batch for asked in (self.validation, *others) for batch in asked.batches]

    @cached_property
    def test(self) -> Questions:
        """For scores."""
        return self.tested.questions()

    @cached_property
    def screening(self) -> Questions:
        """Of the cohort that no training saw. Raises UsageError where the dataset has none."""
        return self.screened.questions()

    @cached_property
    def validated(self) -> Asked:
        """The validation records."""
        return self._asked(self.training.split.validation)

    @cached_property
    def tested(self) -> Asked:
        """The test records."""
        return self._asked(self.training.split.test)

    @cached_property
    def screened(self) -> Asked:
        """The records of the other cohort that the paper screens. Raises UsageError where the dataset has none."""
        dataset = self.networks.dataset
        cohort = read(dataset, self.data, dataset.screening)
        readings = self.training.preprocessor.apply(cohort)
        few, many = SCREENED
        rows = np.flatnonzero((readings.lengths >= few) & (readings.lengths <= many))
        described, share = cohort.records.take(rows), dataset.protocol.hide
        return Asked(readings.take(rows), described, share, SCREENING_SEED, None, self.networks.device)

    def _asked(self, rows: NDArray[np.int64]) -> Asked:
        networks, protocol = self.networks, self.training.preprocessor.protocol
        described, seed = networks.cohort.records.take(rows), epoch_seed(networks.seed, 0)
        part = self.training.part(rows)
        return Asked(part, described, protocol.hide, seed, protocol.max_targets, networks.device)
