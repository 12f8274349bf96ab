"""What the held-out readings say about ranking and intervals: two sparsification curves and a table by variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.calibrate import ause, clustered_margin, flagged_excess, reliability, sparsification, spearman
from levyscreen.report.chart import Frame

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from levyscreen.calibrate import Calibration
    from levyscreen.report.asking import Asked

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 640, 130, 40, 20, 90
LOWEST_LEVEL = 0.7  # shown
FEWEST = 30  # targets of a variable whose coverage is listed
FEWEST_PATIENTS = 11  # whose spread says how far a share may be off


def ranking(asked: Asked, scored: pd.DataFrame) -> dict[str, Any]:
    """How well the doubt orders the errors, of readings and of patients: numbers and curves."""
    patients = scored["uncertainty"].to_numpy(np.float64), scored["mae"].to_numpy(np.float64)
    ids = scored["record_id"].to_numpy(dtype=np.int64, na_value=-1)
    doubt = np.asarray(asked.doubt, dtype=np.float64)
    return {
        "readings": len(doubt),
        "patients": len(ids),
        "ause": ause(doubt, asked.error),
        "spearman_readings": spearman(doubt, asked.error),
        "spearman": spearman(*patients),
        "excess": flagged_excess(*patients, 0.1, ids),
        "by_reading": _sparsification(doubt, asked.error, "readings"),
        "by_patient": _sparsification(*patients, "patients"),
    }


def _sparsification(doubt: NDArray[np.float64], error: NDArray[np.float64], of: str) -> dict[str, Any]:
    """The curve of leaving out by the model's doubt, and the best one, which knows the errors."""
    if not error.any():
        error = np.ones_like(error)
    ours, best = (np.array(sparsification(by, error)) for by in (doubt, error))
    share = np.arange(len(ours)) / len(ours)
    frame = _frame((0.0, 1.0), (0.0, max(1.05, 1.05 * float(ours.max()))))
    said = f"Without the top decile, the mean error of the rest is {100 * ours[len(ours) // 10]:.0f} % of that of all."
    return {
        "frame": frame,
        "title": f"Error of the {of} that are left as the least trusted are set aside",
        "description": said if len(ours) >= 10 else "There are too few to exclude a tenth of them.",
        "ours": frame.line(share, ours),
        "best": frame.line(share, best),
        "chance": frame.line([0, 1], [1, 1]),
        "x_label": f"share of {of} excluded",
        "y_label": "error of the rest / error of all",
    }


def intervals(asked: Asked, patient: NDArray[np.int64], calibration: Calibration) -> dict[str, Any]:
    """Coverage of the calibrated intervals at each level, and by variable.

    With a 95 % interval of its own, over the patients (N,) that the readings are of, unless these are too few.
    """
    rows, marks = [], []
    frame = _frame((LOWEST_LEVEL, 1.0), (LOWEST_LEVEL, 1.0))
    for level in calibration.levels:
        half = calibration.half_width(asked.scale, asked.variable, level)
        bounded = np.isfinite(half)
        if not bounded.any():
            continue
        inside, whose = (asked.error <= half)[bounded].astype(np.float64), patient[bounded]
        share, known = float(inside.mean()), len(np.unique(whose)) >= FEWEST_PATIENTS
        error = clustered_margin(inside, whose) if known else 0.0
        low, high = max(0.0, share - error), min(1.0, share + error)
        without = int((~bounded).sum())
        rows.append({"level": level, "share": share, "low": low, "high": high, "known": known, "without": without})
        if level >= LOWEST_LEVEL:
            bar = frame.line([level, level], [low, high])
            marks.append({"dot": frame.dots([level], [share]), "bar": bar})
    return {
        "frame": frame,
        "title": "Held-out readings covered by the calibrated interval, by nominal level",
        "description": "; ".join(f"at {100 * r['level']:g} %: {100 * r['share']:.1f} %" for r in rows),
        "equal": frame.line([LOWEST_LEVEL, 1], [LOWEST_LEVEL, 1]),
        "marks": marks,
        "rows": rows,
        "variables": _by_variable(asked, calibration),
        "x_label": "nominal level",
        "y_label": "share of held-out readings covered",
    }


def _by_variable(asked: Asked, calibration: Calibration) -> list[dict[str, Any]]:
    """Coverage and width of each variable at the middle level, the worst first."""
    found = reliability(asked.prediction, asked.truth, asked.scale, asked.variable, calibration)
    level = f"{100 * calibration.levels[len(calibration.levels) // 2]:g}"
    bounded = found[f"coverage_{level}"].notna()
    rows = found[(found["variable"] != "overall") & (found["n"] >= FEWEST) & bounded]
    rows = rows.reindex(rows[f"gap_{level}"].abs().sort_values(ascending=False, kind="stable").index)
    columns = {"variable": "variable", "n": "n", f"coverage_{level}": "coverage", f"width_{level}": "width"}
    named = rows[[*columns]].rename(columns=columns)
    return [dict(zip(named.columns, row, strict=True), level=level) for row in named.itertuples(index=False)]


def _frame(x_range: tuple[float, float], y_range: tuple[float, float]) -> Frame:
    return Frame(LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, x_range, y_range)
