"""Fitting a model's calibration, and judging the model on records it never saw."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from levyscreen.calibrate import (
    META,
    META_MODELS,
    META_WITHOUT_DEVIATION,
    Calibration,
    CalibrationWarning,
    Reader,
    ause,
    check_request,
    clustered_error,
    clustered_margin,
    crps_gaussian,
    fit_calibration,
    flagged_excess,
    reliability,
    spearman,
)
from levyscreen.calibrate.reader import known_columns
from levyscreen.config import WIDTH_LEVEL
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.groups import Given, Told, coverage_table, groups_of
from levyscreen.learn.data import epoch_seed
from levyscreen.learn.reader import fit_reader
from levyscreen.model.neighbours import LAST
from levyscreen.questions import SIGNALS, Answers, ask, joined
from levyscreen.records.described import patients_of
from levyscreen.records.hiding import fold_count, hide, subsample
from levyscreen.records.readings import Readings
from levyscreen.store import Model, copied, require_new, save_calibrations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort

LEVELS = (0.8, 0.9, 0.95)
MOST_HELD_OUT = 0.95  # of a record, where a meta-model learns how errors grow as context goes missing
# Fitted besides the default: a signal of the mean path, for timelines too dense to pay for the deviation. It must see
# evidence: where little is known the intervals of the disagreement are too narrow by far (tests/test_continuum.py).
COMPANION = "sigma_hat"
COMPANIONS = {META: ("deviation", META_WITHOUT_DEVIATION)}  # where there are others


def calibrate(
    model: Model,
    cohort: Cohort,
    signal: str | None = None,
    by: str = "variable",
    levels: Sequence[float] = LEVELS,
    folder: Path | None = None,
) -> Model:
    """Fits scale and intervals on hidden targets and writes them into the model's folder, or a copy of it in `folder`.

    Of the cohort that the model was trained on, only its validation records are used; of another cohort, all records
    that the model was neither trained nor tested on. Targets are hidden in disjoint folds, three at 30 %, so that
    nearly every reading is one once: else a rare variable's quantile is mostly the noise of a few hundred targets.
    An interval at 90 % is always among them.
    `signal` is one that ranks, or "meta_model": a small network that reads all signals and what is known of the query's
    surroundings, fitted on these targets too, its scale and interval on what was said by networks that had not seen the
    patient. By default it is that, and for a model of the paper's protocol its deviation.

    Raises CalibrationError where no record may be used, and without `folder` for a model that was loaded by a shipped
    one's name; ModelError where `folder` is not new.
    """
    if folder is not None:
        require_new(folder, model)
    elif model.shipped:
        raise CalibrationError(
            f"{model.name} comes with levyscreen and stays as it is: calibrate a copy of it, by --out FOLDER "
            "(in Python folder=)"
        )
    first = _known(signal or (META if model.preprocessor.protocol.name == "ours" else "deviation"))
    check_request(first, by, levels)
    levels = sorted({*levels, WIDTH_LEVEL})  # which widths, reports and timelines are of
    readings, described = held_out(model, cohort, "validation")
    folds = fold_count(model.preprocessor.protocol.hide)
    answers = _answers(model, readings, folds)
    thinned = _thinned(model, readings) if first in META_MODELS else None
    of_patient = patients_of(described, answers.record)
    of_thinned = None if thinned is None else patients_of(described, thinned.record)
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
    for name in dict.fromkeys((first, *COMPANIONS.get(first, (COMPANION,)))):
        if name in META_MODELS and thinned is not None and of_thinned is not None:
            whose = np.concatenate([of_patient, of_thinned])
            reader, apart = _meta_model(joined([answers, thinned]), whose, name, len(names), provenance["seed"])
            values = apart[: len(of_patient)]
        else:
            values, reader = answers.signal(name), None
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
                without=model.preprocessor.constant,
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


def _thinned(model: Model, readings: Readings) -> Answers:
    """A third of the answers to targets of which more is held out of each record, by shares up to MOST_HELD_OUT.

    From the protocol's share alone a meta-model would not learn how errors grow as context goes missing, and its
    intervals would be too narrow there. Scale and intervals are fitted without these.
    """
    protocol, seed = model.preprocessor.protocol, epoch_seed(int(model.remembered("settings", "seed")), 0)
    rng = np.random.default_rng(seed)
    share = rng.uniform(protocol.hide, max(protocol.hide, MOST_HELD_OUT), len(readings))
    hidden = hide(readings, share, seed, protocol.max_targets)
    found = joined([answers for _, answers in ask(model.network, readings, hidden, model.device)])
    kept = np.flatnonzero(rng.random(len(found.record)) < 1 / 3)
    columns = (getattr(found, name) for name in Answers.__dataclass_fields__)
    return Answers(*(None if column is None else column[kept] for column in columns))  # type: ignore[arg-type]


def _meta_model(
    answers: Answers, of_patient: NDArray[np.int64], name: str, variables: int, seed: int
) -> tuple[Reader, NDArray[np.floating[Any]]]:
    """A meta-model, and the scale of each target by one that had not seen its patient."""
    error, known = answers.truth - answers.prediction, known_columns(answers)
    reads = tuple(column for column in META_MODELS[name] if column in known)
    return fit_reader(answers, error, of_patient, variables, seed, reads)


def _known(signal: str) -> str:
    if signal in (META, "rich"):  # as it was called before
        return META
    if signal not in SIGNALS:
        raise UsageError(f"unknown signal '{signal}': use {', '.join((META, *SIGNALS))}")
    return SIGNALS[signal]


@dataclass(frozen=True)
class Evaluation:
    """How a model does on targets hidden in records that it never saw."""

    summary: dict[str, Any]  # records, targets, MAE, MSE
    ranking: pd.DataFrame  # a row for each signal: spearman, ause; by patient, over all maskings
    distribution: pd.DataFrame  # a row for each calibrated scale: crps, ause, coverage and width
    reliability: pd.DataFrame  # of the default calibration
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)  # its coverage by kind of patient and by evidence
    own_cohort: bool = True  # of the cohort that the model was trained on, its test records
    baselines: pd.DataFrame = field(default_factory=pd.DataFrame)  # a row for each variable, beside interpolation
    deciles: pd.DataFrame = field(default_factory=pd.DataFrame)  # a row for each tenth of expected errors


def evaluate(model: Model, cohort: Cohort) -> Evaluation:
    """Scores a model on its own test records, or on a cohort it never saw (sec:exp_unc, sec:exp_dist)."""
    readings, described = held_out(model, cohort, "test")
    every = [_asked(model, readings, fold) for fold in range(fold_count(model.preprocessor.protocol.hide))]
    answers, folds = every[0].answers, joined([each.answers for each in every])
    error = answers.error
    summary = {
        "cohort": cohort.name,
        "records": len(np.unique(answers.record)),
        "targets": len(error),
        "mae": float(error.mean(dtype=np.float64)),
        "mse": float(np.square(error, dtype=np.float64).mean()),
    }
    calibration = model.require_calibration()
    signals, of_folds = _rankings(model, answers), _rankings(model, folds)
    ranking = pd.DataFrame(
        [
            {"signal": name, "spearman": spearman(s, error), "ause": ause(s, error)}
            | _by_patient(folds, of_folds[name])
            for name, s in signals.items()
        ]
    )
    # Coverage over all maskings: the noise of one is as large as what is looked for.
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
        _baselines(every, patients_of(described, folds.record), calibration.variables),
        _deciles(calibration, folds, scale, patients_of(described, folds.record)),
    )


@dataclass(frozen=True)
class _Asked:
    """Answers (N,), and what the patient's own readings say without a model, z units."""

    answers: Answers
    interpolated: NDArray[np.float32]
    last: NDArray[np.float32]


