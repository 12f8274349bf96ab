"""Pre-norm self-attention over a record's readings."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.model.dropout import Dropout


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(R, n, width) -> (R, heads, n, width / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(R, heads, n, d) -> (R, n, heads d)."""
    return x.transpose(1, 2).flatten(-2)


def unless_whole(mask: Tensor) -> Tensor | None:
    """The mask, or None where nothing is padding: attention is faster without."""
    return None if bool(mask.all()) else mask


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention over (R, heads, n, d); `mask` (R, 1, 1, n), or None for no padding."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


class Block(nn.Module):
    """Self-attention and feed-forward, each on a residual branch with dropout.

    None on the attention weights, so that the fused kernel serves in training too.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(config.width),
            nn.Linear(config.width, config.feed_forward),
            nn.GELU(),
            Dropout(config.dropout),
            nn.Linear(config.feed_forward, config.width),
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """`x` (R, n, width); `mask` (R, 1, 1, n), False for padding, or None for none."""
        return self.add(x, self.attend(x, mask))

    def attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What self-attention adds to `x`, before dropout."""
        attended: Tensor = self.out(join_heads(attention(*self.project(x), mask)))
        return attended

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of `x` (R, n, width), each (R, heads, n, d)."""
        query, key, value = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        return split_heads(query, self.heads), split_heads(key, self.heads), split_heads(value, self.heads)

    def add(self, x: Tensor, attended: Tensor) -> Tensor:
        """The rest of the block, which begins with the first dropout."""
        x = x + self.dropout(attended)
        branch: Tensor = self.dropout(self.feed_forward(x))
        return x + branch


class Encoder(nn.Module):
    """The blocks and a final normalisation."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))  # one at least
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x` (R, n, width), `mask` (R, n) False for padding; returns (R, n, width)."""
        return self.finish(x, self.begin(x, mask), mask)

    def begin(self, x: Tensor, mask: Tensor) -> Tensor:
        """What comes before the first dropout, and is the same in every stochastic pass."""
        return self._first.attend(x, unless_whole(mask[:, None, None, :]))

    def finish(self, x: Tensor, attended: Tensor, mask: Tensor) -> Tensor:
        """`forward`, from what `begin` gave for `x`."""
        attend = unless_whole(mask[:, None, None, :])
        x = self._first.add(x, attended)
        for block in self.blocks[1:]:
            x = block(x, attend)
        normed: Tensor = self.norm(x)
        return normed

    @property
    def _first(self) -> Block:
        return cast(Block, self.blocks[0])
