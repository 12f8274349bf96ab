"""Does an interval hold in each group of targets, and on both of its sides: coverage with patient-clustered errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from levyscreen.calibrate import clustered_error, fit_by_variable, fit_global
from levyscreen.calibrate.conformal import quantiles_by_variable
from levyscreen.records.described import facts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FEWEST = 100  # targets of a group that is counted
FEWEST_PATIENTS = 11  # of a group that is shown to others; fewer might be recognised
ERRORS = 2.0  # standard errors within which the nominal level is to lie
DECILES = 10

Labels = Sequence[str]


@dataclass(frozen=True)
class Told:
    """What was said of hidden targets, (N,) each, in z units."""

    record: NDArray[np.int64]  # row of the records that were asked
    patient: NDArray[np.int64]  # whose it is: what one patient's targets share makes them miss together
    variable: NDArray[np.int64]
    truth: NDArray[np.floating[Any]]
    prediction: NDArray[np.floating[Any]]
    signal: NDArray[np.floating[Any]]  # 0 or more


class Limits(Protocol):
    """An interval around each target's prediction."""

    @property
    def level(self) -> float:
        """Nominal coverage."""

    @property
    def noise(self) -> NDArray[np.float64]:
        """(P, V): see `_noise`; zeros where the interval is taken as it is."""

    def half_width(self, told: Told) -> NDArray[np.float64]:
        """Half of the interval, (N,)."""


@dataclass(frozen=True)
class Given:
    """The interval that somebody else fitted, taken as it is."""

    level: float
    half: NDArray[np.floating[Any]]  # (N,), of the targets that are told
    variables: int

    @property
    def noise(self) -> NDArray[np.float64]:
        """None that is known."""
        return np.zeros((1, self.variables))

    def half_width(self, told: Told) -> NDArray[np.float64]:
        """Half of the interval, (N,)."""
        return np.asarray(self.half, dtype=np.float64)


@dataclass(frozen=True)
class Interval:
    """The conformal interval of a signal calibrated by variable, as `fit_calibration` makes it, of any signal."""

    level: float
    a: NDArray[np.float64]  # (V,)
    b: NDArray[np.float64]  # (V,)
    multiple: NDArray[np.float64]  # (V,), infinite where the variable has too few targets
    noise: NDArray[np.float64]  # (P, V): see `_noise`

    @classmethod
    def fit(cls, told: Told, variables: int, level: float) -> Interval:
        """On the validation targets."""
        error, of = told.truth.astype(np.float64) - told.prediction, told.variable
        a, b = fit_by_variable(told.signal, error, of, variables, fit_global(told.signal, error, told.patient))
        score = np.abs(error) / (a[of] * told.signal + b[of])
        multiple = quantiles_by_variable(score, of, variables, (level,))[0]
        return cls(level, a, b, multiple, _noise(score < multiple[of], told.patient, of, variables))

    def scale(self, told: Told) -> NDArray[np.float64]:
        """The calibrated scale, (N,)."""
        return np.asarray(self.a[told.variable] * told.signal + self.b[told.variable])

    def half_width(self, told: Told) -> NDArray[np.float64]:
        """Half of the interval, (N,)."""
        return np.asarray(self.multiple[told.variable] * self.scale(told))


def _noise(
    inside: NDArray[np.bool_], patient: NDArray[np.int64], variable: NDArray[np.int64], variables: int
) -> NDArray[np.float64]:
    """What each validation patient moved the coverage of each variable by, (P, V).

    A quantile off by chance covers as much more or less as the fitting targets' share below it is off: to first order,
    the mean of their residuals, summed here by patient because a patient's targets miss together. The target that is
    the quantile counts as outside: else ten targets, whose quantile is the largest, would seem to leave nothing to
    chance. Of few patients each moves it more, as in `clustered_error`.
    """
    count = np.maximum(np.bincount(variable, minlength=variables), 1)
    mean = np.bincount(variable, inside, minlength=variables) / count
    _, row = np.unique(patient, return_inverse=True)
    rows = int(row.max()) + 1
    moved, asked = np.zeros((rows, variables)), np.zeros((rows, variables), dtype=bool)
    np.add.at(moved, (row, variable), (inside - mean[variable]) / count[variable])
    asked[row, variable] = True
    patients = asked.sum(axis=0)
    return moved * np.sqrt(patients / np.maximum(patients - 1, 1))  # (P, V)


