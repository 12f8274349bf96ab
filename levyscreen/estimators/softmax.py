"""Three read-outs of a control's own attention weights, on its own errors (app:details).

The paper's kernel kappa is the bounded one of eq:kernel, and its control is "softmax cross-attention", whose logits are
not: it does not say which of the two its read-outs are of. So there are two controls, `softmax` and `cosine`; what they
show is in docs/study.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from levyscreen.errors import ModelError
from levyscreen.estimators.base import Estimate, Estimator
from levyscreen.model.decode import CosineDecode, SoftmaxDecode
from levyscreen.model.network import Network
from levyscreen.operator import output_gradient, phi
from levyscreen.types import Batch


@dataclass(frozen=True)
class Attention:
    """What the control's one cross-attention layer computes on its way."""

    log_kappa: Tensor  # (R, H, m, n) scaled inner products; -inf for padding
    value: Tensor  # (R, H, n, d)

    @property
    def alpha(self) -> Tensor:
        """Attention weights (R, H, m, n)."""
        return torch.softmax(self.log_kappa, dim=-1)


@torch.no_grad()
def attended(network: Network, batch: Batch, title: str) -> tuple[Tensor, Attention]:
    """A control's prediction (R, m) and its attention. Raises ModelError, by the title, for another network."""
    tokens = network.tokens(batch)
    if not isinstance(network.decode, SoftmaxDecode):
        raise ModelError(f"{title} reads the softmax control, and this model does not decode by softmax")
    query, key, value = network.decode.project(network.embed.query(batch.query_time, batch.query_variable), tokens)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    attention = Attention(scores.masked_fill(~batch.mask[:, None, None, :], -torch.inf), value)
    return network(batch, tokens), attention


class _Control(Estimator):
    reads = "softmax"

    def __call__(self, batch: Batch) -> Estimate:
        """The control's prediction, and the heads' mean of the read-out."""
        prediction, attention = attended(self.network, batch, self.title)
        return Estimate(prediction, self.of(attention))

    def of(self, attention: Attention) -> Tensor:
        """(R, m)."""
        raise NotImplementedError


class Dispersion(_Control):
    """sum_i alpha_i |v_i|^2 - |sum_i alpha_i v_i|^2, in squared units of the layer's values."""

    title = "softmax value dispersion (control)"

    def of(self, attention: Attention) -> Tensor:
        """(R, m)."""
        return dispersion(attention)


class Partition(_Control):
    """The reciprocal partition function 1 / sum_i kappa_i of the heads' mean sum, by its logarithm.

    kappa is unbounded here and overflows float32 where its logarithm does not; ranks are those of the reciprocal.
    """

    title = "softmax partition function (control)"

    def of(self, attention: Attention) -> Tensor:
        """-ln of the mean over heads of sum_i kappa_i, (R, m)."""
        return -log_partition(attention)


class Entropy(_Control):
    """-sum_i alpha_i ln alpha_i, in nats."""

    title = "softmax attention entropy (control)"

    def of(self, attention: Attention) -> Tensor:
        """(R, m)."""
        return entropy(attention)


def dispersion(attention: Attention) -> Tensor:
    """The heads' mean of the spread of their values, (R, m)."""
    alpha, value = attention.alpha, attention.value
    # A constant changes no dispersion, but without it float32 loses the difference of values far from 0. The first
    # reading's values are such a constant, whatever padding follows.
    value = value - value[:, :, :1]
    mean = alpha @ value
    second = (alpha @ value.square().sum(-1, keepdim=True)).squeeze(-1)
    return (second - mean.square().sum(-1)).clamp(min=0).mean(1)


def log_partition(attention: Attention) -> Tensor:
    """ln of the heads' mean of sum_i kappa_i, (R, m)."""
    return torch.logsumexp(attention.log_kappa, dim=(1, 3)) - math.log(attention.log_kappa.shape[1])


def entropy(attention: Attention) -> Tensor:
    """The heads' mean, in nats, (R, m)."""
    return torch.special.entr(attention.alpha).sum(-1).mean(1)


class CosineDispersion(Dispersion):
    """Of the control with bounded logits."""

    title = "value dispersion (cosine control)"
    reads = "cosine"


class CosinePartition(Partition):
    """Of the control with bounded logits."""

    title = "partition function (cosine control)"
    reads = "cosine"


class CosineEntropy(Entropy):
    """Of the control with bounded logits."""

    title = "attention entropy (cosine control)"
    reads = "cosine"


class CosineDeviation(Estimator):
    """The deviation of `estimators/signals.py` with every reading its own cell: rates tau kappa_i, values v_i.

    What the bounded kernel and the Poisson count give without the field. kappa is bounded there, so the count is known.
    """

    title = "deviation of the prediction (cosine control)"
    reads = "cosine"
    in_units = True

    def __call__(self, batch: Batch) -> Estimate:
        """The control's prediction, and sqrt(sum_h phi(tau sum kappa) sum_i alpha_i (g . (v_i - a))^2), z units."""
        network = self.network
        prediction, attention = attended(network, batch, self.title)
        alpha = attention.alpha
        mean = alpha @ attention.value  # (R, H, m, d)
        _, gradient = output_gradient(lambda a: network.read_out(a, batch), mean.transpose(1, 2).flatten(2))
        gradient = gradient.unflatten(-1, (alpha.shape[1], -1)).transpose(1, 2)  # (R, H, m, d)
        offset = gradient @ attention.value.transpose(-1, -2) - (gradient * mean).sum(-1, keepdim=True)
        spread = (alpha * offset.square()).sum(-1)  # (R, H, m)
        decode = cast(CosineDecode, network.decode)
        evidence = decode.sharpness.rate(network.config.tau) * torch.exp(torch.logsumexp(attention.log_kappa, dim=-1))
        return Estimate(prediction, torch.sqrt((phi(evidence) * spread).sum(1)))
