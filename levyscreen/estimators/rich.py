"""The free signals of one pass read together by a small network to the error's scale, alone and in the meta-model.

Out of fold on the validation targets of PhysioNet 2012, seed 0 (AUSE; CRPS): the deviation alone 0.392; 0.2263, this
network 0.243; 0.2186, two hundred boosted trees of 16 leaves 0.245; 0.2189. Trees fitted to USHCN ranked well, and
their scale was useless: gamma deviance bears no errors that are nearly 0.

The norm of the head's gradient as a fifth column was tried and left out. On test targets of seeds 0 to 2 it takes 0.001
to 0.002 off the AUSE and 0.0001 off the CRPS, and ranks patients no better (Spearman 0.720 with it, 0.722 without).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levyscreen.calibrate.reader import EVERY, SIGNALS, Reader, known_columns
from levyscreen.config import NEARBY
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.estimators.fitting import fitted, require_queries
from levyscreen.learn.reader import fit_reader
from levyscreen.questions import Answers, answer, joined
from levyscreen.types import Batch


class Rich(Estimator):
    """Standard deviation of the error, by CRPS; fitted on validation targets alone."""

    title = "all signals read together (added here)"
    needs_labels = True
    all_folds = True
    in_units = True
    reads_columns: tuple[str, ...] = SIGNALS  # of calibrate/reader.py, as many as the network has
    _reader: Reader | None = None

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Fits on `validation`, in whole and without each fifth of the patients. UsageError where it has not two.

        A record may stand there several times, with other targets; `on_validation` is asked for the first of them.
        """
        require_queries(sum(int(batch.query_mask.sum()) for batch in validation))
        answers = joined([self.answers(batch) for batch in validation])
        error, variables = answers.truth - answers.prediction, self.network.config.variables
        patient = answers.record if self.patients is None else self.patients[answers.record]
        try:
            known = known_columns(answers)
            reads = tuple(name for name in self.reads_columns if name in known)
            self._reader, apart = fit_reader(answers, error, patient, variables, seed, reads)
        except CalibrationError as refused:
            raise UsageError(str(refused)) from refused
        self._apart = {record: apart[answers.record == record] for record in np.unique(answers.record).tolist()}

    def answers(self, batch: Batch) -> Answers:
        """What there is to be read."""
        return answer(self.network, batch)

    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, and the standard deviation of its error."""
        answers = self.answers(batch)
        scale = fitted(self._reader, self.title)(answers)
        return Estimate(_placed(answers.prediction, batch), _placed(scale, batch))

    def on_validation(self, batch: Batch) -> Estimate:
        """Of each record what a network says that was fitted without it; the targets are those of `fit`."""
        estimate = self(batch)
        for row, record in enumerate(batch.record.tolist()):
            if record in self._apart:
                asked = batch.query_mask[row]
                apart = torch.from_numpy(self._apart[record][: int(asked.sum())])
                estimate.uncertainty[row, asked] = apart.to(estimate.uncertainty)
        return estimate


class MetaModel(Rich):
    """As `calibrate` fits it by default: signals, surroundings and, where there is a gate, its candidates."""

    title = "meta-model (added here)"
    reads_columns = EVERY


class FeaturesAlone(Rich):
    """The meta-model without what the pass emits: variable, prediction and surroundings."""

    title = "features alone, read (added here)"
    reads_columns = ("prediction", *NEARBY)


def _placed(values: NDArray[np.float32], batch: Batch) -> Tensor:
    """Values of the real queries (N,) where these stand in the batch, (R, m); 0 where padded."""
    found = torch.zeros(batch.query_mask.shape, device=batch.query_mask.device)
    found[batch.query_mask] = torch.from_numpy(values).to(found)
    return found
