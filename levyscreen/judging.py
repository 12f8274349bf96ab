"""Fitting a model's calibration, and judging the model on records it never saw."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from levyscreen.calibrate import (
    RICH,
    Calibration,
    CalibrationWarning,
    Reader,
    ause,
    check_request,
    crps_gaussian,
    fit_calibration,
    reliability,
    spearman,
)
from levyscreen.config import WIDTH_LEVEL
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.groups import Given, Told, coverage_table, groups_of
from levyscreen.learn.data import epoch_seed
from levyscreen.learn.reader import fit_reader
from levyscreen.questions import SIGNALS, Answers, ask, joined
from levyscreen.records.described import patients_of
from levyscreen.records.hiding import fold_count, hide, subsample
from levyscreen.records.preprocessor import Readings
from levyscreen.store import Model, copied, require_new, save_calibrations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort

LEVELS = (0.8, 0.9, 0.95)
# Fitted besides the default: a signal of the mean path, for timelines too dense to pay for the deviation. It must see
# evidence: where little is known the intervals of the disagreement are too narrow by far (tests/test_continuum.py).
COMPANION = "sigma_hat"


def calibrate(
    model: Model,
    cohort: Cohort,
    signal: str = "deviation",
    by: str = "variable",
    levels: Sequence[float] = LEVELS,
    folder: Path | None = None,
) -> Model:
    """Fits scale and intervals on hidden targets and writes them into the model's folder, or a copy of it in `folder`.

    Of the cohort that the model was trained on, only its validation records are used; of another cohort, all records
    that the model was neither trained nor tested on. Targets are hidden in disjoint folds, three at 30 %, so that
    nearly every reading is one once: else a rare variable's quantile is mostly the noise of a few hundred targets.
    An interval at 90 % is always among them.
    `signal` is one that ranks, or "rich": a reader of all signals, fitted on these targets too, its scale and interval
    on what readers said that had not seen the record. Raises CalibrationError where no record may be used, and without
    `folder` for a model that was loaded by a shipped one's name; ModelError where `folder` is not new.
    """
    if folder is not None:
        require_new(folder, model)
    elif model.shipped:
        raise CalibrationError(
            f"{model.name} comes with levyscreen and stays as it is: calibrate a copy of it, by --out FOLDER "
            "(in Python folder=)"
        )
    first = _known(signal)
    check_request(first, by, levels)
    levels = sorted({*levels, WIDTH_LEVEL})  # which widths, reports and timelines are of
    readings, described = held_out(model, cohort, "validation")
    folds = fold_count(model.preprocessor.protocol.hide)
    answers = _answers(model, readings, folds)
    of_patient = patients_of(described, answers.record)
    provenance = {
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "seed": model.remembered("settings", "seed"),
        "folds": folds,
        "records": len(np.unique(answers.record)),
        "targets": len(answers.record),
    }
    names = model.preprocessor.variables.names
    fitted = []
    for name in dict.fromkeys((first, *(("deviation",) if first == RICH else ()), COMPANION)):
        values, reader = _signal(answers, of_patient, name, len(names), provenance["seed"])
        fitted.append(
            fit_calibration(
                values,
                name,
                answers.prediction,
                answers.truth,
                answers.variable,
                names,
                by=by,
                levels=levels,
                provenance=provenance,
                reader=reader,
                patient=of_patient,
            )
        )
    return save_calibrations(model if folder is None else copied(model, folder), fitted, described)


def held_out(model: Model, cohort: Cohort, part: str) -> tuple[Readings, pa.Table]:
    """Readings of a model's own `validation` or `test` records, or of a cohort it never saw, under its protocol.

    With them what the cohort says of these records, schema.RECORDS. Nothing is tested on patients that set the model's
    intervals, unless that was the whole of this cohort. Raises CalibrationError where no record may be used.
    """
    readings = model.preprocessor.apply(cohort)
    enough = readings.lengths >= model.preprocessor.protocol.min_readings
    if cohort.fingerprint == model.remembered("cohort_fingerprint"):
        allowed = np.isin(readings.record_id, model.records(part))
    else:
        allowed = ~model.knows(cohort, [p for p in ("train", "validation", "test") if p != part])
        if part == "test" and model.met(cohort.fingerprint) != "calibrated":
            allowed &= ~model.calibrated_with(cohort)
        if known := int((enough & ~allowed).sum()):
            warnings.warn(
                f"{known} records of {cohort.name} are left out: {model.name} was trained, calibrated or judged on the "
                "same patients, as their ids say",
                CalibrationWarning,
                stacklevel=2,
            )
    rows = np.flatnonzero(enough & allowed & (readings.record_id >= 0))
    if not len(rows):
        raise CalibrationError(
            f"cohort {cohort.name} has no record that model {model.name} may be judged or calibrated on: with enough "
            "readings, and of a patient that it never saw, by subject or else by record id; strangers of the same ids "
            "need other ones"
        )
    return subsample(readings.take(rows), model.preprocessor.protocol.max_readings), cohort.records.take(rows)


def _answers(model: Model, readings: Readings, folds: int = 1) -> Answers:
    """Answers to hidden targets; with several folds, each of a record's readings is hidden at most once over them."""
    protocol = model.preprocessor.protocol
    seed = epoch_seed(int(model.remembered("settings", "seed")), 0)
    hidings = [hide(readings, protocol.hide, seed, protocol.max_targets, fold) for fold in range(folds)]
    return joined([answers for hidden in hidings for _, answers in ask(model.network, readings, hidden, model.device)])


