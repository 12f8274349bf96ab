"""Does the calibration hold on targets it never saw: coverage and width, overall and by variable (tab:dist, bottom)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.calibrate.calibration import Calibration
from levyscreen.calibrate.scores import Float64s, Floats, paired

if TYPE_CHECKING:
    import pandas as pd


def reliability(
    mean: ArrayLike, target: ArrayLike, scale: ArrayLike, variable: NDArray[np.integer[Any]], calibration: Calibration
) -> pd.DataFrame:
    """One row overall, then one for each variable that has targets, the worst first; mean to variable are (N,).

    Columns: variable, n, and for each level, say 0.9: `coverage_90` of the conformal interval, `gap_90` = that less the
    nominal level, `gaussian_coverage_90` of mean +- z scale, `width_90`, the conformal interval's median width in z
    units (may be infinite). Worst is the largest |gap| over the levels. `scale` is what `calibration.scale` gives.
    """
    import pandas as pd

    mu, y, s = paired(mean=mean, target=target, scale=scale)
    half = np.stack([calibration.half_width(s, variable, level) for level in calibration.levels])  # (L, N)
    error, variable = np.abs(y - mu), np.asarray(variable)
    rows = [{"variable": "overall", **_row(error, s, half, calibration.levels)}]
    for v in np.unique(variable):
        of_v = variable == v
        row = _row(error[of_v], s[of_v], half[:, of_v], calibration.levels)
        rows.append({"variable": calibration.variables[v], **row})
    rows[1:] = sorted(rows[1:], key=_worst_gap, reverse=True)
    return pd.DataFrame(rows)


def _row(error: Float64s, scale: Float64s, half: Floats, levels: tuple[float, ...]) -> dict[str, Any]:
    """Numbers of one group; |error| and scale (n,), half (L, n)."""
    from scipy.special import ndtri

    row: dict[str, Any] = {"n": len(error)}
    for level, h in zip(levels, half, strict=True):
        percent = f"{100 * level:g}"
        row[f"coverage_{percent}"] = float(np.mean(error <= h))
        row[f"gap_{percent}"] = row[f"coverage_{percent}"] - level
        row[f"gaussian_coverage_{percent}"] = float(np.mean(error <= ndtri((1 + level) / 2) * scale))
        row[f"width_{percent}"] = float(2 * np.median(h))
    return row


def _worst_gap(row: dict[str, Any]) -> float:
    return max(abs(value) for name, value in row.items() if name.startswith("gap_"))