def coverage_by_group(told: Told, interval: Limits, groups: Mapping[str, Labels]) -> dict[str, Any]:
    """Coverage over all targets, and a row for each group of each of `groups`, whose labels are (N,).

    `outside` says that the nominal level is more than two patient-clustered standard errors from the coverage, and
    `outside_both` the same where the error also has the chance in the validation targets that set the interval: without
    it a variable that is rare in validation is found to be off though nothing is wrong but that. Groups under FEWEST
    targets are listed and not counted. Targets without an interval are left out.
    """
    half = interval.half_width(told)
    bounded = np.isfinite(half)
    if not bounded.all():  # what has no interval is neither inside nor outside
        told, half = Told(*(getattr(told, f.name)[bounded] for f in fields(Told))), half[bounded]
        groups = {by: list(np.asarray(labels)[bounded]) for by, labels in groups.items()}
    below, above = told.truth < told.prediction - half, told.truth > told.prediction + half
    rows = []
    for by, labels in groups.items():
        named = np.asarray(labels)
        for name in np.unique(named):
            row = _row(told, interval, below, above, named == name)
            rows.append({"by": by, "group": str(name)} | row)
    counted = [row for row in rows if row["n"] >= FEWEST]
    return {
        **(_row(told, interval, below, above, np.ones(len(half), dtype=bool)) if len(half) else {}),
        "groups_counted": len(counted),
        "groups_outside": sum(row["outside"] for row in counted),
        "groups_outside_both": sum(row["outside_both"] for row in counted),
        "outside_of": {by: sum(row["outside"] for row in counted if row["by"] == by) for by in groups},
        "counted_of": {by: sum(row["by"] == by for row in counted) for by in groups},
        "groups": rows,
    }


def coverage_table(told: Told, intervals: Sequence[Limits], groups: Mapping[str, Labels]) -> pd.DataFrame:
    """A row for each group of FEWEST_PATIENTS or more: by, group, n, patients, mae, and for each level its coverage.

    At level 0.9 that is `coverage_90` and `error_90`, its patient-clustered standard error; NaN where the readings that
    have an interval are of fewer patients.
    """
    all_of = {"error": np.abs(told.truth.astype(np.float64) - told.prediction), "patient": told.patient}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for by, labels in groups.items():
        for group, of in pd.DataFrame(all_of).groupby(np.asarray(labels)):
            about = {"n": len(of), "patients": of["patient"].nunique(), "mae": float(of["error"].mean())}
            found[by, str(group)] = {"by": by, "group": str(group), **about}
    for interval in intervals:
        percent = f"{100 * interval.level:g}"
        for row in found.values():
            row |= {f"coverage_{percent}": np.nan, f"error_{percent}": np.nan}
        for row in coverage_by_group(told, interval, groups)["groups"]:
            if row["clusters"] >= FEWEST_PATIENTS:
                values = {f"coverage_{percent}": row["coverage"], f"error_{percent}": row["coverage_se"]}
                found[row["by"], row["group"]].update(values)
    return pd.DataFrame([row for row in found.values() if row["patients"] >= FEWEST_PATIENTS])


def _row(
    told: Told,
    interval: Limits,
    below: NDArray[np.bool_],
    above: NDArray[np.bool_],
    chosen: NDArray[np.bool_],
) -> dict[str, Any]:
    patient, variables = told.patient[chosen], interval.noise.shape[1]
    n = len(patient)
    found: dict[str, Any] = {"n": n, "clusters": len(np.unique(patient))}
    for name, values in (("coverage", ~(below | above)), ("below", below), ("above", above)):
        found[name] = float(values[chosen].mean())
        found[f"{name}_se"] = clustered_error(values[chosen], patient)
    share = np.bincount(told.variable[chosen], minlength=variables) / n
    found["calibration_se"] = float(np.linalg.norm(interval.noise @ share))
    off, both = abs(found["coverage"] - interval.level), np.hypot(found["coverage_se"], found["calibration_se"])
    found |= {"outside": int(off > ERRORS * found["coverage_se"]), "outside_both": int(off > ERRORS * both)}
    return {key: None if np.isnan(value) else value for key, value in found.items()}  # errors of one patient alone


def groups_of(
    told: Told, evidence: NDArray[np.floating[Any]], names: Sequence[str], described: pa.Table
) -> dict[str, Labels]:
    """Labels of every target by variable, evidence and who the patient is; `described` is schema.RECORDS, (R,) rows.

    Deciles are of these targets' own evidence, the first with the least. What is known of no patient makes no groups.
    """
    edges = np.quantile(evidence, np.arange(1, DECILES) / DECILES)
    decile = np.searchsorted(edges, evidence, side="right") + 1
    found: dict[str, Labels] = {
        "variable": [names[v] for v in told.variable],
        "evidence decile": [f"{d:02d}" for d in decile],
    }
    for by, of_record in facts(described).items():
        found[by] = [of_record[r] for r in told.record]
    return found
