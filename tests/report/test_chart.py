"""Paths stand where the data are, to a unit, and never where they are not."""

import re

import numpy as np
import pytest

from levyscreen.report.chart import Frame, span, ticks

FRAME = Frame(100, 20, 800, 200, (0.0, 8.0), (10.0, 20.0))


def points(path):
    """Absolute points of a path of one M and relative steps."""
    start, _, steps = path.rstrip("z").partition("l")
    numbers = [int(x) for x in re.findall(r"-?\d+", steps)]
    first = [int(x) for x in re.findall(r"-?\d+", start)]
    return np.cumsum([first, *np.reshape(numbers, (-1, 2)).tolist()], axis=0).tolist()


def test_a_line_goes_through_its_points_upwards():
    assert points(FRAME.line([0, 4, 8], [10, 20, 15])) == [[100, 220], [500, 20], [900, 120]]


def test_a_band_goes_along_above_and_back_below():
    assert points(FRAME.band([0, 8], [10, 10], [20, 15])) == [[100, 20], [900, 120], [900, 220], [100, 220]]


def test_what_is_not_finite_is_not_drawn_and_what_lies_outside_stands_at_the_edge():
    assert points(FRAME.line([0, 2, 8], [10, np.nan, 99])) == [[100, 220], [900, 20]]
    assert FRAME.band([0, 8], [-np.inf, -np.inf], [np.inf, np.inf]) == ""
    assert FRAME.line([], []) == ""


def test_dots_are_strokes_without_length():
    assert FRAME.dots([0, 8], [10, 20]) == "M100 220h0M900 20h0"


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 1, 5, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (6.95, 7.62, 4, ["7.0", "7.2", "7.4", "7.6"]),
        (-30, 1100, 4, ["0", "500", "1,000"]),
        (0, 10, 4, ["0.0", "2.5", "5.0", "7.5", "10.0"]),
        (-0.2, 0.2, 4, ["-0.2", "-0.1", "0.0", "0.1", "0.2"]),
        (0, 10_000, 4, ["0", "2,500", "5,000", "7,500", "10,000"]),
    ],
)
def test_ticks_are_round_and_no_more_than_asked(low, high, most, expected):
    assert [label for _, label in ticks(low, high, most)] == expected


def test_a_span_is_never_empty():
    assert span([5.0], [np.inf]) == (4.75, 5.25)
    assert span([0.0]) == (-1.0, 1.0)
    assert span([np.nan]) == pytest.approx((-0.05, 1.05))
