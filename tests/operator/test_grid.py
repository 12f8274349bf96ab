"""The weights of keys over the cells of the grid."""

from __future__ import annotations

import pytest
import torch

from levyscreen.operator.grid import axis_log_weights, cell_weights, key_mass


@pytest.mark.parametrize("cells", [(16, 8), (16, 16), (64, 1)])
def test_no_weight_is_a_number_so_small_that_products_with_it_are_slow(cells):
    generator = torch.Generator().manual_seed(0)
    time, channel = torch.rand(4, 1, 200, generator=generator), torch.rand(4, 2, 200, generator=generator)
    logs = axis_log_weights(time, cells[0]), axis_log_weights(channel, cells[1])
    mask = torch.arange(200) < 150
    for weight in (key_mass(*logs), cell_weights(*logs, None), cell_weights(*logs, mask)):
        assert not bool(((weight > 0) & (weight < torch.finfo(weight.dtype).tiny)).any())


def test_weights_and_their_gradients_do_not_know_of_padding_however_far_it_is():
    time, channel = torch.tensor([[0.02, 0.05, 0.99]]), torch.tensor([[0.02, 0.05, 0.99]]).requires_grad_()
    mask = torch.tensor([True, True, False])
    padded = cell_weights(axis_log_weights(time, 16), axis_log_weights(channel, 16), mask)
    alone = cell_weights(axis_log_weights(time[:, :2], 16), axis_log_weights(channel[:, :2], 16), None)
    assert torch.equal(padded[:, :2], alone)
    assert not bool(padded[:, 2].any())
    (gradient,) = torch.autograd.grad(padded.square().sum(), channel, retain_graph=True)
    (of_alone,) = torch.autograd.grad(alone.square().sum(), channel)
    assert torch.equal(gradient, of_alone)
    assert float(gradient[0, 2]) == 0


def test_a_cell_that_is_far_from_every_key_on_some_axis_has_a_value():
    position = torch.tensor([[0.01, 0.99]])
    weights = cell_weights(axis_log_weights(position, 16), axis_log_weights(position, 16), None)
    assert bool((weights.sum(dim=-2) > 0).all())
