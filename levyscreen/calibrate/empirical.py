"""A predictive law with the shape of the residuals themselves: mean + scale * R, R drawn from them.

The Gaussian of eq:predictive has no tails to speak of and no skew; vital signs and laboratory values have both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.calibrate.affine import shrink_weight
from levyscreen.calibrate.scores import Float64s, Floats, paired


@dataclass(frozen=True, eq=False)
class EmpiricalLaw:
    """Weighted atoms: normalised residuals (target - mean) / scale, each as likely as its weight says."""

    atoms: Float64s  # (N,) rising
    weights: Float64s  # (N,) of sum 1

    @classmethod
    def of(cls, residuals: ArrayLike, weights: ArrayLike | None = None) -> EmpiricalLaw:
        """Of residuals (N,), equally likely or by their weights. Raises UsageError where there are none or NaN."""
        weights = np.ones(np.shape(residuals)) if weights is None else weights
        atoms, weights = paired(residuals=residuals, weights=weights)
        order = np.argsort(atoms, kind="stable")
        return cls(atoms[order], weights[order] / weights.sum())

    def quantile(self, level: float) -> float:
        """The least atom that this share of the law is at or below."""
        at = np.searchsorted(self._share, level * (1 - 1e-12))  # 0.3 is not ten times 0.1 in floating point, say
        return float(self.atoms[min(int(at), len(self.atoms) - 1)])

    def crps(self, z: Floats) -> Float64s:
        """Score of the law against normalised targets z (M,), in units of the scale.

        Exact, E|R - z| - E|R - R'|/2 (Gneiting and Raftery 2007), by sums over the sorted atoms: a target costs one
        search among them.
        """
        below = np.searchsorted(self.atoms, z, side="right")  # atoms at or below z
        share, sums = np.append(0.0, self._share)[below], np.append(0.0, self._sums)[below]
        distance = z * (2 * share - 1) + self._sums[-1] - 2 * sums
        return np.asarray(distance - self._half_spread, dtype=np.float64)

    @cached_property
    def _share(self) -> Float64s:
        return np.cumsum(self.weights)

    @cached_property
    def _sums(self) -> Float64s:
        return np.cumsum(self.weights * self.atoms)

    @cached_property
    def _half_spread(self) -> float:
        """E|R - R'|/2 of two independent draws."""
        return float(np.sum(self.weights * self.atoms * (2 * self._share - self.weights - 1)))


def law_of_variable(residuals: Floats, variable: NDArray[np.integer[Any]], v: int) -> EmpiricalLaw:
    """A variable's own law with weight n / (n + 50), that of all residuals (N,) with the rest, as its scale is shrunk.

    n is its number of residuals.
    """
    own = residuals[variable == v]
    if not len(own):
        return EmpiricalLaw.of(residuals)
    weight = shrink_weight(len(own))
    shares = np.full(len(own), weight / len(own)), np.full(len(residuals), (1 - weight) / len(residuals))
    return EmpiricalLaw.of(np.concatenate([own, residuals]), np.concatenate(shares))
