"""What estimators with something to fit share: a frozen network's features, of the queries that are no padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from levyscreen.errors import UsageError
from levyscreen.model.network import Network
from levyscreen.types import Batch

Part = TypeVar("Part")


@dataclass(frozen=True)
class Queries:
    """Queries of one batch or several without padding."""

    features: Tensor  # (N, width), see `penultimate`
    prediction: Tensor  # (N,) z units
    target: Tensor  # (N,) z units
    variable: Tensor  # (N,) int64

    @property
    def error(self) -> Tensor:
        """prediction - target, (N,) float64."""
        return self.prediction.double() - self.target.double()


def penultimate(network: Network, batch: Batch) -> Tensor:
    """The head's hidden layer after its GELU, (R, m, width): what the last linear layer reads."""
    return network.head.hidden(network.features(batch), network.beside(batch))


def last_layer(network: Network) -> nn.Linear:
    """From `penultimate` to the prediction."""
    return cast(nn.Linear, network.head.layers[-1])


def predicted(network: Network, features: Tensor, batch: Batch) -> Tensor:
    """Predictions (R, m) from penultimate features (R, m, width): `network(batch)`, had it gone the whole way."""
    return network.head.mixed(last_layer(network)(features)[..., 0], features, network.beside(batch))


@torch.no_grad()
def queries(network: Network, batch: Batch) -> Queries:
    """The real queries of one batch."""
    features, real = penultimate(network, batch), batch.query_mask
    prediction = predicted(network, features, batch)
    return Queries(features[real], prediction[real], batch.target[real], batch.query_variable[real])


def gathered(network: Network, batches: Iterable[Batch]) -> Queries:
    """The real queries of several batches in one. Raises UsageError where there are none."""
    parts = [queries(network, batch) for batch in batches]
    require_queries(sum(len(part.target) for part in parts))
    return Queries(*(torch.cat([getattr(part, name) for part in parts]) for name in Queries.__dataclass_fields__))


def require_queries(count: int) -> None:
    """Raises UsageError where there are none."""
    if not count:
        raise UsageError("nothing to fit on: no query in any of the batches given")


def fitted(part: Part | None, title: str) -> Part:
    """`part`, which `fit` makes. Raises UsageError where that was not called."""
    if part is None:
        raise UsageError(f"{title}: fit() it before asking it")
    return part


def require_scikit_learn(name: str) -> None:
    """Raises UsageError where it is not installed: at once, not after the trainings that a fit comes after."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise UsageError(f"{name} needs scikit-learn: pip install 'levyscreen[study]'") from None
