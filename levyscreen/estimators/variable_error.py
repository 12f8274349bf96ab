"""The error that the query's variable had on validation records: what a variable alone says, a constant for each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.estimators.fitting import fitted, gathered
from levyscreen.types import Batch


class VariableError(Estimator):
    """Mean absolute validation error of each variable, in z units; the paper has no such row.

    No standard deviation, so not `in_units`. A variable without a validation query gets the mean of all queries.
    """

    title = "each variable's mean error on validation"
    passes = 0
    needs_labels = True
    _error: Tensor | None = None  # (variables,)

    def fit(self, train: Sequence[Batch], validation: Sequence[Batch], seed: int = 0) -> None:
        """Takes the means. Raises UsageError where `validation` has no query."""
        found = gathered(self.network, validation)
        error, variables = found.error.abs(), self.network.config.variables
        count = torch.bincount(found.variable, minlength=variables)
        total = torch.bincount(found.variable, error, minlength=variables)
        self._error = torch.where(count > 0, total / count.clamp(min=1), error.mean()).float()

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point model's prediction, and its variable's error."""
        return Estimate(self.network(batch), fitted(self._error, self.title)[batch.query_variable])
