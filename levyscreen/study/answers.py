"""An estimator's answers to hidden targets, and the scores that the tables hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from levyscreen.calibrate import (
    EmpiricalLaw,
    ause,
    coverage,
    crps_gaussian,
    fit_by_variable,
    fit_global,
    flagged_excess,
    law_of_variable,
    sparsification,
    spearman,
)
from levyscreen.calibrate.conformal import quantiles, quantiles_by_variable
from levyscreen.parallel import each
from levyscreen.questions import TOKENS
from levyscreen.records.batches import Batcher, by_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.estimators.base import Estimate, Estimator
    from levyscreen.records.readings import Readings
    from levyscreen.types import Batch

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
EMPIRICAL_LEVELS = (0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Questions:
    """Hidden targets of some records, in batches that every estimator is asked alike."""

    batches: Sequence[Batch]

    @classmethod
    def of(cls, readings: Readings, hidden: NDArray[np.bool_], device: torch.device) -> Questions:
        """Of every record that has both context and targets, longest first."""
        batcher = Batcher(readings, hidden)
        asked = np.flatnonzero((batcher.context_lengths > 0) & (np.diff(batcher.query_offsets) > 0))
        plan = by_tokens(batcher.context_lengths[asked], TOKENS)
        return cls([batcher.batch(asked[rows]).to(device) for rows in plan])


@dataclass(frozen=True)
class Answered:
    """All queries pooled, (N,) each, in the order of the batches."""

    seconds: float  # wall-clock of the passes
    record: NDArray[np.int64]
    variable: NDArray[np.int64]
    truth: NDArray[np.float64]  # z units
    prediction: NDArray[np.float64]
    uncertainty: NDArray[np.float64]

    @property
    def error(self) -> NDArray[np.float64]:
        """|prediction - truth|."""
        return np.abs(self.prediction - self.truth)


def answer(ask: Callable[[Batch], Estimate], questions: Questions) -> Answered:
    """Asks an estimator, or its `on_validation`, batches side by side."""

    @torch.no_grad()
    def one(batch: Batch) -> tuple[NDArray[np.float64], ...]:
        estimate, mask = ask(batch), batch.query_mask
        record = batch.record[:, None].expand_as(mask)
        fields = (record, batch.query_variable, batch.target, estimate.prediction, estimate.uncertainty)
        return tuple(field[mask].cpu().numpy() for field in fields)

    device = questions.batches[0].time.device
    start = time.perf_counter()
    columns = zip(*each(one, questions.batches, device), strict=True)
    record, variable, truth, prediction, uncertainty = (np.concatenate(column) for column in columns)
    floats = (column.astype(np.float64) for column in (truth, prediction, uncertainty))
    return Answered(time.perf_counter() - start, record, variable, *floats)


def scores_besides(estimator: Estimator, questions: Questions) -> dict[str, float]:
    """Means over all queries of what an estimator scores itself, by name."""

    def one(batch: Batch) -> dict[str, NDArray[np.float64]]:
        found = estimator.scores_besides(batch)
        return {name: score[batch.query_mask.cpu()].numpy() for name, score in found.items()}

    parts = list(each(one, questions.batches, questions.batches[0].time.device))
    return {name: float(np.concatenate([part[name] for part in parts]).mean()) for name in parts[0]}


def scores(
    validation: Answered,
    patient: NDArray[np.int64],
    test: Answered,
    names: Sequence[str],
    in_units: bool,
    noise: float = 0.0,
) -> dict[str, Any]:
    """Every figure of an estimator on test targets; scales and quantiles are fitted on the validation targets alone.

    Uncalibrated, then with the affine scale of all variables together (sec:setup), then with one a variable. `patient`
    is whose each validation target is; `in_units` and `noise` are the estimator's.
    """
    error, signal = test.error, test.uncertainty
    found: dict[str, Any] = {
        "records": len(np.unique(test.record)),
        "queries": len(error),
        "seconds": test.seconds,
        "mae": float(error.mean()),
        "crps_raw": _crps(test, np.hypot(signal, noise)) if in_units else None,
        **_ranking(test, signal),
    }
    lowest = min(0.0, float(validation.uncertainty.min()))  # a scale is fitted to what is 0 at least
    signals = [np.maximum(a.uncertainty - lowest, 0) for a in (validation, test)]
    signed = validation.truth - validation.prediction
    pooled = fit_global(signals[0], signed, patient)
    found["affine"] = {"a": pooled.a, "b": pooled.b}
    same = np.full(len(names), pooled.a), np.full(len(names), pooled.b)
    own = fit_by_variable(signals[0], signed, validation.variable, len(names), pooled)
    for name, (a, b), by_variable in (("global", same, False), ("by_variable", own, True)):
        scale, scale_of_test = (
            a[asked.variable] * s + b[asked.variable] for asked, s in zip((validation, test), signals, strict=True)
        )
        residual = signed / scale
        multiple = _conformal(np.abs(residual), validation.variable, len(names), by_variable)
        half = {level: m[test.variable] * scale_of_test for level, m in zip(LEVELS, multiple, strict=True)}
        found[name] = {
            **_calibrated(test, scale_of_test, half),
            "empirical": _empirical(validation, test, residual, scale_of_test, by_variable),
        }
    return found


def _conformal(
    residual: NDArray[np.float64], variable: NDArray[np.int64], variables: int, by_variable: bool
) -> NDArray[np.float64]:
    """Multiples of the scale for each level and variable, (L, V)."""
    if by_variable:
        return quantiles_by_variable(residual, variable, variables, LEVELS)
    return np.repeat(quantiles(residual, LEVELS)[:, None], variables, axis=1)


def _calibrated(
    test: Answered, scale: NDArray[np.floating[Any]], conformal: dict[float, NDArray[np.floating[Any]]]
) -> dict[str, Any]:
    from scipy.stats import norm

    gaussian = {level: norm.ppf(0.5 + level / 2) * scale for level in LEVELS}
    found: dict[str, Any] = {"crps": _crps(test, scale), **_ranking(test, scale)}
    for name, half_widths in (("", gaussian), ("conformal_", conformal)):
        found[f"{name}coverage"] = {
            str(level): coverage(test.prediction, half, test.truth) for level, half in half_widths.items()
        }
        found[f"{name}width"] = {str(level): _median_width(half) for level, half in half_widths.items()}
    return found


def _empirical(
    validation: Answered,
    test: Answered,
    residual: NDArray[np.floating[Any]],
    scale: NDArray[np.floating[Any]],
    by_variable: bool,
) -> dict[str, Any]:
    """Of mean + scale * law of the validation targets' residuals (N,), one law for all variables or one for each.

    `tails` are the shares of targets below the law's 2.5 % and above its 97.5 % quantile.
    """
    z, whole = (test.truth - test.prediction) / scale, EmpiricalLaw.of(residual)
    crps, ends = np.empty(len(z)), {level: np.empty((2, len(z))) for level in EMPIRICAL_LEVELS}
    for v in np.unique(test.variable):
        rows = test.variable == v
        law = law_of_variable(residual, validation.variable, v) if by_variable else whole
        crps[rows] = scale[rows] * law.crps(z[rows])
        for level, (low, high) in ends.items():
            low[rows], high[rows] = law.quantile((1 - level) / 2), law.quantile((1 + level) / 2)
    low, high = ends[0.95]
    return {
        "crps": float(crps.mean()),
        "coverage": {str(level): float(((low <= z) & (z <= high)).mean()) for level, (low, high) in ends.items()},
        "width": {str(level): float(np.median(scale * (high - low))) for level, (low, high) in ends.items()},
        "tails": {"low": float((z < low).mean()), "high": float((z > high).mean())},
    }


def _median_width(half: NDArray[np.floating[Any]]) -> float | None:
    """None where half of the targets have no finite interval."""
    width = float(np.median(2 * half))
    return width if np.isfinite(width) else None


def _ranking(test: Answered, uncertainty: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """By query and by patient, and the course of the error as the least trusted are left out."""
    error = test.error
    return {
        "spearman": spearman(uncertainty, error),
        "ause": ause(uncertainty, error),
        "patient": _by_patient(test, uncertainty),
        "curve": {"signal": sparsification(uncertainty, error), "oracle": sparsification(error, error)},
    }


def _crps(test: Answered, scale: NDArray[np.floating[Any]]) -> float:
    return float(crps_gaussian(test.prediction, np.maximum(scale, 0), test.truth).mean())


def _by_patient(test: Answered, uncertainty: NDArray[np.floating[Any]]) -> dict[str, float]:
    """Mean uncertainty of each record against its mean error (tab:cohort, upper block)."""
    count = np.bincount(test.record)
    asked = count > 0
    signal, error = (np.bincount(test.record, values)[asked] / count[asked] for values in (uncertainty, test.error))
    ids = np.flatnonzero(asked)
    return {
        "spearman": spearman(signal, error),
        "flagged_decile_excess": flagged_excess(signal, error, 0.1, ids),
        "mae": float(error.mean()),
    }
