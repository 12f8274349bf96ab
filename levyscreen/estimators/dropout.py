"""Monte-Carlo dropout (Gal and Ghahramani, 2016): the spread of K stochastic passes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from levyscreen.estimators.base import Estimate
from levyscreen.estimators.seeding import Seeded
from levyscreen.model.dropout import drawing_from
from levyscreen.model.network import Network
from levyscreen.types import Batch

PASSES = 20


class MonteCarloDropout(Seeded):
    """Dropout as in training, everything else as in inference: the decode layer stays on its mean path."""

    title = f"MC dropout ({PASSES} passes)"
    passes = PASSES
    in_units = True

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, from a pass without dropout, and the spread."""
        return Estimate(self.network(batch), self.spread(batch))

    def spread(self, batch: Batch) -> Tensor:
        """Standard deviation of the passes alone, (R, m), in z units; the same batch, the same passes."""
        return dropout_spread(self.network, batch, PASSES, self.generator(batch))


@torch.no_grad()
def dropout_spread(
    network: Network, batch: Batch, passes: int = PASSES, generator: torch.Generator | None = None
) -> Tensor:
    """Standard deviation of `passes` stochastic passes, (R, m), in z units.

    What comes before the first dropout is computed once. Drawn from `generator`, by default torch.manual_seed's.
    """
    embedded = network.embed.token(batch.time, batch.variable, batch.value)
    attended = network.encode.begin(embedded, batch.mask)

    def one_pass() -> Tensor:
        tokens = network.encode.finish(embedded, attended, batch.mask)
        prediction: Tensor = network(batch, tokens)
        return prediction

    with drawing_from(generator):
        return spread(one_pass() for _ in range(passes))[1]


def spread(predictions: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation of equally shaped predictions, one at a time (Welford, 1962)."""
    count, mean = 1, next(predictions).double()
    square = torch.zeros_like(mean)
    for prediction in predictions:
        count += 1
        step = prediction - mean
        mean = mean + step / count
        square = square + step * (prediction - mean)
    return mean.float(), (square / max(1, count - 1)).sqrt().float()
