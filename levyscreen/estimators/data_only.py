"""Five heuristics of the observation pattern alone: no model, no pass; they rank the point model's errors."""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.types import Batch

WINDOW = 1 / 16  # of the record's time span, to either side of the query


def _gap(batch: Batch) -> Tensor:
    """|query's time - reading's time|, (R, m, n), in horizons of the stay."""
    return (batch.query_time.unsqueeze(2) - batch.time.unsqueeze(1)).abs()


def _same_variable(batch: Batch) -> Tensor:
    """Which readings are of the query's variable, (R, m, n); none of them padding."""
    return (batch.query_variable.unsqueeze(2) == batch.variable.unsqueeze(1)) & batch.mask.unsqueeze(1)


def _nearest(gap: Tensor, among: Tensor) -> Tensor:
    """The smallest gap, (R, m); where there is no reading to be near to, the whole stay: no gap is longer."""
    return torch.where(among, gap, torch.ones_like(gap)).amin(2)


def _span(batch: Batch) -> Tensor:
    """From a record's first reading to its last, (R, 1, 1); hidden readings are not part of the pattern."""
    last = batch.time.masked_fill(~batch.mask, -torch.inf).amax(1)
    first = batch.time.masked_fill(~batch.mask, torch.inf).amin(1)
    return (last - first)[:, None, None]


class _Heuristic(Estimator):
    passes = 0

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point model's prediction, and what the pattern says of it."""
        return Estimate(self.network(batch), self.of(batch))

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        raise NotImplementedError


class SameVariableGap(_Heuristic):
    """Time to the nearest reading of the query's variable, in horizons; 1 where there is none."""

    title = "time gap, same variable"

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        return _nearest(_gap(batch), _same_variable(batch))


class AnyVariableGap(_Heuristic):
    """Time to the nearest reading of any variable, in horizons."""

    title = "time gap, any variable"

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        return _nearest(_gap(batch), batch.mask.unsqueeze(1))


class SameVariableCount(_Heuristic):
    """The number of readings of the query's variable, negated."""

    title = "same-variable count"

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        return -_same_variable(batch).sum(2).to(batch.query_time.dtype)


class WindowedDensity(_Heuristic):
    """The number of readings of the query's variable within 1/16 of the record's span of it, negated."""

    title = "windowed density"

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        near = _same_variable(batch) & (_gap(batch) <= WINDOW * _span(batch))
        return -near.sum(2).to(batch.query_time.dtype)


class RecordLength(_Heuristic):
    """The number of readings of the whole record, negated: the same for all its queries."""

    title = "record length (added here)"

    def of(self, batch: Batch) -> Tensor:
        """(R, m)."""
        return -batch.mask.sum(1, keepdim=True).to(batch.query_time.dtype).expand_as(batch.query_time)
