"""The read-out for inference: the layer's output projection merged with the head's first layer, both linear."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.model.network import Network


def fused_read_out(network: Network) -> Callable[[Tensor], Tensor]:
    """As `network.read_out` in eval mode, at half its products: (..., width) -> predictions (...,)."""
    first, last = network.head.layers[0], network.head.layers[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        weight = first.weight @ network.decode.out.weight
        bias = F.linear(network.decode.out.bias, first.weight, first.bias)
        final, offset = last.weight[0].clone(), last.bias[0].clone()

    def read_out(layer_output: Tensor) -> Tensor:
        return F.gelu(F.linear(layer_output, weight, bias)) @ final + offset

    return read_out
