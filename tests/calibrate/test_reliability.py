"""The reliability table on small cases that can be counted by hand."""

import numpy as np
import pytest

from levyscreen.calibrate import Affine, Calibration, reliability


def calibration(q):
    """Levels 0.8 and 0.9, scale 1; `q` (2, 3) are the quantiles of three variables."""
    return Calibration(
        signal="deviation",
        by="variable",
        variables=("HR", "MAP", "pH"),
        pooled=Affine(0.0, 1.0),
        a=np.zeros(3),
        b=np.ones(3),
        n_targets=np.full(3, 100),
        levels=(0.8, 0.9),
        quantiles=np.array([1.0, 2.0]),
        quantiles_by_variable=np.array(q, dtype=float),
        mean_error=np.ones(3),
    )


def test_coverage_gap_and_width_are_counted():
    error = np.append(np.arange(0.5, 10.5), [1.0] * 10)  # HR: 0.5 .. 9.5; MAP: all 1
    variable = np.repeat([0, 1], 10)
    table = reliability(np.zeros(20), error, np.ones(20), variable, calibration([[8, 2, 1], [9, 3, 1]]))
    assert list(table.variable) == ["overall", "MAP", "HR"]  # MAP is off by 20 points at 80 %, HR by none
    assert list(table.n) == [20, 10, 10]
    assert list(table.coverage_80) == pytest.approx([0.9, 1.0, 0.8])
    assert list(table.gap_80) == pytest.approx([0.1, 0.2, 0.0])
    assert list(table.coverage_90) == pytest.approx([0.95, 1.0, 0.9])
    assert list(table.width_80) == pytest.approx([10, 4, 16])
    assert list(table.gaussian_coverage_80) == pytest.approx([0.55, 1.0, 0.1])  # z = 1.28
    assert list(table.gaussian_coverage_90) == pytest.approx([0.6, 1.0, 0.2])  # z = 1.64


def test_variables_without_targets_have_no_row_and_what_has_no_interval_is_not_inside_one():
    table = reliability([0.0, 0.0], [5.0, 9.0], [1.0, 1.0], np.array([2, 2]), calibration([[1, 1, 1], [1, 1, np.inf]]))
    assert list(table.variable) == ["overall", "pH"]
    assert list(table.coverage_80) == [0, 0]
    assert table.coverage_90.isna().all()
    assert np.isinf(table.width_90).all()
    assert list(table.bounded_90) == [0, 0]
    assert "bounded_80" not in table


def test_coverage_is_of_the_readings_that_have_an_interval():
    error, variable = np.array([0.5, 0.5, 5.0, 5.0]), np.array([0, 0, 0, 1])
    given = calibration([[1, np.inf, 1], [2, np.inf, 1]])
    table = reliability(np.zeros(4), error, np.ones(4), variable, given, np.arange(4)).set_index("variable")
    assert table.loc["overall", "coverage_80"] == pytest.approx(2 / 3)
    assert table.loc["overall", "bounded_80"] == 0.75
    assert table.loc["overall", "error_80"] == pytest.approx(np.sqrt(2 / 9 / 2))
    assert list(table.index) == ["overall", "HR", "MAP"]  # what has no interval stands last


def test_a_patients_readings_miss_together_and_the_error_says_so():
    """MAP: two patients of five readings, one all inside and one all outside; HR: as many of one patient."""
    error = np.array([1.0] * 5 + [9.0] * 5 + [1.0] * 10)
    variable, patient = np.repeat([1, 0], 10), np.repeat([7, 8, 9, 9], 5)
    table = reliability(np.zeros(20), error, np.ones(20), variable, calibration([[2, 2, 1], [2, 2, 1]]), patient)
    rows = table.set_index("variable")
    assert list(rows.loc[["overall", "MAP", "HR"], "patients"]) == [3, 2, 1]
    assert rows.loc["MAP", "coverage_80"] == 0.5
    assert rows.loc["MAP", "error_80"] == pytest.approx(np.sqrt(2 * 2 * 2.5**2) / 10)  # each one's residuals sum to 2.5
    assert np.isnan(rows.loc["HR", "error_80"])
