"""The read-out for inference: the layer's output projection merged with the head's first layer, both linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.model.decode import CrossAttention
from levyscreen.model.heads import Head


@dataclass(frozen=True)
class FusedHead:
    """y = final . gelu(weight a + bias) + offset: as `Network.read_out` in eval mode, at half its products."""

    weight: Tensor  # (width, rows of the layer output that it is given)
    back: Tensor  # (width, width) weight.T, of the rows that are real
    bias: Tensor | None  # (width,)
    final: Tensor  # (width,)
    offset: Tensor  # ()

    @classmethod
    @torch.no_grad()
    def of(cls, decode: CrossAttention, head: Head) -> FusedHead:
        """The layer's `out` and the head's mean output."""
        first, last = head.layers[0], head.layers[-1]
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        bias = F.linear(decode.out.bias, first.weight, first.bias)
        weight = first.weight @ decode.out.weight
        return cls(weight, weight.T.contiguous(), bias, last.weight[0].detach(), last.bias[0].detach())

    def around(self, centre: Tensor) -> FusedHead:
        """For moments of heads relative to `centre` (heads, d): the d means, the second moment, ones."""
        padded = F.pad(self.weight.unflatten(1, centre.shape), (0, 2))
        padded[:, 0, -1] = self.weight @ centre.flatten() + (0 if self.bias is None else self.bias)
        return replace(self, weight=padded.flatten(1), bias=None)

    def __call__(self, layer_output: Tensor, dropout: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Predictions (B, m) from concatenated heads (B, rows, m); `dropout`, for the rival, where the head has it."""
        activated = F.gelu(self._hidden(layer_output))
        return self._last(activated if dropout is None else dropout(activated))

    def with_gradient(self, layer_output: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions (B, m), and dy/da (B, width, m)."""
        hidden = self._hidden(layer_output)
        slope = torch.ops.aten.gelu_backward(self.final.unsqueeze(-1).expand_as(hidden), hidden)
        return self._last(F.gelu(hidden)), torch.bmm(self.back.expand(len(slope), -1, -1), slope)

    # With an axis of one, or expanded: bmm takes both as they are, where @ would copy the larger operand.
    def _hidden(self, layer_output: Tensor) -> Tensor:
        hidden = torch.bmm(self.weight.expand(len(layer_output), -1, -1), layer_output)
        return hidden if self.bias is None else hidden.add_(self.bias.unsqueeze(-1))

    def _last(self, activated: Tensor) -> Tensor:
        return torch.bmm(self.final.expand(len(activated), 1, -1), activated).squeeze(1) + self.offset
