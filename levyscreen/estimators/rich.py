"""The free signals of one pass read together: boosted trees from signals, variable and prediction to the error.

Chosen on out-of-fold validation targets of PhysioNet 2012, seed 0 (AUSE; CRPS with one scale for all): the deviation
alone 0.392; 0.2263. These trees 0.245; 0.2189. Of 8 leaves instead of 16, gamma deviance 0.248; 0.2192, squared error
of log|error| 0.248; 0.2193, absolute error 0.250; 0.2194, Poisson deviance 0.253; 0.2195. A network of two hidden
layers of 64 trained by CRPS 0.249; 0.2188, at three times the time.

The norm of the head's gradient was tried as a further signal and left out: 0.244; 0.2188, and patients no better
ranked. It would be at hand: the deviation needs that gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from levyscreen.errors import UsageError
from levyscreen.estimators.base import Estimate, Estimator, Networks
from levyscreen.estimators.fitting import fitted, require_scikit_learn
from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.ensemble import HistGradientBoostingRegressor

    from levyscreen.model.network import Prediction

FOLDS = 5
TREES, LEAVES, RATE = 200, 16, 0.05
LEAST_IN_LEAF, LEAVES_OF_ALL = 50, 20  # queries of a leaf; of few queries, a twentieth
CATEGORIES = 255  # the most that scikit-learn's trees tell apart
SMALLEST = 1e-8  # of a signal before its logarithm, and of an error: a gamma deviance has none of 0
# A Gaussian's standard deviation over its mean absolute value.
SCALE_OF_MEAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class Asked:
    """What the trees read of each query and learn from it, (N, ...) each."""

    columns: NDArray[np.float64]  # (N, 5), see `columns`
    error: NDArray[np.float64]  # |prediction - target|, z units
    record: NDArray[np.int64]


@dataclass(frozen=True)
class Trees:
    """Of all records, and for each fold of them of the others."""

    whole: HistGradientBoostingRegressor
    without: tuple[HistGradientBoostingRegressor, ...]
    fold: dict[int, int]  # of each record that was fitted on


class Rich(Estimator):
    """Mean |error| by gamma deviance, as the scale of the Gaussian that has it; fitted on validation targets alone."""

    title = "free signals, read by a richer calibrator"
    needs_labels = True
    in_units = True
    _trees: Trees | None = None

    def __init__(self, networks: Networks):
        """Raises UsageError without scikit-learn."""
        super().__init__(networks)
        require_scikit_learn("rich")

    @torch.no_grad()
    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Fits on `validation`, in whole and without each fold of records. UsageError where it has not two records."""
        answers = ((batch, self.network.predict(batch)) for batch in validation)
        self._trees = fit_trees(gathered(answers), self.network.config.variables, seed)

    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, and the standard deviation of its error; scikit-learn works on the CPU."""
        return self._estimate(batch, np.full(len(batch.record), -1))

    def on_validation(self, batch: Batch) -> Estimate:
        """Of each record what the trees say that were fitted without it."""
        fold = fitted(self._trees, self.title).fold
        return self._estimate(batch, np.array([fold.get(record, -1) for record in batch.record.tolist()]))

    @torch.no_grad()
    def _estimate(self, batch: Batch, fold: NDArray[np.int64]) -> Estimate:
        """By the trees without the fold of each record, (R,); -1: of all."""
        trees = fitted(self._trees, self.title)
        prediction = self.network.predict(batch)
        read = columns(prediction, batch.query_variable).cpu().numpy()  # (R, m, 5)
        error = np.empty(read.shape[:2])
        for which in np.unique(fold):
            of_fold, model = fold == which, trees.whole if which < 0 else trees.without[which]
            error[of_fold] = model.predict(read[of_fold].reshape(-1, read.shape[-1])).reshape(-1, read.shape[1])
        return Estimate(prediction.mean, torch.from_numpy(SCALE_OF_MEAN_ERROR * error).to(prediction.mean))


def columns(prediction: Prediction, variable: Tensor) -> Tensor:
    """(R, m, 5) float64: log deviation, log disagreement, log evidence, prediction, variable."""
    signals = prediction.signals
    assert signals.deviation is not None
    logs = (s.double().clamp(min=SMALLEST).log() for s in (signals.deviation, signals.disagreement, signals.evidence))
    return torch.stack([*logs, prediction.mean.double(), variable.double()], dim=-1)


def gathered(answers: Iterable[tuple[Batch, Prediction]]) -> Asked:
    """The real queries of several batches. Raises UsageError where there are none."""
    parts: list[tuple[Tensor, ...]] = []
    for batch, prediction in answers:
        real = batch.query_mask
        error, record = (prediction.mean.double() - batch.target.double()).abs(), batch.record[:, None].expand_as(real)
        parts.append(tuple(x[real].cpu() for x in (columns(prediction, batch.query_variable), error, record)))
    if not sum(len(part[0]) for part in parts):
        raise UsageError("nothing to fit on: no query in any of the batches given")
    return Asked(*(torch.cat(column).numpy() for column in zip(*parts, strict=True)))


def fit_trees(asked: Asked, variables: int, seed: int) -> Trees:
    """Same seed, same trees. Raises UsageError for the queries of one record alone."""
    records = np.unique(asked.record)
    if len(records) < 2:
        raise UsageError("one record has no others to be answered by: validation needs two records with queries")
    folds = min(FOLDS, len(records))
    shuffled = np.random.default_rng(seed).permutation(records)
    fold = {int(record): i % folds for i, record in enumerate(shuffled)}
    of_query = np.array([fold[record] for record in asked.record.tolist()])
    without = tuple(_boosted(asked, of_query != k, variables, seed) for k in range(folds))
    return Trees(_boosted(asked, of_query >= 0, variables, seed), without, fold)


def _boosted(asked: Asked, rows: NDArray[np.bool_], variables: int, seed: int) -> HistGradientBoostingRegressor:
    """Beyond what it was fitted on it stays as at the end, so its answers are finite and above 0 for any input."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    settings: dict[str, Any] = {"categorical_features": [asked.columns.shape[1] - 1]} if variables <= CATEGORIES else {}
    model = HistGradientBoostingRegressor(
        loss="gamma",
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        min_samples_leaf=max(1, min(LEAST_IN_LEAF, int(rows.sum()) // LEAVES_OF_ALL)),
        early_stopping=False,
        random_state=seed,
        **settings,
    )
    return model.fit(asked.columns[rows], np.maximum(asked.error[rows], SMALLEST))
