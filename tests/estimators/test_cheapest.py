"""Interpolation and the last value, against a loop over readings."""

import pytest
import torch

from levyscreen.estimators.registry import ESTIMATORS

RESOLUTION = 1e-4


def neighbours(asked, row, m):
    """(time, value) of the patient's readings of the query's variable, up to its time and from it on."""
    real = asked.mask[row] & (asked.variable[row] == asked.query_variable[row, m])
    own = sorted(zip(asked.time[row][real].tolist(), asked.value[row][real].tolist(), strict=True))
    time = float(asked.query_time[row, m])
    return time, [r for r in own if r[0] <= time], [r for r in own if r[0] >= time]


def test_interpolation_and_last_value_are_what_a_loop_over_readings_says(networks, asked):
    between, last = (ESTIMATORS[name](networks)(asked) for name in ("interpolation", "last-value"))
    alone = 0
    for row, m in torch.nonzero(asked.query_mask).tolist():
        time, before, after = neighbours(asked, row, m)
        if before and after:
            (t0, x0), (t1, x1) = before[-1], after[0]
            share = (time - t0 + RESOLUTION) / (t1 - t0 + 2 * RESOLUTION)
            expected, gap = x0 + share * (x1 - x0), min(time - t0, t1 - time)
        elif before or after:
            t, expected = before[-1] if before else after[0]
            gap, alone = abs(t - time), alone + 1
        else:
            expected, gap = 0.0, 1.0
        assert float(between.prediction[row, m]) == pytest.approx(expected, abs=1e-4)
        assert float(between.uncertainty[row, m]) == pytest.approx(gap, abs=1e-6)
        assert float(last.prediction[row, m]) == pytest.approx(before[-1][1] if before else 0.0, abs=1e-6)
        assert float(last.uncertainty[row, m]) == pytest.approx(time - before[-1][0] if before else 1.0, abs=1e-6)
    assert alone


def test_a_lot_is_the_records_own_and_says_nothing(networks, asked):
    lot = ESTIMATORS["by-lot"](networks)
    first, again = lot(asked), lot(asked)
    assert torch.equal(first.uncertainty, again.uncertainty)
    assert torch.equal(first.prediction, networks["levy"][0](asked))
    assert ((first.uncertainty >= 0) & (first.uncertainty < 1)).all()
