"""The affine scale s' = a s + b, fitted by the CRPS of the Gaussian it defines (the paper's sec:setup, Calibration).

Least squares of |error| on s was tried and rejected: the errors' tails are heavy, and a few of them set the fit.

The paper searches a coarse grid. The search here goes on from the coarse minimum to finer ones, which is safe: the
second derivative of the CRPS in the scale is 2 phi(z) z^2 / scale >= 0, so the CRPS is convex in the scale, and its
mean over targets jointly convex in (a, b). There is one basin, and the best point so far is always on the next grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.calibrate.scores import Float64s, Floats, clustered_margin, crps_of_error, paired
from levyscreen.errors import CalibrationError

SHRINK = 50.0  # targets of a variable at which its own fit and the global one weigh the same
FLOOR = 1e-3  # b is never below this share of the typical |error|, so that a signal of 0 still has a scale
LEAST_SCALE = 1e-6  # nor below this, where there is no error at all (a variable that never changes)
MOST_A = 1e12  # a signal that errors exceed by more is as good as 0, and their ratio too large for float32
MULTIPLES = np.geomspace(1 / 32, 8, 17)  # coarse grid, in units of the data: steps of a factor sqrt 2
FINE = 7  # points a side of a finer grid; odd, so that its centre is on it
PRECISION = 1e-3  # of the units of the data: where the search stops
ROUNDS = 30
ELEMENTS = 2**18  # array elements held at a time


@dataclass(frozen=True)
class Affine:
    """A fitted scale a s + b, a >= 0 and b > 0."""

    a: float
    b: float

    @property
    def carries_signal(self) -> bool:
        """False where the best scale is a constant: the signal says nothing about the error, do not rank by it."""
        return self.a > 0


def fit_global(signal: ArrayLike, error: ArrayLike, patient: NDArray[np.integer[Any]] | None = None) -> Affine:
    """The (a, b) of least mean CRPS over all targets; `error` is target - mean, `patient` whose each is, all (N,).

    a is 0 unless the signal lowers the mean CRPS, against the best constant scale, by more than half the 95 % interval
    of that difference: the minimum over noise alone has a > 0 half of the time. The interval is clustered by patient,
    so of one patient alone no signal is shown to carry anything; without `patient` targets are taken as independent.
    Raises CalibrationError for a negative signal, UsageError for empty, unequal or non-finite inputs.
    """
    s, e = _prepared(signal, error)
    fitted, constant = _search(s, e), _search(np.zeros_like(s), e)
    gain = crps_of_error(e, constant.b + 0 * s) - crps_of_error(e, fitted.a * s + fitted.b)
    chance = clustered_margin(gain, np.arange(len(gain)) if patient is None else patient)
    return fitted if float(gain.mean(dtype=np.float64)) > chance else constant


def fit_by_variable(
    signal: ArrayLike, error: ArrayLike, variable: NDArray[np.integer[Any]], n_variables: int, pooled: Affine
) -> tuple[Float64s, Float64s]:
    """The (a, b) of each variable, (V,) each: its own fit with weight n / (n + 50), `pooled` with the rest.

    n is the variable's number of targets; a variable without any gets `pooled`. `error` is target - mean; signal, error
    and variable are (N,). Raises as fit_global.
    """
    s, e = _prepared(signal, error)
    a, b = np.full(n_variables, pooled.a), np.full(n_variables, pooled.b)
    for v in np.unique(variable):
        of_v = variable == v
        own, weight = _search(s[of_v], e[of_v]), shrink_weight(int(of_v.sum()))
        a[v] = weight * own.a + (1 - weight) * pooled.a
        b[v] = weight * own.b + (1 - weight) * pooled.b
    return a, b


def shrink_weight(n: int) -> float:
    """Weight of a variable's own fit on n targets, n / (n + 50)."""
    return n / (n + SHRINK)


def mean_crps(signal: Floats, error: Floats, a: Floats, b: Floats) -> Float64s:
    """Mean Gaussian CRPS of scale a_g signal + b_g for each grid point g: (G,) from (N,), (N,), (G,), (G,).

    Computed in the signal's precision, summed in float64, with about 2^18 elements held at a time.
    """
    total = np.zeros(len(a))
    a, b = a.astype(signal.dtype)[:, None], b.astype(signal.dtype)[:, None]
    columns = min(len(signal), ELEMENTS)
    rows = max(1, ELEMENTS // columns)
    for j in range(0, len(signal), columns):
        s, e = signal[j : j + columns], error[j : j + columns]
        for i in range(0, len(total), rows):
            crps = crps_of_error(e, a[i : i + rows] * s + b[i : i + rows])  # (rows, columns)
            total[i : i + rows] += crps.sum(axis=1, dtype=np.float64)
    return total / len(signal)


def _prepared(signal: ArrayLike, error: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Checked, in float32: half the work, and its rounding is far below what the targets can tell apart."""
    s, e = paired(signal=signal, error=error)
    if s.min() < 0:
        raise CalibrationError(f"a signal must be 0 or more to be calibrated, got {s.min():.6g}")
    return s.astype(np.float32), e.astype(np.float32)


def _search(signal: NDArray[np.float32], error: NDArray[np.float32]) -> Affine:
    """The coarse grid, then finer ones around the best point; a stays 0 where the signal is 0 everywhere."""
    size, typical = np.abs(error), float(np.median(np.abs(error)))
    unit_b = max(typical or float(size.mean(dtype=np.float64)), LEAST_SCALE)
    mean_signal = float(signal.mean(dtype=np.float64))
    unit_a = float(size.mean(dtype=np.float64)) / mean_signal if mean_signal > 0 else 0.0
    if unit_a > MOST_A:
        unit_a = 0.0
    floor = max(FLOOR * unit_b, LEAST_SCALE)
    grid_a = np.unique(np.append(0.0, unit_a * MULTIPLES))
    grid_b = np.unique(np.maximum(np.append(floor, unit_b * MULTIPLES), floor))
    best_a, best_b, lowest = _least(signal, error, grid_a, grid_b)
    half_a, half_b = max(best_a / 2, unit_a / 32), max(best_b / 2, unit_b / 32)
    for _ in range(ROUNDS):
        around_a, around_b = _around(best_a, half_a, 0.0), _around(best_b, half_b, floor)
        a, b, crps = _least(signal, error, around_a, around_b)
        inside = abs(a - best_a) < 0.99 * half_a or half_a == 0, abs(b - best_b) < 0.99 * half_b
        if crps < lowest:
            best_a, best_b, lowest = a, b, crps
        if all(inside):  # on an edge the minimum may lie beyond it: move on at the same width
            half_a, half_b = 0.4 * half_a, 0.4 * half_b  # just over one step, so the steps' neighbours stay in
        if half_a <= PRECISION * unit_a and half_b <= PRECISION * unit_b:
            break
    return Affine(best_a, best_b)


def _around(centre: float, half: float, least: float) -> Float64s:
    """FINE points over centre +- half, cut off at `least`; the centre is among them."""
    return np.unique(np.maximum(np.append(centre, centre + half * np.linspace(-1, 1, FINE)), least))


def _least(
    signal: NDArray[np.float32], error: NDArray[np.float32], grid_a: Float64s, grid_b: Float64s
) -> tuple[float, float, float]:
    """The grid point of least mean CRPS, and that CRPS; the smaller a, then b, where they tie."""
    a, b = (grid.ravel() for grid in np.meshgrid(grid_a, grid_b, indexing="ij"))
    crps = mean_crps(signal, error, a, b)
    at = int(np.argmin(crps))
    return float(a[at]), float(b[at]), float(crps[at])