def _signal(
    answers: Answers, of_patient: NDArray[np.int64], name: str, variables: int, seed: int
) -> tuple[NDArray[np.floating[Any]], Reader | None]:
    """Values to fit a scale on, and for "rich" the reader that makes them."""
    if name != RICH:
        return answers.signal(name), None
    reader, apart = fit_reader(answers, answers.truth - answers.prediction, of_patient, variables, seed)
    return apart, reader


def _known(signal: str) -> str:
    if signal == RICH:
        return RICH
    if signal not in SIGNALS:
        raise UsageError(f"unknown signal '{signal}': use {', '.join((*SIGNALS, RICH))}")
    return SIGNALS[signal]


@dataclass(frozen=True)
class Evaluation:
    """How a model does on targets hidden in records that it never saw."""

    summary: dict[str, Any]  # records, targets, MAE, MSE
    ranking: pd.DataFrame  # a row for each signal: spearman, ause
    distribution: pd.DataFrame  # a row for each calibrated scale: crps, ause, coverage and width
    reliability: pd.DataFrame  # of the default calibration
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)  # its coverage by kind of patient and by evidence
    own_cohort: bool = True  # of the cohort that the model was trained on, its test records


def evaluate(model: Model, cohort: Cohort) -> Evaluation:
    """Scores a model on its own test records, or on a cohort it never saw (sec:exp_unc, sec:exp_dist)."""
    readings, described = held_out(model, cohort, "test")
    answers = _answers(model, readings)
    error = answers.error
    summary = {
        "cohort": cohort.name,
        "records": len(np.unique(answers.record)),
        "targets": len(error),
        "mae": float(error.mean(dtype=np.float64)),
        "mse": float(np.square(error, dtype=np.float64).mean()),
    }
    signals: dict[str, NDArray[np.floating[Any]]]
    signals = {name: answers.signal(inner) for name, inner in SIGNALS.items()}
    for calibration in model.calibrations.values():
        signals[f"{calibration.signal}, calibrated by {calibration.by}"] = calibration.scale_of(answers)
    calibration = model.require_calibration()
    signals["each variable's mean calibration error alone"] = calibration.mean_error[answers.variable]
    ranking = pd.DataFrame(
        [{"signal": name, "spearman": spearman(s, error), "ause": ause(s, error)} for name, s in signals.items()]
    )
    # Coverage over all folds: the noise of one hiding is as large as what is looked for.
    folds = _answers(model, readings, fold_count(model.preprocessor.protocol.hide))
    scale = calibration.scale_of(folds)
    return Evaluation(
        summary,
        ranking,
        _distributions(model, answers),
        reliability(
            folds.prediction,
            folds.truth,
            scale,
            folds.variable,
            calibration,
            patients_of(described, folds.record),
        ),
        _groups(calibration, folds, scale, described),
        cohort.fingerprint == model.remembered("cohort_fingerprint"),
    )


def _groups(
    calibration: Calibration, answers: Answers, scale: NDArray[np.floating[Any]], described: pa.Table
) -> pd.DataFrame:
    of_patient = patients_of(described, answers.record)
    told = Told(answers.record, of_patient, answers.variable, answers.truth, answers.prediction, scale)
    groups = groups_of(told, answers.evidence, calibration.variables, described)
    del groups["variable"]  # which the reliability has
    halves = [(level, calibration.half_width(scale, answers.variable, level)) for level in calibration.levels]
    return coverage_table(told, [Given(*half, len(calibration.variables)) for half in halves], groups)


def _distributions(model: Model, answers: Answers) -> pd.DataFrame:
    """CRPS of the Gaussian, calibrated globally as in the paper and by variable."""
    rows = []
    for calibration in model.calibrations.values():
        signal = calibration.signal_of(answers)
        pooled = calibration.pooled.a * signal + calibration.pooled.b
        own = calibration.scale(signal, answers.variable)
        for by, scale in (("nothing (global)", pooled), (calibration.by, own)):
            crps = crps_gaussian(answers.prediction, scale, answers.truth)
            rows.append({"signal": calibration.signal, "by": by, "crps": float(crps.mean())})
    return pd.DataFrame(rows)
