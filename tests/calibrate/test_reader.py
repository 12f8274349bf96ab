"""A reader's answers are those of a loop over questions, and only a whole one is read back."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from levyscreen.calibrate import Calibration, Reader, fit_calibration
from levyscreen.calibrate.reader import EVERY, ROWS, SIGNALS, WITHOUT_DEVIATION, columns, known_columns
from levyscreen.config import NEARBY, SURROUNDINGS
from levyscreen.errors import CalibrationError, UsageError

NAMES = ("HR", "MAP", "pH")


@dataclass(frozen=True)
class Emitted:
    prediction: np.ndarray
    variable: np.ndarray
    evidence: np.ndarray
    disagreement: np.ndarray
    deviation: np.ndarray | None
    surroundings: np.ndarray | None = None


def emitted(n, seed=0):
    rng = np.random.default_rng(seed)
    return Emitted(
        rng.normal(size=n).astype(np.float32),
        rng.integers(0, 3, n),
        rng.lognormal(2, 3, n).astype(np.float32),
        rng.lognormal(0, 3, n).astype(np.float32),
        rng.lognormal(-1, 3, n).astype(np.float32),
    )


@pytest.fixture
def reader():
    rng = np.random.default_rng(1)
    shapes = ((4, 5), (3, 5), (5, 5), (5,), (5,), ())
    weights = [np.asarray(rng.normal(size=shape), dtype=np.float32) for shape in shapes]
    limits = [np.full(4, x, dtype=np.float32) for x in (-2, 3, 0.5, 1.5)]
    return Reader(*limits, *weights)


def slow(reader, e, i):
    """One question, a number at a time."""
    raw = [math.log(max(float(x[i]), 1e-8)) for x in (e.deviation, e.disagreement, e.evidence)] + [
        float(e.prediction[i])
    ]
    standard = [
        (min(max(x, float(low)), float(high)) - float(c)) / float(s)
        for x, low, high, c, s in zip(raw, reader.least, reader.most, reader.centre, reader.spread, strict=True)
    ]
    of = reader.variables[e.variable[i]]
    first = [max(sum(x * w[u] for x, w in zip(standard, reader.columns, strict=True)) + of[u], 0) for u in range(5)]
    second = [
        max(sum(x * w[u] for x, w in zip(first, reader.hidden, strict=True)) + reader.hidden_bias[u], 0)
        for u in range(5)
    ]
    return math.exp(sum(x * w for x, w in zip(second, reader.out, strict=True)) + float(reader.out_bias))


def test_it_answers_as_a_loop_over_questions_does(reader):
    e = emitted(40)
    np.testing.assert_allclose(reader(e), [slow(reader, e, i) for i in range(40)], rtol=2e-5)


def test_surroundings_are_read_by_name():
    e = emitted(40)
    around = np.random.default_rng(7).normal(size=(40, len(SURROUNDINGS))).astype(np.float32)
    e = Emitted(e.prediction, e.variable, e.evidence, e.disagreement, None, around)
    found = columns(e, ("weight_of_last", "evidence", "jump"))
    np.testing.assert_array_equal(found[:, 0], around[:, SURROUNDINGS.index("weight_of_last")])
    np.testing.assert_allclose(found[:, 1], np.log(e.evidence), rtol=1e-6)
    np.testing.assert_array_equal(found[:, 2], around[:, SURROUNDINGS.index("jump")])
    assert known_columns(Emitted(*([e.prediction] * 5), around[:, : len(NEARBY)])) == (*SIGNALS, *NEARBY)
    assert not set(WITHOUT_DEVIATION) ^ set(EVERY) ^ {"deviation"}


def test_a_grid_is_read_like_a_list_and_a_variable_for_a_whole_row_of_it(reader):
    e = emitted(12)
    grid = Emitted(*(x.reshape(3, 4) for x in (e.prediction, e.variable, e.evidence, e.disagreement, e.deviation)))
    np.testing.assert_array_equal(reader(grid), reader(e).reshape(3, 4))
    one_row = Emitted(grid.prediction, np.arange(3)[:, None], grid.evidence, grid.disagreement, grid.deviation)
    spelt = Emitted(
        grid.prediction, np.repeat(np.arange(3), 4).reshape(3, 4), grid.evidence, grid.disagreement, grid.deviation
    )
    np.testing.assert_array_equal(reader(one_row), reader(spelt))


def test_more_questions_than_are_read_at_once_are_answered_alike(reader):
    few, many = emitted(50), emitted(50)
    copies = -(-(ROWS + 1) // 50)
    many = Emitted(*(np.tile(x, copies) for x in vars(few).values() if x is not None))
    np.testing.assert_allclose(reader(many), np.tile(reader(few), copies), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1e-38, 1e38, np.inf])
def test_signals_beyond_what_it_was_fitted_on_have_a_finite_scale_above_zero(reader, value):
    e = emitted(6)
    far = Emitted(e.prediction, e.variable, *(np.full(6, value, dtype=np.float32) for _ in range(3)))
    scale = reader(far)
    assert np.isfinite(scale).all()
    assert (scale > 0).all()


def test_nothing_to_read_gives_nothing(reader):
    assert reader(emitted(0)).shape == (0,)


@pytest.fixture
def calibration(reader):
    e = emitted(200)
    error = np.random.default_rng(3).normal(size=200) * reader(e)
    return fit_calibration(
        reader(e), "rich", e.prediction, e.prediction + error, e.variable, NAMES, reader=reader, levels=(0.8,)
    )


def test_a_calibration_with_a_reader_comes_back_from_json_bit_for_bit(calibration):
    back = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    e = emitted(30, seed=5)
    np.testing.assert_array_equal(back.scale_of(e), calibration.scale_of(e))
    assert back.needs_deviation


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": [[1.0]]},
        {"variables": [[0.0] * 5] * 2},
        {"out_bias": float("nan")},
        {"out": [0.0] * 4},
        {"spread": [1.0, 1.0, 1.0, 0.0]},
    ],
)
def test_a_damaged_reader_is_refused(calibration, change):
    data = calibration.to_json()
    with pytest.raises(CalibrationError, match="reader"):
        Calibration.from_json(data | {"reader": data["reader"] | change})


def test_the_rich_signal_and_a_reader_go_together(reader):
    e = emitted(20)
    with pytest.raises(UsageError, match="take a reader"):
        fit_calibration(reader(e), "rich", e.prediction, e.prediction, e.variable, NAMES)
    with pytest.raises(UsageError, match="take a reader"):
        fit_calibration(reader(e), "deviation", e.prediction, e.prediction, e.variable, NAMES, reader=reader)


@pytest.mark.parametrize("signal", ["deviation", "disagreement", "inverse_evidence"])
def test_any_other_signal_is_taken_as_it_was_emitted(signal):
    e = emitted(60)
    values = {"inverse_evidence": 1 / e.evidence}.get(signal, getattr(e, signal, None))
    c = fit_calibration(values, signal, e.prediction, e.prediction + 1, e.variable, NAMES, levels=(0.8,))
    np.testing.assert_array_equal(c.signal_of(e), values)
    np.testing.assert_array_equal(c.scale_of(e), c.scale(values, e.variable))
