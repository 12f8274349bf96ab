"""From the layer's output to the scalar prediction, and for the NLL heads its own scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.config import CANDIDATES as NAMES
from levyscreen.config import ModelConfig
from levyscreen.model.dropout import Dropout

SCALE_FLOOR = 1e-3  # z-scored units; keeps the likelihood bounded
CANDIDATES = len(NAMES) - 1  # what a prediction may be taken from instead: four of the patient's values, a regression


@dataclass(frozen=True)
class Beside:
    """What the head reads next to the layer's output, from the readings around a query (`model/neighbours.py`)."""

    added: Tensor  # (..., width)
    candidates: Tensor  # (..., CANDIDATES) last, next, interpolated and mean value, and a regression; z units
    there: Tensor  # (..., CANDIDATES) 1 or 0

    def repeated(self, times: int) -> Iterator[Beside]:
        """For each row of (B, m, .), every query `times` over: (1, m times, .)."""
        for row in zip(self.added, self.candidates, self.there, strict=True):
            yield Beside(*(x.repeat_interleave(times, 0).unsqueeze(0) for x in row))


@dataclass(frozen=True)
class Mixture:
    """The head's own value and the candidates, weighted; C is 1 + CANDIDATES and stands at `axis`."""

    weights: Tensor  # (..., C, ...), summing to 1
    values: Tensor  # (..., C, ...)
    axis: int

    @classmethod
    def of(cls, own: Tensor, logits: Tensor, candidates: Tensor, there: Tensor, axis: int) -> Mixture:
        """`own` (...,), `logits` (..., C), `candidates` and `there` (..., CANDIDATES), their axis at `axis`."""
        always = torch.ones_like(own).unsqueeze(axis)
        chance = torch.cat([always, there], axis).log()  # 0, or -inf for a candidate that is not there
        values = torch.cat([own.unsqueeze(axis), candidates], axis)
        return cls(torch.softmax(logits + chance, axis), values, axis)

    @property
    def mean(self) -> Tensor:
        """The prediction, (...,)."""
        return (self.weights * self.values).sum(self.axis)

    @property
    def columns(self) -> Tensor:
        """MIXED of config.py, on the last axis: how far the prediction is from each value, the weights, the spread."""
        weights, values = self.weights.movedim(self.axis, -1), self.values.movedim(self.axis, -1)
        apart = (values - self.mean.unsqueeze(-1)).abs()
        spread = (weights * apart.square()).sum(-1, keepdim=True).sqrt()
        return torch.cat([apart, weights, spread], dim=-1)


class Head(nn.Module):
    """width -> width -> 1 (point) or 2 (mean and scale, softplus plus a floor).

    In a network with neighbours a gate on the hidden layer weighs that value against candidates: the last creatinine is
    often the best prediction of the next, a mean pressure follows from the other two of its minute, and no sum of
    hidden units is as exact.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        outputs = 1 if config.head == "point" else 2
        self.layers = nn.Sequential(
            nn.Linear(config.width, config.width),
            nn.GELU(),
            Dropout(config.dropout),
            nn.Linear(config.width, outputs),
        )
        self.gate = None if config.neighbours == "none" else nn.Linear(config.width, 1 + CANDIDATES)

    def forward(self, x: Tensor, beside: Beside | None = None) -> Tensor:
        """(..., width) -> predictions (...,)."""
        hidden = self.hidden(x, beside)
        return self.mixed(self.layers[-1](hidden)[..., 0], hidden, beside)

    def mean_and_scale(self, x: Tensor, beside: Beside | None = None) -> tuple[Tensor, Tensor]:
        """(..., width) -> mean and scale (...,) each; for heads trained by likelihood."""
        hidden = self.hidden(x, beside)
        mean, raw = self.layers[-1](hidden).unbind(-1)
        return self.mixed(mean, hidden, beside), F.softplus(raw) + SCALE_FLOOR

    def hidden(self, x: Tensor, beside: Beside | None = None) -> Tensor:
        """What the last layer reads, (..., width)."""
        hidden: Tensor = self.layers[:-1](x if beside is None else x + beside.added)
        return hidden

    def mixed(self, own: Tensor, hidden: Tensor, beside: Beside | None) -> Tensor:
        """The prediction (...,), from the last layer's value of it and the hidden layer."""
        if self.gate is None or beside is None:
            return own
        logits = self.gate(hidden).to(own.dtype)
        return Mixture.of(own, logits, beside.candidates, beside.there, -1).mean
