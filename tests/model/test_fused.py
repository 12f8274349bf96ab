"""The merged read-out is the network's own, and its gradient that of automatic differentiation."""

from dataclasses import replace

import pytest
import torch

from levyscreen.config import ModelConfig
from levyscreen.model.network import build
from levyscreen.operator import output_gradient

SMALL = ModelConfig(variables=5, width=16, heads=2, blocks=2, feed_forward=32)


@pytest.fixture(params=["point", "nll"])
def network(request):
    return build(replace(SMALL, head=request.param), 3).eval().double()


@torch.no_grad()
def test_predictions_and_gradients_are_those_of_the_read_out(network):
    layer_output = torch.randn(3, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected, slope = output_gradient(lambda a: network.head(network.decode.out(a)), layer_output)
    head = network.fused_head()
    mean, gradient, _ = head.with_gradient(layer_output.transpose(1, 2))
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(head(layer_output.transpose(1, 2)), expected)
    torch.testing.assert_close(gradient.transpose(1, 2), slope)


@torch.no_grad()
def test_around_a_centre_it_takes_moments_relative_to_it(network):
    generator = torch.Generator().manual_seed(1)
    centre = torch.randn(2, 8, dtype=torch.float64, generator=generator)
    mean = torch.randn(3, 2, 8, 7, dtype=torch.float64, generator=generator)
    second = torch.rand(3, 2, 1, 7, dtype=torch.float64, generator=generator)  # is to have no say
    moments = torch.cat([mean, second, torch.ones_like(second)], dim=2).flatten(1, 2)
    whole = (mean + centre[:, :, None]).flatten(1, 2).transpose(1, 2)
    got, gradient, _ = network.fused_head().around(centre).with_gradient(moments)
    expected, slope = output_gradient(lambda a: network.head(network.decode.out(a)), whole)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(gradient.transpose(1, 2), slope)
