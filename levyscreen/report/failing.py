"""Whether a model fails on a cohort: errors against those it claims, coverage against its level, ranking against zero.

The held-out readings are known, so a screening can say it. Each comparison is of patients, whose readings go together,
and needs two things: a difference that chance does not explain, and one that is large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levyscreen.calibrate import clustered_margin
from levyscreen.calibrate.scores import average_ranks
from levyscreen.config import WIDTH_LEVEL
from levyscreen.records.described import patients

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from levyscreen.screen import Screening

FEWEST = 10  # patients: of fewer, Student's interval of what a cluster shares is not to be trusted
FEWEST_TO_RANK = 50  # of fewer, a ranking that is fine looks like chance too often
ERROR_RATIO = 1.25  # of the error to the claimed one, or of the claimed one to the error
COVERAGE_GAP = 0.03
LEAST_RANKING = 0.1  # Spearman


@dataclass(frozen=True)
class Failing:
    """In what a model fails; nothing in it where it does not, or where too few patients could tell."""

    reasons: tuple[str, ...]

    @classmethod
    def of(cls, screening: Screening, described: pa.Table | None = None) -> Failing:
        """By the scored records; `described` is schema.RECORDS, which says whose they are, else each is a patient."""
        scored = screening.scores[screening.scores["status"] == "scored"]
        whose = _whose(scored, described)
        if len(np.unique(whose)) < FEWEST:
            return cls(())
        claims = _claimed(scored, whose) if screening.signal == "calibrated" else ()
        return cls((*claims, *_covered(scored, whose), *_ranked(scored, whose)))

    def line(self, model: str) -> str:
        """What a screening says of it, "" of nothing; `model` is what `calibrate` takes."""
        if not self.reasons:
            return ""
        return (
            f"warning: the model fails on this cohort: {'; '.join(self.reasons)}. Calibrate it on records like these "
            f"before use: levyscreen calibrate {model} COHORT --out FOLDER"
        ).replace("%", " %")


def _whose(scored: pd.DataFrame, described: pa.Table | None) -> NDArray[np.int64]:
    """The patient of each scored record, (N,)."""
    whose = None if described is None else patients(described)
    if whose is None or described is None:
        return np.arange(len(scored), dtype=np.int64)
    numbers = described.column("record_id").to_pylist()
    readable = zip(numbers, whose.tolist(), described.column("problem").to_pylist(), strict=True)
    of = {number: patient for number, patient, problem in readable if problem is None}
    return np.array([of[number] for number in scored["record_id"].tolist()], dtype=np.int64)


def _claimed(scored: pd.DataFrame, whose: NDArray[np.int64]) -> Iterator[str]:
    """Mean absolute errors of records against what was expected of them, in standard deviations of the variable."""
    error, claimed = (scored[name].to_numpy(float) for name in ("mae", "uncertainty"))
    off = abs(float((error - claimed).mean())) > clustered_margin(error - claimed, whose)
    large, small = sorted((float(error.mean()), float(claimed.mean())), reverse=True)
    if off and large > ERROR_RATIO * small:
        yield f"mean error {error.mean():.2f}, where it claims {claimed.mean():.2f}"


def _covered(scored: pd.DataFrame, whose: NDArray[np.int64]) -> Iterator[str]:
    """Coverage of the intervals, each held-out reading counting once."""
    known = scored["coverage"].notna().to_numpy()
    if not known.any():
        return
    count = scored["n_hidden"].to_numpy(np.int64)[known]
    inside = np.repeat(scored["coverage"].to_numpy(float)[known], count)
    gap = float(inside.mean()) - WIDTH_LEVEL
    if abs(gap) > max(COVERAGE_GAP, clustered_margin(inside, np.repeat(whose[known], count))):
        yield f"{WIDTH_LEVEL:.0%} intervals cover {inside.mean():.1%}"


def _ranked(scored: pd.DataFrame, whose: NDArray[np.int64]) -> Iterator[str]:
    """Spearman's correlation of the ranking with the error, as the mean of products of standardised ranks."""
    if len(np.unique(whose)) < FEWEST_TO_RANK:
        return
    x, y = (_standardised(scored[name].to_numpy(float)) for name in ("uncertainty", "mae"))
    rho = float((x * y).mean())
    if rho < LEAST_RANKING and not rho > clustered_margin(x * y, whose):
        yield f"its ranking is no better than chance (Spearman {rho:.2f})"


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of mean 0 and variance 1; zeros where nothing differs."""
    rank = average_ranks(values)
    rank = rank - rank.mean()
    spread = math.sqrt(float((rank * rank).mean()))
    return rank / spread if spread > 0 else rank
