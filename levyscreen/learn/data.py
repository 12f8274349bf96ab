"""A cohort made ready for training: cleaned, split by patient, scaled by the training records alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levyscreen.errors import TrainingError
from levyscreen.records.described import patients
from levyscreen.records.hiding import hidden_count, hide, subsample
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.records.readings import Readings
from levyscreen.records.splits import Split, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.config import Protocol
    from levyscreen.records.cohort import Cohort


@dataclass(frozen=True)
class TrainingData:
    """Readings of the whole cohort, long records subsampled if the protocol says so, and who is in which part."""

    readings: Readings
    preprocessor: Preprocessor
    split: Split

    def part(self, rows: NDArray[np.int64]) -> Readings:
        """The readings of some records."""
        return self.readings.take(rows)

    def targets(self, part: Readings, seed: int, least: float | None = None) -> NDArray[np.bool_]:
        """Held-out targets of a part under the protocol.

        With `least`, the share held out is drawn for each record between it and as much above the protocol's share.
        """
        protocol = self.preprocessor.protocol
        if least is None:
            return hide(part, protocol.hide, seed, protocol.max_targets)
        share = np.random.default_rng(seed).uniform(least, 2 * protocol.hide - least, len(part))
        return hide(part, share, seed, protocol.max_targets)


def prepare(cohort: Cohort, protocol: Protocol, seed: int) -> TrainingData:
    """Raises TrainingError where too few records have enough readings to be split, or would have none hidden."""
    variables = cohort.variables if protocol.name == "ours" else cohort.variables.without_ranges()
    bare = Preprocessor(variables, protocol, (0.0,) * len(variables), (1.0,) * len(variables)).apply(cohort)
    if not hidden_count(np.array(protocol.min_readings), protocol.hide):
        raise TrainingError(
            f"a share of {protocol.hide:g} hides none of {protocol.min_readings} readings: hide more, or ask for more "
            "readings a record"
        )
    eligible = (bare.lengths >= protocol.min_readings) & (bare.record_id >= 0)
    if eligible.sum() < 20:
        raise TrainingError(
            f"cohort {cohort.name} has {int(eligible.sum())} records with {protocol.min_readings} readings or more; "
            "training needs 20 at least"
        )
    parts = split(bare.record_id, eligible, seed, patients(cohort.records))
    if not all(len(part) for part in vars(parts).values()):
        raise TrainingError(f"cohort {cohort.name} has too few subjects to split 70/15/15 by subject; give it more")
    preprocessor = Preprocessor.fit(cohort, parts.train, variables, protocol)
    return TrainingData(subsample(preprocessor.apply(cohort), protocol.max_readings), preprocessor, parts)


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for one epoch; epoch 0 is the fixed hiding of validation and test."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0] >> np.uint64(2))
