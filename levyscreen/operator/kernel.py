"""The scaled cosine kernel of eq:kernel, and the one attention that every read-out of the operator rests on.

The paper's kernel exp(sqrt(d) cos) is bounded, so that no query can focus on a single reading. With a sharpness g > 0,

    kappa_g(q, k) = exp(sqrt(d) (1 - g (1 - cos(q, k)))) = exp(sqrt(d) (1 - g)) exp(sqrt(d) <g q, k>) for unit q and k,

it can, and its maximum stays exp(sqrt(d)), so that evidence keeps its scale; g = 1 is the paper's. The first factor is
the same for every key: it belongs to the rate. So nothing but `sharpened` and `rate` knows of g.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    """x / |x| along the last axis; a zero vector stays zero."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(length > 0, length, 1)  # no clamp: dividing by next to nothing has a gradient without bound


def sharpened(query: Tensor, sharpness: Tensor) -> Tensor:
    """Queries of length g, from unit queries (..., m, d) and g, which broadcasts to (..., m, 1)."""
    return query * sharpness


def rate(tau: float, sharpness: Tensor, d: int) -> Tensor:
    """The tau that goes with queries of length g, of the shape of `sharpness`: tau exp(sqrt(d) (1 - g))."""
    return tau * torch.exp(math.sqrt(d) * (1 - sharpness))


def logits(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """ln kappa = sqrt(d) <q, k> for queries (..., m, d) of length g and unit keys (..., n, d); -inf without `mask`.

    `mask` broadcasts to (..., n). Returns (..., m, n).
    """
    scores = math.sqrt(query.shape[-1]) * (query @ key.transpose(-1, -2))
    return scores if mask is None else scores.masked_fill(~mask.unsqueeze(-2), -torch.inf)


def weighted_mean(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """sum_i alpha_i value_i, alpha being the row-normalised kernel: the mean path, by the fused attention kernel.

    `query` (..., m, d) has length g, `key` (..., n, d) length 1; `value` (..., n, d). Returns (..., m, d).
    """
    attend = None if mask is None else mask.unsqueeze(-2)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attend, scale=math.sqrt(query.shape[-1]))


def weighted_mean_and_mass(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same, for values of any width w, together with ln sum_i kappa_i: (..., m, w) and (..., m).

    On a CPU one fused kernel gives both and no (m x n) matrix exists; elsewhere the plain form does, and where there is
    no query, by whose number the kernel would divide.
    """
    if query.device.type != "cpu" or query.dim() != 4 or torch.is_grad_enabled() or not query.shape[-2]:
        scores = logits(query, key, mask)
        return torch.softmax(scores, dim=-1) @ value, torch.logsumexp(scores, dim=-1)
    scale = math.sqrt(query.shape[-1])
    # The kernel broadcasts nothing, and reads past the end of what one set of queries for all records holds.
    query = query.expand(key.shape[0], -1, -1, -1)
    # It wants queries, keys and values of one width; zero columns leave the products as they are.
    width = max(query.shape[-1], value.shape[-1])
    query, key, padded = (_widen(x, width) for x in (query, key, value))
    bias = None
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, -torch.inf).unsqueeze(-2)
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    mean, mass = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, padded, 0.0, False, attn_mask=bias, scale=scale
    )
    return mean[..., : value.shape[-1]], mass.to(query.dtype)


def _widen(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))
