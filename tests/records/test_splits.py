"""Splits: disjoint, complete, and a matter of ids and seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levyscreen.records.splits import split

PARTS = ("train", "validation", "test")


def parts(found):
    return [getattr(found, name).tolist() for name in PARTS]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.booleans(), max_size=80), st.integers(0, 2**32 - 1))
def test_the_parts_are_disjoint_and_cover_the_eligible_records(eligible, seed):
    found = split(np.arange(len(eligible)) * 3, np.array(eligible, dtype=bool), seed)
    rows = sorted(row for part in parts(found) for row in part)
    assert rows == [row for row, yes in enumerate(eligible) if yes]
    assert all(part == sorted(part) for part in parts(found))


@pytest.mark.parametrize(
    ("n", "sizes"), [(20, [14, 3, 3]), (100, [70, 15, 15]), (3997, [2798, 599, 600]), (0, [0, 0, 0])]
)
def test_the_parts_are_70_15_and_15_percent(n, sizes):
    found = split(np.arange(n), np.ones(n, dtype=bool), 0)
    assert [len(part) for part in parts(found)] == sizes


def test_the_order_of_the_rows_has_no_say():
    rng = np.random.default_rng(0)
    identity, eligible = rng.permutation(10_000)[:200], rng.random(200) < 0.9
    found = split(identity, eligible, 4)
    order = rng.permutation(200)
    again = split(identity[order], eligible[order], 4)
    for name in PARTS:
        assert set(identity[getattr(found, name)].tolist()) == set(identity[order][getattr(again, name)].tolist())


def test_records_that_are_not_eligible_have_no_say():
    identity = np.arange(100)
    eligible = identity % 4 != 0
    found = split(identity, eligible, 1)
    bare = split(identity[eligible], np.ones(75, dtype=bool), 1)
    for name in PARTS:
        assert getattr(found, name).tolist() == identity[eligible][getattr(bare, name)].tolist()


def test_the_seed_redraws_the_split_and_the_same_seed_repeats_it():
    identity, eligible = np.arange(100), np.ones(100, dtype=bool)
    assert parts(split(identity, eligible, 1)) == parts(split(identity, eligible, 1))
    assert parts(split(identity, eligible, 1)) != parts(split(identity, eligible, 2))


def test_over_seeds_every_record_is_tested_alike():
    # 2,000 splits of 20 records, 3 in each test part: frequency 0.15, standard error 0.008.
    counts = np.zeros(20)
    for seed in range(2000):
        counts[split(np.arange(20), np.ones(20, dtype=bool), seed).test] += 1
    assert (counts / 2000).tolist() == pytest.approx([0.15] * 20, abs=0.035)
