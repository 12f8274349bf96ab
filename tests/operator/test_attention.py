"""The public layer is the operator and nothing else: the same numbers as the decode layer and the golden files."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import levyscreen
from levyscreen.model.decode import LevyDecode
from levyscreen.model.encoder import join_heads
from levyscreen.operator import LevyAttention, read
from tests.model.test_network import SMALL

GOLDEN = Path(__file__).parents[1] / "golden"
WIDTH, HEADS = 16, 2


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return LevyAttention(WIDTH, HEADS, dtype=torch.float64)


def asked(records=3, n=9, m=5, seed=1, kdim=WIDTH, vdim=WIDTH):
    """query, key, value, key_time."""
    g = torch.Generator().manual_seed(seed)
    shapes = (records, m, WIDTH), (records, n, kdim), (records, n, vdim)
    tensors = [torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes]
    return *tensors, torch.rand(records, n, generator=g, dtype=torch.float64)


def test_it_is_public_by_its_name():
    assert levyscreen.LevyAttention is LevyAttention


@pytest.mark.parametrize("channel_cells", [1, 8])
def test_with_the_weights_of_the_decode_layer_it_gives_its_answers_and_signals(channel_cells):
    torch.manual_seed(3)
    decode = LevyDecode(replace(SMALL, channel_cells=channel_cells)).double()
    layer = LevyAttention(WIDTH, HEADS, channel_cells=channel_cells, dtype=torch.float64)
    layer.load_state_dict(decode.state_dict())  # by the same names
    query, tokens, _, time = asked()
    padding = torch.arange(9) >= torch.tensor([9, 4, 1])[:, None]
    output, signals = layer(query, tokens, tokens, time, padding)
    torch.testing.assert_close(output, decode.out(decode(query, tokens, time, ~padding)))
    reading = read(decode.project_query(query), decode.field(tokens, time, ~padding), decode.tau)
    torch.testing.assert_close(output, decode.out(join_heads(reading.mean)))
    for name in ("evidence", "disagreement", "sigma_hat"):
        torch.testing.assert_close(getattr(signals, name), getattr(reading, name).mean(1))


@pytest.mark.parametrize(
    "case", ["typical", "dense", "early_only", "offset_values", "edges", "single_key", "tiny_head"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_a_single_head_without_projections_it_gives_the_golden_values(case, dtype):
    with np.load(GOLDEN / f"operator_{case}.npz") as file:
        golden = {name: file[name] for name in file}
    (time_cells, channel_cells), d = golden["grid"], golden["q"].shape[1]
    # The last entry of each key is what the channel map reads: the logit of the golden channel position.
    layer = LevyAttention(d, 1, kdim=d + 1, time_cells=int(time_cells), channel_cells=int(channel_cells), dtype=dtype)
    layer.tau = float(golden["tau"])
    with torch.no_grad():
        for module in (layer.query, layer.key, layer.value, layer.out):
            nn.init.eye_(module.weight)
            nn.init.zeros_(module.bias)
        if layer.channel is not None:
            layer.channel.weight.copy_(torch.eye(d + 1)[-1:])
            nn.init.zeros_(layer.channel.bias)
        q, k, v, time, channel = (torch.from_numpy(golden[x])[None] for x in ("q", "k", "v", "time", "channel"))
        key = torch.cat([k, torch.logit(channel).unsqueeze(-1)], dim=-1)
        output, signals = layer(*(x.to(dtype) for x in (q, key, v, time)))
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-11}[dtype]
    for found, name in ((output, "mean"), (signals.evidence, "evidence"), (signals.disagreement, "disagreement")):
        largest = max(np.abs(golden[name]).max(), np.square(golden["v"]).sum(1).max() if name == "disagreement" else 0)
        assert np.abs(found[0].double().numpy() - golden[name]).max() < tolerance * largest, name


def test_without_signals_the_output_is_the_same_and_by_head_the_signals_have_the_reported_means(layer):
    inputs = asked()
    output, signals = layer(*inputs)
    alone, none = layer(*inputs, need_signals=False)
    torch.testing.assert_close(alone, output)
    assert none is None
    _, by_head = layer(*inputs, average_signals=False)
    assert by_head.evidence.shape == (3, HEADS, 5)
    for one, heads in zip(signals, by_head, strict=True):
        torch.testing.assert_close(one, heads.mean(1))


@pytest.mark.parametrize("rubbish", [7.0, float("nan"), float("inf")])
def test_padding_is_inert_whatever_it_holds(layer, rubbish):
    query, key, value, time = asked()
    expected, signals = layer(query, key, value, time)

    def padded(x):
        return torch.cat([x, torch.full_like(x[:, :2], rubbish)], dim=1)

    padding = padded(torch.zeros_like(time)) != 0
    output, found = layer(query, padded(key), padded(value), padded(time), padding)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(found, signals)
    output.sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in layer.parameters())


@pytest.mark.parametrize("need_signals", [True, False])
def test_gradients_reach_every_input_and_parameter_by_finite_differences_too(layer, need_signals):
    tensors = [x.requires_grad_() for x in asked(records=1, n=4, m=2)]
    layer(*tensors, need_signals=need_signals)[0].sum().backward()
    assert all(float(x.grad.abs().max()) > 0 for x in (*tensors, *layer.parameters()))
    torch.autograd.gradcheck(lambda *xs: layer(*xs, need_signals=need_signals)[0], tensors)


def of_16_bits(how, layer, tensors, need_signals):
    """Output and signals of the layer in 16 bits by one of the ways to have them."""
    if how == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            return layer(*tensors, need_signals=need_signals)
    kind = getattr(torch, how)
    return deepcopy(layer).to(kind)(*(x.to(kind) for x in tensors), need_signals=need_signals)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_signals", [True, False])
@pytest.mark.parametrize(("how", "unit"), [("autocast", 2**-8), ("bfloat16", 2**-8), ("float16", 2**-11)])
def test_in_16_bits_it_is_off_by_the_rounding_of_its_projections(layer, how, unit, need_signals, grad):
    layer = layer.float()
    tensors = [x.float() for x in asked(n=200)]
    if how != "autocast":  # their rounding is not the layer's
        tensors = [x.to(getattr(torch, how)).float() for x in tensors]
    with torch.no_grad():
        exact, signals = layer(*tensors)
    with torch.set_grad_enabled(grad):
        output, found = of_16_bits(how, layer, tensors, need_signals)
    assert float((output.detach().float() - exact).abs().max() / exact.std()) < 5 * unit
    assert (found is not None) == need_signals
    for got, truth in zip(found or (), signals, strict=False):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.detach(), truth, rtol=unit, atol=0)


@torch.no_grad()
def test_one_key_is_answered_with_its_value_and_no_disagreement(layer):
    query, key, value, time = asked(n=1)
    output, signals = layer(query, key, value, time)
    torch.testing.assert_close(output, layer.out(layer.value(value)).expand(-1, 5, -1))
    assert float(signals.disagreement.max()) == float(signals.sigma_hat.max()) == 0
    assert float(signals.evidence.min()) > 0


@torch.no_grad()
def test_a_key_twice_is_twice_the_evidence_and_the_rate_scales_it_alone(layer):
    query, key, value, time = asked()
    output, signals = layer(query, key, value, time)
    twice, doubled = layer(query, *(torch.cat([x, x], dim=1) for x in (key, value, time)))
    torch.testing.assert_close(doubled.evidence, 2 * signals.evidence)
    torch.testing.assert_close(doubled.disagreement, signals.disagreement)
    layer.tau *= 2
    same, scaled = layer(query, key, value, time)
    torch.testing.assert_close(scaled.evidence, 2 * signals.evidence)
    torch.testing.assert_close(scaled.disagreement, signals.disagreement)
    assert torch.allclose(twice, output)
    assert torch.allclose(same, output)


@torch.no_grad()
def test_keys_values_and_bias_may_be_of_other_kinds_than_in_the_query():
    layer = LevyAttention(WIDTH, HEADS, bias=False, kdim=6, vdim=3, channel_cells=1, dtype=torch.float64)
    assert {name for name, _ in layer.named_parameters()} == {f"{p}.weight" for p in ("query", "key", "value", "out")}
    assert layer(*asked(kdim=6, vdim=3))[0].shape == (3, 5, WIDTH)
    assert "num_heads=2, grid=16x1, tau=0.5" in repr(layer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {**a, "query": a["query"][0]}, r"query is to be \(records, m, 16\), not \(5, 16\)"),
        (lambda a: {**a, "value": a["value"][..., :3]}, r"value is to be \(records, n, 16\), not \(3, 9, 3\)"),
        (lambda a: {**a, "query": a["query"][:2]}, r"query \(2, 5, 16\), key \(3, 9, 16\), .* do not fit"),
        (lambda a: {**a, "key_time": a["key_time"][0]}, r"key_time \(9\) do not fit"),
        (lambda a: {**a, "key_time": 48 * a["key_time"]}, r"key_time goes from .* divide it by the horizon"),
        (lambda a: {**a, "key_time": a["key_time"] * torch.nan}, r"key_time goes from nan to nan"),
        (lambda a: {**a, "key_padding_mask": torch.zeros(3, 9)}, r"is to be bool \(3, 9\), not torch.float32 \(3, 9\)"),
        (
            lambda a: {**a, "key_padding_mask": torch.arange(3)[:, None] + torch.zeros(1, 9) > 1},
            r"1 records have no key",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shapes(layer, change, message):
    inputs = dict(zip(("query", "key", "value", "key_time"), asked(), strict=True))
    with pytest.raises(ValueError, match=message):
        layer(**change(inputs))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "embed_dim 16 cannot be split into num_heads 3"),
        ({"tau": 0.0}, r"needs one cell or more an axis, tau > 0 and sharpness > 0, not 16 x 8, tau 0\.0"),
        ({"time_cells": 0}, "not 0 x 8"),
    ],
)
def test_sizes_that_make_no_layer_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LevyAttention(**{"embed_dim": 16, "num_heads": 2} | settings)
