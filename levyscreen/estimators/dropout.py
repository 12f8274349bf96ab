"""Monte-Carlo dropout (Gal and Ghahramani, 2016): the spread of K stochastic passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from levyscreen.model.dropout import Dropout, drawing_from
from levyscreen.model.network import Network
from levyscreen.types import Batch


@contextmanager
def dropout_on(network: Network) -> Iterator[None]:
    """Dropout as in training, everything else as in inference; the decode layer stays on its mean path."""
    layers = [module for module in network.modules() if isinstance(module, Dropout)]
    for layer in layers:
        layer.train()
    try:
        yield
    finally:
        for layer in layers:
            layer.eval()


@torch.no_grad()
def dropout_spread(
    network: Network, batch: Batch, passes: int = 20, generator: torch.Generator | None = None
) -> Tensor:
    """Standard deviation of `passes` stochastic passes, (R, m), in z units.

    What comes before the first dropout is computed once. On a CPU drawn from `generator`, by default from
    torch.manual_seed's. Dropout must be on, see `dropout_on`.
    """
    embedded = network.embed.token(batch.time, batch.variable, batch.value)
    attended = network.encode.begin(embedded, batch.mask)

    def one_pass() -> Tensor:
        tokens = network.encode.finish(embedded, attended, batch.mask)
        prediction: Tensor = network.head(network.features(batch, tokens))
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
