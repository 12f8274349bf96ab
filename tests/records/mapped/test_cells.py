"""Cells as labels, numbers and times: the fast path of timestamps says what the careful one does."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levyscreen.records.mapped.cells import judge, numbers, words
from levyscreen.records.mapped.mapping import Time
from levyscreen.records.mapped.times import clock_seconds, microseconds, times

TEXTS = st.one_of(
    st.text(max_size=12),
    st.text("0123456789+-.,eE _ ", max_size=24),
    st.floats().map(str),
    st.integers().map(str),
    st.from_regex(r"-?[0-9]{1,17}([.,][0-9]{0,17})?", fullmatch=True),
)
STAMPS = Time("timestamp", (1.0, 3.6e9), None, "first", None, None)


@given(st.lists(TEXTS, min_size=1), st.sampled_from(".,"))
def test_numbers_at_once_are_those_judged_one_by_one(texts, decimal):
    column = pa.array(texts)
    found, coded = numbers(column, "value", decimal), words(column)
    one_by_one = [judge(coded.words[which], decimal) for which in coded.which.tolist()]
    assert list(zip(found.value.tolist(), found.refusal.tolist(), strict=True)) == one_by_one
    assert not np.signbit(found.value[found.value == 0]).any()


def test_timestamps_at_once_are_those_read_one_by_one():
    rng = np.random.default_rng(0)
    seconds = rng.integers(-(10**9), 7 * 10**9, 500)
    texts = [str(np.datetime64(int(s), "s")).replace("T", " ") for s in seconds]
    texts += [f"{text}.{i:06}" for i, text in enumerate(texts[:50])] + [text[:10] for text in texts[:50]]
    at_once = times(pa.array(texts), "t", STAMPS).time
    assert at_once.tolist() == [microseconds(text, None) for text in texts]
    # One that Arrow does not take sends the whole block the careful way.
    careful = times(pa.array([*texts, "soon"]), "t", STAMPS).time
    assert careful[:-1].tolist() == at_once.tolist()
    assert math.isnan(careful[-1])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:07", 420),
        ("120:30", 433800),
        ("1:00:30", 3630),
        (" 48:00 ", 172800),
        ("0:00:01.5", 1.5),
        ("1 days 02:00:00", 93600),
        ("0 days, 0:07", 420),
    ],
)
def test_a_clock_may_go_beyond_a_day_and_have_seconds(text, seconds):
    assert clock_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "7:60", "a:00", "-1:00"])
def test_what_is_no_clock_is_no_time(text):
    assert math.isnan(clock_seconds(text))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, 7, 8, None], pa.int64()),
        pa.array([7.0, 7.0, 8.0, None]),
        pa.array(["7", " 7 ", "8", None]),
        pa.array(["7", "7", "8", None]).dictionary_encode(),
        pa.array(["7", "7", "8", ""], pa.large_string()),
    ],
)
def test_an_id_is_one_label_whatever_the_columns_type(column):
    found = words(column)
    assert [found.words[i] for i in found.which] == ["7", "7", "8", ""]


def test_a_float32_is_the_shortest_decimal_and_a_float64_what_it_is():
    short = numbers(pa.array([36.6, 1e-3, None, math.inf], pa.float32()), "x")
    assert short.value.tolist() == [36.6, 0.001, 0.0, 0.0]
    assert short.empty.tolist() == [False, False, True, False]
    assert numbers(pa.array([36.599998474121094]), "x").value.tolist() == [36.599998474121094]
