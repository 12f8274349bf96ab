"""Hidden targets: how many, and that (seed, record id) alone decides which."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levyscreen.records.hiding import choose, hidden_count, hide, subsample
from levyscreen.records.readings import Readings

WORD = 2**64


def readings(lengths, record_id=None):
    """Readings whose value tells their place in the whole."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    record_id = np.arange(len(lengths)) + 132_500 if record_id is None else np.asarray(record_id)
    place = np.arange(n)
    return Readings(
        record_id.astype(np.int64), offsets, np.float32(place / max(n, 1)), np.int16(place % 36), np.float32(place)
    )


def by_record(whole, marked):
    """{record id: places marked among its readings}."""
    return {
        int(identity): np.flatnonzero(marked[start:end]).tolist()
        for identity, start, end in zip(whole.record_id, whole.offsets[:-1], whole.offsets[1:], strict=True)
    }


def mix(state, word):
    """splitmix64 over state and word, in unbounded integers."""
    golden = 0x9E3779B97F4A7C15
    z = (state * golden + word + golden) % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def slowly_chosen(identity, length, count, seed):
    """The places of one record's `count` smallest hashes."""
    record = mix((seed + 0x9E3779B97F4A7C15) % WORD, identity)
    return sorted(sorted(range(length), key=lambda place: mix(record, place))[:count])


def test_three_of_ten_are_hidden_and_none_of_three():
    assert hidden_count(np.array([0, 1, 3, 4, 10, 20]), 0.3).tolist() == [0, 0, 0, 1, 3, 6]


@pytest.mark.parametrize("percent", [1, 7, 10, 15, 29, 30, 33, 50, 57, 70, 90])
def test_the_count_is_the_floor_of_the_decimal_fraction_for_every_length(percent):
    n = np.arange(20_000)
    exact = [floor(Fraction(percent, 100) * k) for k in n.tolist()]
    assert hidden_count(n, percent / 100).tolist() == exact


def test_the_count_is_capped():
    assert hidden_count(np.array([100, 1000]), 0.3, 128).tolist() == [30, 128]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7])
def test_each_record_has_exactly_its_count_hidden(fraction):
    whole = readings(np.arange(1, 60))
    hidden = hide(whole, fraction, 0)
    assert np.add.reduceat(hidden, whole.offsets[:-1]).tolist() == hidden_count(whole.lengths, fraction).tolist()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 2**62 - 1), st.integers(0, 2**31))
def test_the_choice_is_the_one_a_loop_makes(lengths, seed, first_id):
    whole = readings(lengths, np.arange(len(lengths)) * 7 + first_id)
    hidden = by_record(whole, hide(whole, 0.3, seed))
    for identity, length in zip(whole.record_id.tolist(), lengths, strict=True):
        assert hidden[identity] == slowly_chosen(identity, length, 3 * length // 10, seed)


def test_the_choice_for_record_132539_and_seed_0_is_pinned():
    # A change here is a change of every published target set.
    whole = readings([20], [132539])
    assert by_record(whole, hide(whole, 0.3, 0)) == {132539: [1, 10, 11, 16, 17, 19]}


def test_other_records_and_their_order_have_no_say():
    rng = np.random.default_rng(0)
    whole = readings(rng.integers(0, 40, 50))
    expected = by_record(whole, hide(whole, 0.3, 5))
    for rows in (rng.permutation(50), np.arange(50)[::-1], np.array([17]), np.array([3, 40, 8])):
        part = whole.take(rows)
        chosen = by_record(part, hide(part, 0.3, 5))
        assert chosen == {identity: expected[identity] for identity in part.record_id.tolist()}


def test_the_values_times_and_variables_have_no_say():
    whole = readings([30, 20])
    other = Readings(whole.record_id, whole.offsets, whole.time[::-1], whole.variable[::-1], whole.value * -3)
    assert np.array_equal(hide(whole, 0.3, 1), hide(other, 0.3, 1))


def test_another_seed_or_another_id_gives_another_choice():
    whole = readings([40] * 30)
    first = hide(whole, 0.3, 1)
    assert not np.array_equal(first, hide(whole, 0.3, 2))
    chosen = list(by_record(whole, first).values())
    assert len({tuple(places) for places in chosen}) == 30


def test_every_place_is_hidden_equally_often_and_pairs_are_independent():
    # 20,000 records of 10 readings, 3 hidden, seed 0: standard error of a frequency 0.003, of a pair's 0.002.
    hidden = hide(readings([10] * 20_000), 0.3, 0).reshape(-1, 10)
    assert hidden.mean(0).tolist() == pytest.approx([0.3] * 10, abs=0.015)
    pairs = (hidden.T.astype(float) @ hidden) / len(hidden)
    assert pairs[~np.eye(10, dtype=bool)].tolist() == pytest.approx([0.3 * 2 / 9] * 90, abs=0.01)


def test_choices_of_two_seeds_are_independent():
    # Overlap of two independent choices of 3 in 10: 0.9 readings a record; 20,000 records, standard error 0.005.
    whole = readings([10] * 20_000)
    both = hide(whole, 0.3, 0) & hide(whole, 0.3, 1)
    assert both.sum() / 20_000 == pytest.approx(0.9, abs=0.03)


def test_long_records_are_cut_to_the_limit_and_short_ones_kept():
    whole = readings([5, 600, 16])
    cut = subsample(whole, 16)
    assert cut.lengths.tolist() == [5, 16, 16]
    assert set(cut.value.tolist()) <= set(whole.value.tolist())
    assert (np.diff(cut.value[5:21]) > 0).all()  # in their old order
    assert subsample(whole, None) is whole


def test_a_records_subsample_depends_on_its_id_alone():
    whole = readings([50, 50, 50])
    alone = subsample(whole.take(np.array([1])), 20)
    assert alone.value.tolist() == subsample(whole, 20).take(np.array([1])).value.tolist()


def test_records_without_readings_pass_through():
    whole = readings([0, 4, 0])
    assert choose(whole, np.array([0, 2, 0]), 0).sum() == 2
    assert len(hide(readings([0, 0]), 0.3, 0)) == 0
