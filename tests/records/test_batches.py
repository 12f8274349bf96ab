"""Batches against a loop, and plans that leave no record out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levyscreen.records.batches import Batcher, by_tokens, similar_length
from levyscreen.records.hiding import hide
from levyscreen.records.readings import Readings

lengths_of_records = st.lists(st.integers(1, 60), min_size=1, max_size=60).map(np.array)


def readings(lengths, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    value = rng.standard_normal(n).astype(np.float32)
    return Readings(
        np.arange(len(lengths)), offsets, rng.random(n, dtype=np.float32), np.int16(rng.integers(0, 36, n)), value
    )


def slow_batch(whole, hidden, rows):
    """Lists of (time, variable, value) of each row's context and queries."""
    context, queries = [], []
    for row in rows:
        lines = range(whole.offsets[row], whole.offsets[row + 1])
        triples = [(float(whole.time[i]), int(whole.variable[i]), float(whole.value[i])) for i in lines]
        context.append([t for t, i in zip(triples, lines, strict=True) if not hidden[i]])
        queries.append([t for t, i in zip(triples, lines, strict=True) if hidden[i]])
    return context, queries


def unpadded(time, variable, value, mask):
    return [
        [(float(time[r, i]), int(variable[r, i]), float(value[r, i])) for i in range(mask.shape[1]) if mask[r, i]]
        for r in range(len(mask))
    ]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(lengths_of_records, st.sampled_from([0.0, 0.3, 0.7]), st.integers(0, 1000))
def test_a_batch_holds_what_a_loop_over_records_collects(lengths, fraction, seed):
    whole = readings(lengths, seed)
    hidden = hide(whole, fraction, seed)
    rows = np.random.default_rng(seed).permutation(len(lengths))[:7]
    batch = Batcher(whole, hidden).batch(rows)
    context, queries = slow_batch(whole, hidden, rows)
    assert unpadded(batch.time, batch.variable, batch.value, batch.mask) == context
    assert unpadded(batch.query_time, batch.query_variable, batch.target, batch.query_mask) == queries
    assert batch.record.tolist() == rows.tolist()
    assert batch.mask.shape[1] == max(len(record) for record in context)
    assert batch.query_mask.shape[1] == max(1, *(len(record) for record in queries), 1)


def test_padding_stands_at_the_end_and_is_zero():
    whole = readings([9, 2, 5])
    batch = Batcher(whole, hide(whole, 0.3, 0)).batch(np.array([0, 1, 2]))
    for name in ("time", "variable", "value"):
        assert not getattr(batch, name)[~batch.mask].any()
    for name in ("query_time", "query_variable", "target"):
        assert not getattr(batch, name)[~batch.query_mask].any()
    for mask in (batch.mask, batch.query_mask):
        assert (np.diff(mask.numpy().astype(int), axis=1) <= 0).all()
    assert batch.query_mask.sum(1).tolist() == [2, 0, 1]


def test_a_batch_in_which_nothing_is_hidden_asks_nothing():
    whole = readings([3, 4])
    batch = Batcher(whole, np.zeros(7, dtype=bool)).batch(np.array([0, 1]))
    assert batch.query_mask.shape == (2, 1)
    assert not batch.query_mask.any()
    assert batch.mask.sum() == 7


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 60), max_size=60).map(np.array), st.integers(1, 300))
def test_by_tokens_covers_every_record_once_within_the_limit(lengths, tokens):
    lengths = lengths.astype(np.int64)
    plan = by_tokens(lengths, tokens)
    assert sorted(np.concatenate(plan).tolist() if plan else []) == list(range(len(lengths)))
    for rows in plan:
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= tokens
    longest_first = [int(lengths[rows].max()) for rows in plan]
    assert longest_first == sorted(longest_first, reverse=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lengths_of_records, st.integers(1, 20), st.integers(0, 1000))
def test_similar_length_covers_every_record_once(lengths, records, seed):
    plan = similar_length(lengths, records, np.random.default_rng(seed))
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    assert sorted(map(len, plan))[1:] == [records] * (len(plan) - 1)  # all full but perhaps one


def test_a_batch_holds_records_of_similar_length_and_another_call_gives_other_neighbours():
    lengths = np.random.default_rng(0).integers(20, 500, 640)
    first, second = (similar_length(lengths, 32, np.random.default_rng(seed)) for seed in (1, 2))
    padded = sum(len(rows) * int(lengths[rows].max()) for rows in first)
    assert padded < 1.2 * lengths.sum()
    assert {frozenset(rows.tolist()) for rows in first}.isdisjoint(frozenset(rows.tolist()) for rows in second)


def test_batches_come_in_the_order_of_the_plan():
    whole = readings([5, 6, 7, 8])
    batcher = Batcher(whole, hide(whole, 0.3, 0))
    plan = [np.array([3, 1]), np.array([0]), np.array([2])]
    assert [batch.record.tolist() for batch in batcher.batches(plan)] == [[3, 1], [0], [2]]


@pytest.mark.parametrize("fraction", [0.3, 0.7])
def test_context_lengths_are_what_is_not_hidden(fraction):
    whole = readings([10, 20, 1])
    hidden = hide(whole, fraction, 0)
    expected = whole.lengths - np.floor(whole.lengths * fraction + 1e-9)
    assert Batcher(whole, hidden).context_lengths.tolist() == expected.tolist()
