"""How errors go with the calibrated scale: what a scale that is right on average is off by where it is small or large.

An affine scale leaves intervals too narrow where a model is most uncertain and too wide where it is least. So errors,
as multiples of the scale, are looked at by decile of the scale: their quantiles for intervals, and their mean for the
expected error. Between the deciles' centres the factors are interpolated over the scale's logarithm; beyond the outer
ones they stay as they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.calibrate.affine import SHRINK
from levyscreen.calibrate.conformal import conformal_quantile
from levyscreen.calibrate.scores import Float64s, Floats

BINS, LEAST = 10, 500  # deciles of the scale, fewer where there would be less than so many targets in each
ROUNDS = 4  # of fitting by variable and by scale in turn, until both hold


@dataclass(frozen=True, eq=False)
class ByScale:
    """Factors at K knots of the scale, for the intervals of L levels and for the expected error."""

    knots: Float64s  # (K,) logarithms of the scale, rising
    interval: Float64s  # (L, K) 1 on the whole
    error: Float64s  # (K,) mean |error| as a multiple of the scale

    def interval_factor(self, scale: Floats, level: int) -> Floats:
        """Of the half width at the level of this index, of the scale's shape."""
        return self._at(scale, self.interval[level])

    def error_factor(self, scale: Floats) -> Floats:
        """Mean |error| over the scale, of the scale's shape."""
        return self._at(scale, self.error)

    def _at(self, scale: Floats, factors: Float64s) -> Floats:
        found = np.interp(np.log(np.asarray(scale, dtype=np.float64)), self.knots, factors)
        return np.asarray(found, dtype=np.asarray(scale).dtype)


@dataclass(frozen=True)
class Fitted:
    """Factors by scale, and what is left by variable."""

    by_scale: ByScale
    quantiles: Float64s  # (L,) over all variables
    quantiles_by_variable: Float64s  # (L, V); infinite where too few patients
    error_by_variable: Float64s  # (V,) 1 on the whole


def fit_by_scale(targets: Targets, levels: Sequence[float]) -> Fitted:
    """On held-out targets. Quantiles are conformal, with their rank counted in patients (`conformal_quantile`).

    By variable and by scale are fitted in turn, the variables last, so that the interval of each variable is conformal
    as it stands.
    """
    bins = _bins(targets.scale)
    knots = np.array([np.log(targets.scale[rows]).mean() for rows in bins])
    parts = [_interval(targets, bins, knots, level) for level in levels]
    factors, overall, each = (np.stack(part) for part in zip(*parts, strict=True))
    by_error, of_variable = _error(targets, bins, knots)
    return Fitted(ByScale(knots, factors, by_error), overall, each, of_variable)


@dataclass(frozen=True)
class Targets:
    """Held-out targets, (N,) each."""

    scale: Float64s  # z units
    error: Float64s  # |target - mean|, z units
    variable: NDArray[np.integer[Any]]
    variables: int  # V
    patient: NDArray[np.integer[Any]] | None
    by_variable: bool

    def quantiles(self, score: Float64s, level: float) -> tuple[float, Float64s]:
        """Conformal quantiles of a score (N,): over all targets, and of each variable (V,)."""
        overall = conformal_quantile(score, level, self.patient)
        if not self.by_variable:
            return overall, np.full(self.variables, overall)
        whose = [self.variable == v for v in range(self.variables)]
        patients = [None if self.patient is None else self.patient[rows] for rows in whose]
        each = [conformal_quantile(score[rows], level, of) for rows, of in zip(whose, patients, strict=True)]
        return overall, np.array(each)


def _bins(scale: Float64s) -> list[NDArray[np.int64]]:
    """Targets by decile of the scale; one bin of few targets, or where all have one scale."""
    order = np.argsort(scale, kind="stable")
    if scale[order[0]] == scale[order[-1]]:
        return [order]
    return np.array_split(order, max(1, min(BINS, len(scale) // LEAST)))


def _interval(
    targets: Targets, bins: list[NDArray[np.int64]], knots: Float64s, level: float
) -> tuple[Float64s, float, Float64s]:
    """Of one level: factors (K,), the quantile over all targets, and of each variable (V,)."""
    ratio, factors = targets.error / targets.scale, np.ones(len(bins))
    overall, each = targets.quantiles(ratio, level)
    for _ in range(ROUNDS if len(bins) > 1 else 0):
        multiple = np.where(np.isfinite(each), each, overall)[targets.variable]
        rest = ratio / (np.interp(np.log(targets.scale), knots, factors) * np.where(multiple > 0, multiple, 1))
        factors = factors * _positive([float(np.quantile(rest[rows], level)) for rows in bins])
        overall, each = targets.quantiles(ratio / np.interp(np.log(targets.scale), knots, factors), level)
    return factors, overall, each


def _error(targets: Targets, bins: list[NDArray[np.int64]], knots: Float64s) -> tuple[Float64s, Float64s]:
    """Mean |error| over the scale: factors (K,), and what is left by variable (V,)."""
    factors, each = np.ones(len(bins)), np.ones(targets.variables)
    for _ in range(ROUNDS):
        expected = targets.scale * np.interp(np.log(targets.scale), knots, factors)
        whole = each[targets.variable] * expected
        factors = factors * _positive([float(targets.error[rows].mean() / whole[rows].mean()) for rows in bins])
        if targets.by_variable:
            each = _by_variable(targets, targets.scale * np.interp(np.log(targets.scale), knots, factors))
    return factors, each


def _by_variable(targets: Targets, expected: Float64s) -> Float64s:
    """Mean |error| over the expected one, (V,), drawn towards that of all where a variable has few targets."""
    total, claimed = (np.bincount(targets.variable, x, minlength=targets.variables) for x in (targets.error, expected))
    weight = SHRINK * expected.mean()
    return np.asarray((total + weight * targets.error.sum() / expected.sum()) / (claimed + weight))


def _positive(steps: list[float]) -> Float64s:
    """A bin without any error leaves its factor as it is."""
    found = np.array(steps)
    return np.where(found > 0, found, 1.0)
