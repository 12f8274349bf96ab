"""The read-out for inference: the layer's output projection merged with the head's first layer, both linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from levyscreen.model.decode import CrossAttention
from levyscreen.model.heads import Beside, Head, Mixture
from levyscreen.model.neighbours import Neighbours, Weights


@dataclass(frozen=True)
class FusedHead:
    """y = final . gelu(weight a + bias) + offset: as `Network.read_out` in eval mode, at half its products.

    In a network with neighbours, `beside` is added before gelu, and a gate on its output weighs y and the candidates.
    """

    weight: Tensor  # (width, rows of the layer output that it is given)
    back: Tensor  # (width, width) weight.T, of the rows that are real
    bias: Tensor | None  # (width,)
    final: Tensor  # (width,)
    offset: Tensor  # ()
    neighbours: Weights | None = None  # give `beside`, as (B, m, .)
    gate: Tensor | None = None  # (1 + CANDIDATES, width)
    gate_offset: Tensor | None = None  # (1 + CANDIDATES, 1)

    @classmethod
    @torch.no_grad()
    def of(cls, decode: CrossAttention, head: Head, neighbours: Neighbours | None = None) -> FusedHead:
        """The layer's `out` and the head's mean output."""
        first, last = head.layers[0], head.layers[-1]
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        bias = F.linear(decode.out.bias, first.weight, first.bias)
        weight = first.weight @ decode.out.weight
        fused = cls(weight, weight.T.contiguous(), bias, last.weight[0].detach(), last.bias[0].detach())
        if neighbours is None or head.gate is None:
            return fused
        offset = head.gate.bias.detach().unsqueeze(-1)
        beside = neighbours.weights.then(first.weight)
        return replace(fused, neighbours=beside, gate=head.gate.weight.detach(), gate_offset=offset)

    def around(self, centre: Tensor) -> FusedHead:
        """For moments of heads relative to `centre` (heads, d): the d means, the second moment, ones."""
        padded = F.pad(self.weight.unflatten(1, centre.shape), (0, 2))
        padded[:, 0, -1] = self.weight @ centre.flatten() + (0 if self.bias is None else self.bias)
        return replace(self, weight=padded.flatten(1), bias=None)

    def __call__(
        self, layer_output: Tensor, beside: Beside | None = None, dropout: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Predictions (B, m) from concatenated heads (B, rows, m); `dropout`, for MC dropout, where the head has it."""
        return self.read(layer_output, beside, dropout)[0]

    def read(
        self, layer_output: Tensor, beside: Beside | None = None, dropout: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Mixture | None]:
        """Predictions (B, m), and what they are mixed of; see `__call__`."""
        activated = F.gelu(self._hidden(layer_output, beside))
        activated = activated if dropout is None else dropout(activated)
        if beside is None:
            return self._last(activated), None
        mixture = self._mixture(activated, beside)
        return mixture.mean, mixture

    def with_gradient(
        self, layer_output: Tensor, beside: Beside | None = None
    ) -> tuple[Tensor, Tensor, Mixture | None]:
        """Predictions (B, m), dy/da (B, width, m), and what the predictions are mixed of."""
        hidden = self._hidden(layer_output, beside)
        activated, upstream = F.gelu(hidden), self.final.unsqueeze(-1).expand_as(hidden)
        mixture = None
        if beside is None:
            prediction = self._last(activated)
        else:
            mixture = self._mixture(activated, beside)
            prediction = mixture.mean
            upstream = self._through_gate(mixture, prediction)
        slope = torch.ops.aten.gelu_backward(upstream, hidden)
        return prediction, torch.bmm(self.back.expand(len(slope), -1, -1), slope), mixture

    def _mixture(self, activated: Tensor, beside: Beside) -> Mixture:
        """Of the last layer's value and the candidates, from the hidden layer (B, width, m); the axis is 1."""
        assert self.gate is not None
        assert self.gate_offset is not None
        logits = torch.matmul(self.gate, activated) + self.gate_offset  # (B, 1 + CANDIDATES, m)
        candidates, there = (x.transpose(1, 2) for x in (beside.candidates, beside.there))
        return Mixture.of(self._last(activated), logits, candidates, there, 1)

    def _through_gate(self, mixture: Mixture, prediction: Tensor) -> Tensor:
        """dy / d activated, (B, width, m): through the last layer's value, and through the weights."""
        assert self.gate is not None
        by_logit = mixture.weights * (mixture.values - prediction.unsqueeze(1))  # (B, 1 + CANDIDATES, m)
        return mixture.weights[:, :1] * self.final.unsqueeze(-1) + torch.matmul(self.gate.T, by_logit)

    # With an axis of one, or expanded: bmm takes both as they are, where @ would copy the larger operand.
    def _hidden(self, layer_output: Tensor, beside: Beside | None) -> Tensor:
        hidden = torch.bmm(self.weight.expand(len(layer_output), -1, -1), layer_output)
        if beside is not None:
            hidden.add_(beside.added.transpose(1, 2))
        return hidden if self.bias is None else hidden.add_(self.bias.unsqueeze(-1))

    def _last(self, activated: Tensor) -> Tensor:
        return torch.bmm(self.final.expand(len(activated), 1, -1), activated).squeeze(1) + self.offset
