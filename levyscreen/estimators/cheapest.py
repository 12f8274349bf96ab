"""The cheapest baselines a sceptic would try: two predictors without a model, and a ranking by lot."""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.model.neighbours import LAST, NEXT, Around, Timetable
from levyscreen.types import Batch

SEED = 0  # of the ranking by lot


class Interpolation(Estimator):
    """Linear between the patient's own last and next reading of the variable; the one there is; else the mean of all.

    Its uncertainty is the time to the nearest of them, in horizons; 1 where there is none.
    """

    title = "linear interpolation (added here)"
    passes = 0

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """z units."""
        around = self.around(batch)
        return Estimate(self.value(around), self.gap(around))

    def around(self, batch: Batch) -> Around:
        """The readings around each query."""
        variables = self.network.config.variables
        table = Timetable.of(batch.time, batch.variable, batch.value, batch.mask, variables)
        return table.around(batch.query_variable, batch.query_time)

    def value(self, around: Around) -> Tensor:
        """(R, m) z units."""
        return around.interpolated

    def gap(self, around: Around) -> Tensor:
        """(R, m) horizons."""
        far = torch.ones_like(around.distance)
        return torch.where(around.there > 0, around.distance, far)[..., LAST : NEXT + 1].amin(-1)


class LastValue(Interpolation):
    """The patient's own last reading of the variable, carried forward; before the first one, the mean of all patients.

    Its uncertainty is the time since then, in horizons; 1 where there is none.
    """

    title = "last value carried forward (added here)"

    def value(self, around: Around) -> Tensor:
        """(R, m) z units."""
        return around.value[..., LAST]

    def gap(self, around: Around) -> Tensor:
        """(R, m) horizons."""
        far = torch.ones_like(around.distance)
        return torch.where(around.there > 0, around.distance, far)[..., LAST]


class ByLot(Estimator):
    """The point model's predictions, ranked by lot: what any ranking must beat. The same query, the same lot."""

    title = "by lot (added here)"
    passes = 0

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """Uniform in (0, 1)."""
        shape = batch.query_mask.shape
        rows = [
            torch.rand(shape[1], generator=torch.Generator().manual_seed(SEED + 1 + int(record)))
            for record in batch.record
        ]
        return Estimate(self.network(batch), torch.stack(rows).to(batch.query_time))
