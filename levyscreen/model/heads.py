"""From the layer's output to the scalar prediction, and for the NLL heads its own scale."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.model.dropout import Dropout

SCALE_FLOOR = 1e-3  # z-scored units; keeps the likelihood bounded


class Head(nn.Module):
    """width -> width -> 1 (point) or 2 (mean and scale, softplus plus a floor)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        outputs = 1 if config.head == "point" else 2
        self.layers = nn.Sequential(
            nn.Linear(config.width, config.width),
            nn.GELU(),
            Dropout(config.dropout),
            nn.Linear(config.width, outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> predictions (...,)."""
        mean: Tensor = self.layers(x)[..., 0]
        return mean

    def mean_and_scale(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., width) -> mean and scale (...,) each; for heads trained by likelihood."""
        mean, raw = self.layers(x).unbind(-1)
        return mean, F.softplus(raw) + SCALE_FLOOR
