"""Does the calibration hold on targets it never saw: coverage and width, overall and by variable (tab:dist, bottom)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.calibrate.calibration import Calibration
from levyscreen.calibrate.scores import Float64s, Floats, clustered_error, paired

if TYPE_CHECKING:
    import pandas as pd


def reliability(
    mean: ArrayLike,
    target: ArrayLike,
    scale: ArrayLike,
    variable: NDArray[np.integer[Any]],
    calibration: Calibration,
    patient: NDArray[np.integer[Any]] | None = None,
) -> pd.DataFrame:
    """One row overall, then one for each variable that has targets, the worst first; mean to patient are (N,).

    Columns: variable, n, and for each level, say 0.9: `coverage_90` of the conformal interval, `gap_90` = that less the
    nominal level, `gaussian_coverage_90` of mean +- z scale, `width_90`, the conformal interval's median width in z
    units (infinite where half of the targets have none). A target without an interval counts for no coverage; where
    there are such, `bounded_90` is the share of the others. Worst is the largest |gap| over the levels. `scale` is what
    `calibration.scale` gives.
    With `patient`, whose each target is, also `patients`, how many, and `error_90`, the standard error of the coverage
    by patient, NaN where all targets are of one.
    """
    import pandas as pd

    mu, y, s = paired(mean=mean, target=target, scale=scale)
    half = np.stack([calibration.half_width(s, variable, level) for level in calibration.levels])  # (L, N)
    error, variable = np.abs(y - mu), np.asarray(variable)
    rows = [{"variable": "overall", **_row(error, s, half, calibration.levels, patient)}]
    for v in np.unique(variable):
        of_v = variable == v
        whose = None if patient is None else patient[of_v]
        row = _row(error[of_v], s[of_v], half[:, of_v], calibration.levels, whose)
        rows.append({"variable": calibration.variables[v], **row})
    rows[1:] = sorted(rows[1:], key=_worst_gap, reverse=True)
    found = pd.DataFrame(rows)
    whole = [name for name in found.columns if name.startswith("bounded_") and (found[name] == 1).all()]
    return found.drop(columns=whole)


def _row(
    error: Float64s,
    scale: Float64s,
    half: Floats,
    levels: tuple[float, ...],
    patient: NDArray[np.integer[Any]] | None,
) -> dict[str, Any]:
    """Numbers of one group; |error|, scale and patient (n,), half (L, n)."""
    from scipy.special import ndtri

    row: dict[str, Any] = {"n": len(error)}
    if patient is not None:
        row["patients"] = len(np.unique(patient))
    for level, h in zip(levels, half, strict=True):
        percent = f"{100 * level:g}"
        bounded = np.isfinite(h)
        row[f"coverage_{percent}"] = float(np.mean((error <= h)[bounded])) if bounded.any() else math.nan
        if patient is not None:
            row[f"error_{percent}"] = clustered_error((error <= h)[bounded], patient[bounded])
        row[f"gap_{percent}"] = row[f"coverage_{percent}"] - level
        row[f"gaussian_coverage_{percent}"] = float(np.mean(error <= ndtri((1 + level) / 2) * scale))
        row[f"width_{percent}"] = float(2 * np.median(h))
        row[f"bounded_{percent}"] = float(bounded.mean())
    return row


def _worst_gap(row: dict[str, Any]) -> float:
    """0 where there is no interval at any level."""
    gaps = [abs(value) for name, value in row.items() if name.startswith("gap_")]
    return max((gap for gap in gaps if gap == gap), default=0.0)
