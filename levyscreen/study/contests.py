"""One estimator against another, seed by seed: in how many seeds it is the better, and by how much at the least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levyscreen.estimators.registry import ESTIMATORS

LESS, MORE = -1, 1  # is better
FIGURES = {
    "spearman": ("Spearman", MORE),
    "ause": ("AUSE", LESS),
    "patient_spearman": ("patient Spearman", MORE),
    "mae": ("MAE", LESS),
    "global_crps": ("CRPS, one scale", LESS),
    "by_variable_spearman": ("Spearman, calibrated by variable", MORE),
    "by_variable_ause": ("AUSE, calibrated by variable", LESS),
    "by_variable_crps": ("CRPS, calibrated by variable", LESS),
    "by_variable_patient_spearman": ("patient Spearman, calibrated by variable", MORE),
    "by_variable_patient_flagged_decile_excess": ("flagged decile, calibrated by variable", MORE),
}
RANKING = "spearman", "ause"
AS_IS = *RANKING, "patient_spearman"
CALIBRATED = tuple(figure for figure in FIGURES if figure.startswith("by_variable"))


@dataclass(frozen=True)
class Contest:
    """What is to be better than a rival, and by which figures."""

    name: str
    rival: str
    figures: Sequence[str]


CONTESTS = (
    Contest("disagreement", "dropout", (*AS_IS, *CALIBRATED)),
    Contest("disagreement", "density", RANKING),
    Contest("disagreement", "laplace", RANKING),
    Contest("disagreement", "softmax-dispersion", (*AS_IS, *CALIBRATED)),
    Contest("disagreement", "variance-head", (*AS_IS, *CALIBRATED)),
    Contest("deviation", "dropout", (*AS_IS, *CALIBRATED)),
    Contest("deviation", "ensemble", (*AS_IS, *CALIBRATED)),
    Contest("deviation", "softmax-dispersion", (*AS_IS, *CALIBRATED, "mae")),
    Contest("rich", "ensemble", CALIBRATED),
    Contest("student-rich", "ensemble", CALIBRATED),
    Contest("rich", "softmax-dispersion", CALIBRATED),
    Contest("rich", "softmax-rich", CALIBRATED),
    Contest("meta-model", "features", CALIBRATED),
    Contest("meta-model", "ensemble", CALIBRATED),
    Contest("meta-model", "tnp-d", (*CALIBRATED, "mae")),
    Contest("deviation", "interpolation", ("mae",)),
    Contest("deviation", "last-value", ("mae",)),
    Contest("rich", "no-signal-rich", CALIBRATED),
    Contest("no-signal-rich", "ensemble", CALIBRATED),
    Contest("deviation", "cosine-deviation", (*AS_IS, *CALIBRATED)),
    *(Contest("rich", rival, (*AS_IS, *CALIBRATED, "mae")) for rival in ("nll", "beta-nll", "tnp-d")),
    Contest("variance-head", "tnp-d", RANKING),
    Contest("nll", "tnp-d", ("ause",)),
    *(Contest("sigma-hat", rival, ("global_crps",)) for rival in ("nll", "beta-nll", "tnp-d")),
)


def lines(runs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells of a table of one dataset's runs: its head, then each contest's figures that some seed has both of."""
    found = [["", "against", "figure", "seeds", "better in", "ahead by, mean", "ahead by, least"]]
    for contest in CONTESTS:
        names = ESTIMATORS[contest.name].title, ESTIMATORS[contest.rival].title
        for figure in contest.figures:
            title, sign = FIGURES[figure]
            ours, theirs = (_by_seed(runs, name, figure) for name in (contest.name, contest.rival))
            ahead = [sign * (ours[seed] - theirs[seed]) for seed in ours.keys() & theirs.keys()]
            if ahead:
                counts = len(ahead), sum(gain > 0 for gain in ahead)
                found.append([*names, title, *map(str, counts), f"{np.mean(ahead):.4f}", f"{min(ahead):.4f}"])
    return found


def _by_seed(runs: Sequence[dict[str, Any]], name: str, figure: str) -> dict[int, float]:
    return {run["seed"]: run["figures"][figure] for run in runs if run["name"] == name and figure in run["figures"]}
