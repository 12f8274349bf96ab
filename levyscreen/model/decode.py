"""What answers queries from readings: one cross-attention layer, `levy`, or `softmax` as the matched control.

Both have the same projections and differ by the channel map of eq:positions: 516 parameters at width 128 and 4 heads.
`cosine` stands between them: the Levy layer's bounded kernel, without its field.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.model.encoder import join_heads, split_heads, unless_whole
from levyscreen.operator import Field, Grid, Sharpness, build_field, draw_once, mean_path, straight_through, unit

INITIAL_SHARPNESS = 1.65  # what is learned lies above


class Decode(nn.Module):
    """From embedded queries and a record's tokens to what the head reads, once `out` is applied."""

    encodes: ClassVar[bool] = False  # whether it takes readings as they are embedded, and encodes them itself
    out: nn.Module

    def forward(self, query: Tensor, tokens: Tensor, time: Tensor, mask: Tensor) -> Tensor:
        """The answer before `out`, (R, m, width): of a cross-attention its concatenated heads.

        `query` (R, m, width) embedded queries, `tokens` (R, n, width), `time` and `mask` (R, n).
        """
        raise NotImplementedError


class CrossAttention(Decode):
    """Shared projections; subclasses say how a query reads the keys."""

    out: nn.Linear

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)


class LevyDecode(CrossAttention):
    """Levy Attention on its mean path; `project_query` and `field` are its two sides, for the signals.

    Where `sampled` is set, `forward` draws in training mode: a sample's value, and the mean path's gradient.
    """

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.grid = Grid(config.time_cells, config.channel_cells)
        self.tau = config.tau
        self.sampled = False
        # One cell leaves a position nothing to say; the width of the bump would still let it weigh the readings.
        self.channel = nn.Linear(config.width, config.heads) if config.channel_cells > 1 else None
        self.sharpness = _sharpness(config)

    def project_query(self, query: Tensor) -> Tensor:
        """Queries a head, of its sharpness' length: (R, m, width) -> (R, H, m, d)."""
        projected: Tensor = self.sharpness(unit(self.query(query).unflatten(-1, (self.heads, -1))).transpose(1, 2))
        return projected

    @property
    def rate(self) -> float | Tensor:
        """tau for the queries of `project_query`: a number, or (H, 1)."""
        return self.sharpness.rate(self.tau)

    def project_parts(self, variable: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
        """Of queries that are sums of two parts: (V, width), (T, width) -> (H, V, d), (H, T, d), not normalised."""
        parts = F.linear(variable, self.query.weight), self.query(time)
        of_variable, of_time = (split_heads(part[None], self.heads)[0] for part in parts)
        return of_variable, of_time

    def field(self, tokens: Tensor, time: Tensor, mask: Tensor) -> Field:
        """The record's side, (R, H, ...), from tokens (R, n, width), time and mask (R, n)."""
        channel = self._positions(tokens)
        key, value = split_heads(self.key(tokens), self.heads), split_heads(self.value(tokens), self.heads)
        return build_field(key, value, time.unsqueeze(1), channel, self.grid, unless_whole(mask.unsqueeze(1)))

    def forward(self, query: Tensor, tokens: Tensor, time: Tensor, mask: Tensor) -> Tensor:
        """See Decode."""
        asked, field = self.project_query(query), self.field(tokens, time, mask)
        answer = mean_path(asked, field)
        if self.sampled and self.training:
            answer = straight_through(answer, draw_once(asked, field, self.rate))
        return join_heads(answer)

    def _positions(self, tokens: Tensor) -> Tensor:
        """Channel positions of eq:positions, (R, n, width) -> (R, H, n); the middle where there is but one cell."""
        if self.channel is None:
            return tokens.new_full((len(tokens), self.heads, tokens.shape[1]), 0.5)
        return torch.sigmoid(self.channel(tokens)).transpose(1, 2)


class SoftmaxDecode(CrossAttention):
    """Ordinary scaled dot-product cross-attention."""

    def project(self, query: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (R, H, m, d), keys and values (R, H, n, d)."""
        q, k, v = (
            split_heads(projection(x), self.heads)
            for projection, x in ((self.query, query), (self.key, tokens), (self.value, tokens))
        )
        return q, k, v

    def forward(self, query: Tensor, tokens: Tensor, time: Tensor, mask: Tensor) -> Tensor:
        """See Decode."""
        q, k, v = self.project(query, tokens)
        return join_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=unless_whole(mask[:, None, None, :])))


class CosineDecode(SoftmaxDecode):
    """Attention by the kernel of eq:kernel: what the Levy layer's mean is where no readings share a cell.

    Logits lie within g sqrt(d) of 0: by the paper's kernel, g = 1, no query can look at one reading alone.
    """

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.sharpness = _sharpness(config)

    def project(self, query: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys of length 1 and queries of length d, which the scaled product makes sqrt(d) times the cosine."""
        q, k, v = super().project(query, tokens)
        return self.sharpness(unit(q)) * q.shape[-1], unit(k), v


def _sharpness(config: ModelConfig) -> Sharpness:
    initial = INITIAL_SHARPNESS if config.sharpness == "head" else None
    return Sharpness(config.heads, config.width // config.heads, initial)
