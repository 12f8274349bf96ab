"""What the head reads of a query's neighbours is what a loop over the record's readings finds."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.config import NEARBY, ModelConfig
from levyscreen.model.heads import CANDIDATES
from levyscreen.model.neighbours import DECAYS, EACH, OWN, RESOLUTION, SCALES, Timetable, nearby
from levyscreen.model.network import build
from levyscreen.operator import output_gradient
from tests.model.test_network import batch, rows

SMALL = ModelConfig(
    variables=5, width=16, heads=2, blocks=1, feed_forward=32, neighbours="all", sharpness="head", values="variable"
)


@pytest.fixture(params=["own", "all"])
def network(request):
    """With weights of which none is nought."""
    network = build(replace(SMALL, neighbours=request.param), 3).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in (*network.neighbours.parameters(), *network.head.gate.parameters()):
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return network


def asked():
    """Readings at shared times and of one variable at one time among them; a query of a variable without readings."""
    found = batch(lengths=(14, 5, 1), m=8, seed=4, pad=2, garbage=7.0)
    time, query = found.time.clone(), found.query_time.clone()
    time[0, 3:6] = time[0, 2]
    variable = found.variable.clone()
    variable[0, 4] = variable[0, 3]
    query[0, 0] = time[0, 2]
    query[1, 1] = time[1, 0]
    return replace(found, time=time, variable=variable, query_time=query)


def of_record(found, row):
    """(time, variable, value) of the real readings."""
    return [
        (float(t), int(v), float(x))
        for t, v, x, real in zip(found.time[row], found.variable[row], found.value[row], found.mask[row], strict=True)
        if real
    ]


def slow_around(readings, variable, time):
    """(value, distance) of the second last, last, next and second next reading, None where there is none.

    At the query's own time a reading is both a last and a next one. Of several at one time, by value.
    """
    own = sorted((t, x) for t, v, x in readings if v == variable)
    before, after = [r for r in own if r[0] <= time], [r for r in own if r[0] >= time]
    chosen = [
        before[-2] if len(before) > 1 else None,
        before[-1] if before else None,
        after[0] if after else None,
        after[1] if len(after) > 1 else None,
    ]
    return [None if r is None else (r[1], abs(r[0] - time)) for r in chosen]


def slow_own(readings, variable, time):
    """The OWN inputs, and the first four candidates with whether they are there."""
    sides = slow_around(readings, variable, time)
    values = [0.0 if side is None else side[0] for side in sides]
    there = [float(side is not None) for side in sides]
    decays = [
        weight
        for side in sides
        for weight in ([0.0] * DECAYS if side is None else [1.0, *(math.exp(-side[1] / s) for s in SCALES)])
    ]
    last, after = sides[1], sides[2]
    if last and after:
        share = (last[1] + RESOLUTION) / (last[1] + after[1] + 2 * RESOLUTION)
        between, jump, both = last[0] + share * (after[0] - last[0]), after[0] - last[0], 1.0
    else:
        share, between, jump, both = 0.0, values[1] + values[2], 0.0, 0.0
    either = float(bool(last or after))
    own = [x for _, v, x in readings if v == variable]
    mean, spread = (float(np.mean(own)), float(np.std(own))) if own else (0.0, 0.0)
    inputs = [
        *values,
        *there,
        *decays,
        between,
        either,
        both,
        share,
        jump,
        abs(jump),
        math.log1p(len(own)),
        mean,
        spread,
    ]
    return inputs, [values[1], values[2], between, mean], [there[1], there[2], either, either]


def slow_every(readings, variables, time):
    """The EACH inputs of every variable."""
    found = []
    for variable in range(variables):
        sides = slow_around(readings, variable, time)[1:3]
        for side in sides:
            weights = [0.0] * DECAYS if side is None else [1.0, *(math.exp(-side[1] / x) for x in SCALES)]
            found += [*weights, *(w * (0.0 if side is None else side[0]) for w in weights)]
    return found


@torch.no_grad()
def test_inputs_and_candidates_are_those_of_a_loop_over_readings(network):
    found, layer = asked(), network.neighbours
    beside = network.beside(found)
    assert beside.candidates.shape[-1] == CANDIDATES
    for row in range(3):
        readings = of_record(found, row)
        for m in range(8):
            variable, time = int(found.query_variable[row, m]), float(found.query_time[row, m])
            inputs, candidates, there = slow_own(readings, variable, time)
            assert len(inputs) == OWN
            inputs = torch.tensor(inputs)
            added = layer.own.weight @ inputs + layer.own.bias + layer.variable.weight[variable]
            regression = layer.regression.weight[variable] @ inputs
            if layer.others is not None:
                every = torch.tensor(slow_every(readings, 5, time))
                assert len(every) == 5 * EACH
                added = added + layer.others.weight @ every
                regression = regression + layer.regression_of_others.weight[variable] @ every
            torch.testing.assert_close(beside.added[row, m], added, rtol=1e-4, atol=1e-5)
            expected = torch.tensor([*candidates, float(regression)])
            torch.testing.assert_close(beside.candidates[row, m], expected, rtol=1e-4, atol=1e-5)
            assert beside.there[row, m].tolist() == [*there, 1.0]


def test_what_a_meta_model_reads_is_that_of_a_loop_over_readings():
    found = asked()
    table = Timetable.of(found.time, found.variable, found.value, found.mask, 5)
    got = nearby(table, found.query_variable, found.query_time)
    for row in range(3):
        readings = of_record(found, row)
        for m in range(8):
            variable, time = int(found.query_variable[row, m]), float(found.query_time[row, m])
            sides = slow_around(readings, variable, time)
            own = [x for _, v, x in readings if v == variable]

            def step(i, sides=sides):
                return abs(sides[i][0] - sides[i + 1][0]) if sides[i] and sides[i + 1] else 0.0

            def within(distance, time=time, readings=readings):
                return math.log1p(sum(abs(t - time) <= distance for t, _, _ in readings))

            expected = {
                "last_gap": math.log((sides[1][1] if sides[1] else 1.0) + RESOLUTION),
                "next_gap": math.log((sides[2][1] if sides[2] else 1.0) + RESOLUTION),
                "last": float(sides[1] is not None),
                "next": float(sides[2] is not None),
                "jump": step(1),
                "step_before": step(0),
                "step_after": step(2),
                "count": math.log1p(len(own)),
                "spread": float(np.std(own)) if own else 0.0,
                "at_once": within(SCALES[0]),
                "near": within(SCALES[1]),
                "readings": math.log1p(len(readings)),
            }
            values = torch.tensor([expected[name] for name in NEARBY])
            torch.testing.assert_close(got[row, m], values, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_neither_the_order_of_readings_nor_padding_nor_other_records_have_a_say(network):
    found = asked()
    whole = network(found)
    order = torch.randperm(found.time.shape[1], generator=torch.Generator().manual_seed(1))
    per_reading = ("time", "variable", "value", "mask")
    shuffled = replace(found, **{name: getattr(found, name)[:, order] for name in per_reading})
    torch.testing.assert_close(network(shuffled), whole, rtol=1e-4, atol=1e-5)
    alone = rows(found, slice(1, 2))
    short = replace(alone, **{name: getattr(alone, name)[:, :5] for name in per_reading})
    torch.testing.assert_close(network(short), whole[1:2], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_one_pass_with_signals_predicts_what_the_network_does_however_many_queries_at_once(network, monkeypatch):
    found = asked()
    torch.testing.assert_close(network.predict(found).mean, network(found), rtol=1e-4, atol=1e-5)
    together = network.predict(found)
    monkeypatch.setattr("levyscreen.model.network.INTENSITIES", 1)
    apart = network.predict(found)
    for name in ("mean", "mixed", "nearby"):
        torch.testing.assert_close(getattr(apart, name), getattr(together, name), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_lattice_is_answered_as_its_queries_one_by_one_are(network):
    found = rows(asked(), slice(0, 1))
    variable, time = torch.arange(5), torch.tensor([0.0, 0.31, float(found.time[0, 2]), 1.0])
    table, n = network.timetable(found).record(0, 14), 14
    beside = network.fused_head().neighbours.of_lattice(table, variable, time)
    pairs = replace(
        found,
        query_variable=variable.repeat_interleave(4)[None],
        query_time=time.repeat(5)[None],
        query_mask=torch.ones(1, 20, dtype=torch.bool),
        target=torch.zeros(1, 20),
    )
    each = network.fused_head().neighbours.of_queries(network.timetable(pairs), pairs.query_variable, pairs.query_time)
    for name in ("added", "candidates", "there"):
        got, expected = getattr(beside, name).flatten(0, 1), getattr(each, name)[0]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert len(found.time[0]) > n  # padding is there, and is not read


@torch.no_grad()
def test_the_merged_heads_gradient_goes_through_the_gate(network):
    network = network.double()
    found = asked()
    found = replace(found, **{name: getattr(found, name).double() for name in ("time", "value", "query_time")})
    layer_output = torch.randn(3, 8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = network.beside(found)
    expected, slope = output_gradient(lambda a: network.head(network.decode.out(a), whole), layer_output)
    head = network.fused_head()
    merged = head.neighbours.of_queries(network.timetable(found), found.query_variable, found.query_time)
    mean, gradient, mixture = head.with_gradient(layer_output.transpose(1, 2), merged)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(gradient.transpose(1, 2), slope)
    weights, values = mixture.weights.movedim(1, -1), mixture.values.movedim(1, -1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 8, dtype=torch.float64))
    assert ((weights[..., 1:] == 0) == (merged.there == 0)).all()  # what is not there has no weight
    apart = torch.stack([(values[..., k] - mean).abs() for k in range(1 + CANDIDATES)], -1)
    spread = sum(weights[..., k] * apart[..., k] ** 2 for k in range(1 + CANDIDATES)).sqrt()
    torch.testing.assert_close(mixture.columns, torch.cat([apart, weights, spread[..., None]], -1))
