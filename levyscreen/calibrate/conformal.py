"""Split conformal on R = |y - mu| / s, overall and by variable (the paper's eq:conformal; Mondrian: Vovk et al. 2005).

The quantiles are plain numbers, so a model folder carries them in JSON and needs no pickle. Taking them from the crepes
package (0.9.1) was tried and rejected; it is the tests' oracle instead:

- it imports scikit-learn without requiring it, so an install of its own dependencies cannot import it;
- its rank is int((1 - level) (n + 1)) in floating point, one off wherever that product is whole: 9 scores at level 0.9
  give infinity where eq:conformal gives the largest score;
- a category that calibration never saw gets the interval [0, 0], where ours is infinite;
- on import it sets a process-wide "always" filter for warnings.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.calibrate.scores import Float64s


class CalibrationWarning(UserWarning):
    """The calibration stands, and some part of it is weaker than asked."""


def conformal_rank(n: int, level: float) -> int:
    """ceil((n + 1) level), counting from 1 among n sorted scores; over n where n scores are too few for the level.

    In whole numbers: (n + 1) * 0.55 in floating point is 11.000000000000002 for n = 19, and its ceiling 12.
    """
    return math.ceil((n + 1) * _exact(level))


def least_targets(level: float) -> int:
    """The fewest scores that bound an interval at this level: 4, 9 and 19 at 0.8, 0.9 and 0.95."""
    p = _exact(level)
    return math.ceil(p / (1 - p))


def _exact(level: float) -> Fraction:
    return Fraction(level).limit_denominator(1_000_000)


def conformal_quantile(scores: Float64s, level: float, patient: NDArray[np.integer[Any]] | None = None) -> float:
    """Q_alpha, level = 1 - alpha: the score of that rank among `scores` (N,), +inf where they are too few.

    With `patient`, whose each score is, the rank is counted in patients, whose scores miss together: the share of
    scores below it is that of the rank among so many patients, and too few patients give +inf.
    """
    rank = conformal_rank(len(scores), level)
    if patient is not None and len(scores):
        patients = len(np.unique(patient))
        if (among := conformal_rank(patients, level)) > patients:
            return math.inf
        rank = max(rank, math.ceil(Fraction(among, patients) * len(scores)))
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else math.inf


def quantiles(scores: Float64s, levels: Sequence[float]) -> Float64s:
    """Q_alpha at each level, (levels,)."""
    return np.array([conformal_quantile(scores, level) for level in levels])


def quantiles_by_variable(
    scores: Float64s, variable: NDArray[np.integer[Any]], n_variables: int, levels: Sequence[float]
) -> Float64s:
    """Q_alpha at each level within each variable, (levels, V), from scores and variable (N,); +inf where too few."""
    return np.stack([quantiles(scores[variable == v], levels) for v in range(n_variables)], axis=1)


def warn_of_unbounded(
    by_variable: Float64s, levels: Sequence[float], names: Sequence[str], without: Collection[str] = ()
) -> None:
    """Warn once, with the names, if a variable has too few targets for a finite interval. by_variable: (levels, V).

    Nothing is said of `without`, the variables that are never targets.
    """
    told = []
    for level, row in zip(levels, by_variable, strict=True):
        if lacking := [name for name, q in zip(names, row, strict=True) if math.isinf(q) and name not in without]:
            told.append(f"{level:g} (needs {least_targets(level)} targets): {', '.join(lacking)}")
    if told:
        text = "too few targets to bound the interval, which is infinite, at level " + "; ".join(told)
        warnings.warn(text, CalibrationWarning, stacklevel=3)


def warn_of_few_patients(
    by_variable: Float64s,
    variable: NDArray[np.integer[Any]],
    patient: NDArray[np.integer[Any]],
    levels: Sequence[float],
    names: Sequence[str],
) -> None:
    """Warn once, with names and numbers, of finite intervals from fewer patients than the level needs targets.

    A patient's targets miss together, so that they say less of another's: of a spread by patient of half its size, 20
    targets of one patient cover 83 % of others' at level 0.9, 20 of 20 patients 90 % (tests/calibrate). by_variable:
    (levels, V); variable and patient: (N,).
    """
    pairs = np.unique(np.stack([variable, np.unique(patient, return_inverse=True)[1]]), axis=1)
    patients = np.bincount(pairs[0], minlength=len(names))
    told = []
    for level, row in zip(levels, by_variable, strict=True):
        few = np.flatnonzero(np.isfinite(row) & (patients < least_targets(level))).tolist()
        if len(few):
            told.append(f"{level:g}: {', '.join(f'{names[v]} ({patients[v]})' for v in few)}")
    if told:
        text = "targets of so few patients that the interval may be too narrow for others, at level " + "; ".join(told)
        warnings.warn(text, CalibrationWarning, stacklevel=3)