def _asked(model: Model, readings: Readings, fold: int) -> _Asked:
    protocol = model.preprocessor.protocol
    hidden = hide(
        readings, protocol.hide, epoch_seed(int(model.remembered("settings", "seed")), 0), protocol.max_targets, fold
    )
    answers, interpolated, last = [], [], []
    for batch, found in ask(model.network, readings, hidden, model.device):
        table = model.network.timetable(batch)
        around = table.around(batch.query_variable, batch.query_time)
        answers.append(found)
        interpolated.append(around.interpolated[batch.query_mask].cpu().numpy())
        last.append(around.value[..., LAST][batch.query_mask].cpu().numpy())
    return _Asked(joined(answers), np.concatenate(interpolated), np.concatenate(last))


def _rankings(model: Model, answers: Answers) -> dict[str, NDArray[np.floating[Any]]]:
    """What readings may be ranked by, (N,) each."""
    found: dict[str, NDArray[np.floating[Any]]] = {name: answers.signal(inner) for name, inner in SIGNALS.items()}
    for calibration in model.calibrations.values():
        expected = calibration.expected_error(calibration.scale_of(answers), answers.variable)
        found[f"{calibration.signal}, calibrated by {calibration.by}"] = expected
    mean_error = model.require_calibration().mean_error
    return found | {"each variable's mean calibration error alone": mean_error[answers.variable]}


