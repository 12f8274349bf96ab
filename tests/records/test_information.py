"""What a record says is counted as a slow twin counts it, and what says far less than training records is found."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levyscreen.records.information import MARGINS, MEASURES, PARTS, PATH, information, lacking, least_of
from levyscreen.records.readings import Readings

READING = st.tuples(st.integers(0, 200), st.integers(0, 2), st.integers(0, 2))


def readings_of(records):
    flat = [reading for record in records for reading in sorted(record)]
    time, variable, value = (np.array([reading[i] for reading in flat]) for i in range(3))
    return Readings(
        np.arange(len(records)),
        np.concatenate([[0], np.cumsum([len(record) for record in records])]).astype(np.int64),
        (time / 200).astype(np.float32),
        variable.astype(np.int16),
        value.astype(np.float32),
    )


def share(part, whole):
    return len(part) / len(whole) if whole else 1.0


def slowly(record):
    first, paths = {}, []
    for time, variable, value in sorted(record):
        first.setdefault((variable, min(int(np.float32(time / 200) * PARTS), PARTS - 1)), (time, value))
    for variable in {variable for _, variable, _ in record}:
        values = [value for _, of, value in sorted(record) if of == variable]
        moves = [value for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
        paths += [(variable, *moves[i : i + PATH]) for i in range(len(moves) - PATH + 1)]
    kept = sorted((variable, time, value) for (variable, _), (time, value) in first.items())
    pairs = [(one, other) for one, other in itertools.pairwise(kept) if one[0] == other[0]]
    return [
        len({variable for variable, _, _ in kept}),
        len({time for _, time, _ in kept}),
        share({(variable, value) for variable, _, value in kept}, kept),
        share([one for one, other in pairs if one[2] != other[2]], pairs),
        share(set(paths), paths),
    ]


@given(st.lists(st.sets(READING, max_size=40), min_size=1, max_size=5))
def test_what_records_say_is_what_the_slow_twin_counts(records):
    # Two readings of a variable at one time have no order: the twin and the sort might take either first.
    records = [list({reading[:2]: reading for reading in record}.values()) for record in records]
    if not any(records):
        return
    np.testing.assert_allclose(information(readings_of(records)), [slowly(record) for record in records])


def rich(rng, n=60):
    return [(3 * i, i % 4, int(rng.integers(0, 1000))) for i in range(n)]


@pytest.mark.parametrize(
    "record",
    [
        [(3 * i, i % 4, 7) for i in range(60)],
        [(3 * i, i % 4, i // 4 % 2) for i in range(60)],
        [(3 * i, 0, i) for i in range(60)],
        [(0, i % 4, i) for i in range(60)],
    ],
    ids=["constants", "two values", "one variable", "one time"],
)
def test_a_record_that_says_far_less_than_training_records_is_found(record):
    rng = np.random.default_rng(0)
    train = readings_of([rich(rng) for _ in range(30)])
    least = least_of(train, 20)
    assert list(least) == list(MEASURES)
    if len({variable for _, variable, _ in record}) == 1:
        least = least | {"variables": 1 / MARGINS["variables"] + 1}  # as of a cohort that always has more than five
    assert not lacking(train, least).any()
    assert lacking(readings_of([record, rich(rng)]), least).tolist() == [True, False]


def test_readings_that_come_oftener_count_no_less():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1000, (PARTS, 4))
    hourly, often = (
        [(200 * (i + 0.1 + k / 4) / PARTS, v, int(values[i, v])) for i in range(PARTS) for v in range(4) for k in times]
        for times in ([0], [0, 1, 2, 3])
    )
    of_hours, of_quarters = (information(readings_of([record]))[0] for record in (hourly, often))
    np.testing.assert_array_equal(of_hours, of_quarters)


def test_without_what_training_records_had_nothing_is_lacking():
    assert not lacking(readings_of([[(i, 0, 7) for i in range(60)]]), {}).any()
    assert least_of(readings_of([[(0, 0, 7)]]), 20) == {}


def test_few_training_records_say_nothing_of_how_short_a_record_may_be():
    rng = np.random.default_rng(2)
    long, short = [rich(rng, 200) for _ in range(20)], [(0, 0, 1), (1, 0, 2), (1, 1, 3)]
    one_time, one_variable = [(0, i, i) for i in range(3)], [(i, 0, i) for i in range(3)]
    least = least_of(readings_of(long), 20)
    assert lacking(readings_of([short, one_time]), least).tolist() == [False, True]
    assert lacking(readings_of([one_variable]), least | {"variables": 6}).tolist() == [True]
