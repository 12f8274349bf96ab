"""The five heuristics against loops over one record's readings."""

import pytest
import torch

from levyscreen.estimators.registry import ESTIMATORS
from tests.estimators.cast import padded


def same(batch, row, query):
    """Times of the readings of the query's variable."""
    variable = int(batch.query_variable[row, query])
    readings = zip(batch.time[row].tolist(), batch.variable[row].tolist(), batch.mask[row].tolist(), strict=True)
    return [time for time, of, real in readings if real and of == variable]


def every(batch, row):
    return [time for time, real in zip(batch.time[row].tolist(), batch.mask[row].tolist(), strict=True) if real]


def windowed(batch, row, query):
    reach = (max(every(batch, row)) - min(every(batch, row))) / 16
    return -sum(abs(time - float(batch.query_time[row, query])) <= reach for time in same(batch, row, query))


def gap(times, batch, row, query):
    return min((abs(time - float(batch.query_time[row, query])) for time in times), default=1.0)


SLOW = {
    "gap-same-variable": lambda batch, row, query: gap(same(batch, row, query), batch, row, query),
    "gap-any-variable": lambda batch, row, query: gap(every(batch, row), batch, row, query),
    "count-same-variable": lambda batch, row, query: -len(same(batch, row, query)),
    "density-window": windowed,
    "record-length": lambda batch, row, query: -len(every(batch, row)),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_heuristic_is_what_a_loop_over_the_readings_finds(networks, batches, name):
    batch = padded(batches[0])
    got = ESTIMATORS[name](networks)(batch).uncertainty
    expected = [SLOW[name](batch, row, query) for row, query in batch.query_mask.nonzero().tolist()]
    torch.testing.assert_close(got[batch.query_mask], torch.tensor(expected, dtype=torch.float32))


def test_a_variable_never_read_is_a_whole_stay_away(networks, batches):
    batch = batches[0]
    batch = type(batch)(**{**vars(batch), "variable": torch.zeros_like(batch.variable)})
    got = ESTIMATORS["gap-same-variable"](networks)(batch).uncertainty
    never = batch.query_mask & (batch.query_variable > 0)
    assert (got[never] == 1).all()
    assert (got[batch.query_mask & ~never] < 1).all()