def _by_patient(answers: Answers, signal: NDArray[np.floating[Any]]) -> dict[str, float]:
    """How records rank by their mean signal: Spearman with their mean error, excess error of the flagged tenth."""
    rows, place = np.unique(answers.record, return_inverse=True)
    count = np.bincount(place)
    doubt, error = (np.bincount(place, values) / count for values in (signal, answers.error))
    if len(rows) < 2:
        return {"patient_spearman": np.nan, "flagged_tenth": np.nan}
    return {"patient_spearman": spearman(doubt, error), "flagged_tenth": flagged_excess(doubt, error)}


def _baselines(every: list[_Asked], patient: NDArray[np.int64], names: Sequence[str]) -> pd.DataFrame:
    """Mean |error| of the model, of interpolation and of the last value, overall and by variable, z units.

    `margin` is half the 95 % interval, by patient, of `ahead`: the error of interpolation less that of the model.
    """
    answers = joined([each.answers for each in every])
    own = [np.concatenate([getattr(each, name) for each in every]) for name in ("interpolated", "last")]
    errors = [answers.error, *(np.abs(values - answers.truth) for values in own)]
    rows: list[dict[str, Any]] = []
    for v, name in ((None, "overall"), *enumerate(names)):
        of = slice(None) if v is None else answers.variable == v
        model, interpolated, last = (each[of].astype(np.float64) for each in errors)
        if not len(model):
            continue
        ahead = interpolated - model
        means = {"mae": model.mean(), "interpolation": interpolated.mean(), "last_value": last.mean()}
        margin = clustered_margin(ahead, patient[of])
        rows.append({"variable": name, "n": len(model)} | means | {"ahead": ahead.mean(), "margin": margin})
    rows[1:] = sorted(rows[1:], key=lambda row: row["ahead"])
    return pd.DataFrame(rows)


def _deciles(
    calibration: Calibration, answers: Answers, scale: NDArray[np.floating[Any]], patient: NDArray[np.int64]
) -> pd.DataFrame:
    """Tenths of the readings by their expected error, the smallest first; `ratio` is the mean error over it."""
    expected = calibration.expected_error(scale, answers.variable)
    inside = answers.error <= calibration.half_width(scale, answers.variable, WIDTH_LEVEL)
    rows = []
    for k, part in enumerate(np.array_split(np.argsort(expected, kind="stable"), 10), start=1):
        if not len(part):
            continue
        error, said = answers.error[part].mean(dtype=np.float64), expected[part].mean(dtype=np.float64)
        covered = inside[part].astype(np.float64)
        rows.append(
            {"decile": f"{k:02d}", "n": len(part), "mae": error, "expected": said, "ratio": error / said}
            | {"coverage_90": covered.mean(), "error_90": clustered_error(covered, patient[part])}
        )
    return pd.DataFrame(rows)


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
