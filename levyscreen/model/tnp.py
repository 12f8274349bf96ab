"""TNP-D, the Transformer Neural Process of Nguyen and Grover (2022): app:details, "TNP-D baseline".

One masked transformer over readings and queries together. Readings attend to readings; a query attends to the readings
and to itself, never to another query. So the (n + m)^2 matrix of the mask is never built: the readings go through the
blocks as if nothing were asked, and each query reads n + 1 keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.model.decode import Decode
from levyscreen.model.encoder import Block, attention, join_heads, unless_whole

_ALIGNED = 8  # the fused kernels want head widths that are multiples of this


class TransformerDecode(Decode):
    """The blocks that serve readings and queries alike; it reads embedded readings, not encoded ones."""

    encodes = True

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.out = nn.LayerNorm(config.width)

    def forward(self, query: Tensor, tokens: Tensor, time: Tensor, mask: Tensor) -> Tensor:
        """See Decode."""
        attend, blocks = unless_whole(mask[:, None, None, :]), cast(Sequence[Block], self.blocks)
        for block in blocks:
            asker, key, value = block.project(tokens)
            read = context_and_self_attention(*block.project(query), key, value, attend)
            query = block.add(query, block.out(join_heads(read)))
            if block is not blocks[-1]:  # nobody reads the readings after the last block
                tokens = block.add(tokens, block.out(join_heads(attention(asker, key, value, attend))))
        return query


def context_and_self_attention(
    query: Tensor, own_key: Tensor, own_value: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Each query's attention over all of `key` and its own key alone: (R, H, m, d).

    `query`, `own_key`, `own_value` (R, H, m, d); `key`, `value` (R, H, n, d); `mask` (R, 1, 1, n), None for no padding.

    One call of the fused kernel, with a coordinate more. A query carries its own logit there, the readings 0, and one
    further key nothing but a 1, so that its logit is each query's own; that key's value is the same 1, and so the
    weight of the own value comes out beside the sum over the readings.
    """
    d = query.shape[-1]
    own_logit = (query * own_key).sum(-1, keepdim=True)  # (R, H, m, 1)
    beyond = F.pad(key.new_ones(1), (d, _ALIGNED - 1)).expand(*key.shape[:2], 1, -1)
    asked = F.pad(torch.cat([query, own_logit], -1), (0, _ALIGNED - 1))
    keys, values = (torch.cat([F.pad(x, (0, _ALIGNED)), beyond], -2) for x in (key, value))
    among = None if mask is None else F.pad(mask, (0, 1), value=True)
    read = F.scaled_dot_product_attention(asked, keys, values, attn_mask=among, scale=1 / math.sqrt(d))
    return read[..., :d] + read[..., d : d + 1] * own_value


class Unencoded(nn.Module):
    """Stands where the encoder does, for a decode layer that encodes the readings itself: they stay embedded."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x`."""
        return x

    def begin(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x`: nothing comes before the first dropout."""
        return x

    def finish(self, x: Tensor, attended: Tensor, mask: Tensor) -> Tensor:
        """`x`."""
        return x
