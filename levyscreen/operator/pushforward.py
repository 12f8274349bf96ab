"""The deviation of the prediction itself: the operator's exact covariance pushed through the head to first order.

sigma_hat is the deviation of the layer's d-dimensional output, most of it along directions that the head ignores. With
g = dy/da at the mean and heads drawing independently,

    Var[y(q)] ~ sum over heads phi(Lambda_q) sum_l p_l (g . (V_l - abar))^2

in the squared units of the prediction, with no label and no draw: the closed form of what K draws estimate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.phi import phi
from levyscreen.operator.signals import Beam


def output_gradient(head: Callable[[Tensor], Tensor], layer_output: Tensor) -> tuple[Tensor, Tensor]:
    """Prediction y (...,) and g = dy/da, both detached, for `layer_output` a (..., width).

    Queries are independent, so one backward of the sum gives the gradient of each.
    """
    with torch.enable_grad():
        a = layer_output.detach().requires_grad_()
        y = head(a)
        (gradient,) = torch.autograd.grad(y.sum(), a)
    return y.detach(), gradient


def deviation(beam: Beam, field: Field, gradient: Tensor) -> Tensor:
    """Root-mean-square deviation of the prediction under the sampled operator, (R, m).

    `beam` and `field` have leading axes (R, H); `gradient` (R, H, m, d) is dy/da, split into heads.
    """
    offset = gradient @ field.value.transpose(-1, -2)  # (R, H, m, L), g . (V_l - centre)
    offset = offset - (gradient * beam.centred_mean).sum(-1, keepdim=True)
    spread = (beam.intensity * offset.square_()).sum(-1) / beam.total.squeeze(-1)  # (R, H, m)
    return torch.sqrt((phi(beam.reading.evidence) * spread).sum(dim=1))
