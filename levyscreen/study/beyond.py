"""`study beyond`: for whom the intervals hold, how far a flag is chance, and what a band looks like (fig:demo).

Nothing is trained but the point model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from levyscreen import machine
from levyscreen.calibrate import flagged, flagged_excess, spearman
from levyscreen.estimators.dropout import MonteCarloDropout
from levyscreen.groups import Interval, Told, coverage_by_group, groups_of
from levyscreen.parallel import each
from levyscreen.plot import GRID, most_read
from levyscreen.questions import Answers, joined
from levyscreen.questions import answer as answer_batch
from levyscreen.records.batches import Batcher
from levyscreen.records.hiding import fold_count
from levyscreen.study.answers import Questions, answer
from levyscreen.study.networks import MissingNetwork

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.estimators.base import Estimator
    from levyscreen.records.readings import Readings
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Asked, Stage
    from levyscreen.types import Batch

LEVEL = 0.9
FLAGGED = 0.1  # of the patients
HIDINGS = 3  # seeds, to see how much of a flag is the hiding's chance
DRAWN_RECORDS = 3
PATIENTS = "patients-one", "patients-folds"  # trust from one hiding, and from disjoint ones


def beyond(stage: Stage, results: Results, say: Callable[[str], None] = lambda line: None) -> None:
    """Runs what has no result yet, one dataset and seed."""
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    about = {"machine": machine.describe(stage.networks.device)}
    calibrated = cache(partial(interval, stage))
    parts: dict[tuple[str, ...], Callable[[], Sequence[dict[str, Any]]]] = {
        ("coverage-test",): lambda: [_coverage(stage, stage.tested, calibrated())],
        ("coverage-screened",): lambda: [_coverage(stage, stage.screened, calibrated())],
        ("bands",): lambda: [_bands(stage, calibrated())],
        PATIENTS: lambda: _patients(stage, calibrated()),
    }
    if stage.networks.dataset.screening is None:
        del parts["coverage-screened",]
    for names, make in parts.items():
        if all(results.has(dataset, seed, name, stage.networks.weights("levy")) for name in names):
            continue
        try:
            made = make()
        except MissingNetwork as missing:
            say(f"{', '.join(names)} left out: {missing}")
            continue
        for name, found in zip(names, made, strict=True):
            results.write(dataset, seed, name, found | about, stage.networks.weights("levy"))
            say(f"{dataset} seed {seed} {name}: done")


# Coverage -----------------------------------------------------------------------------------------------------------


def _coverage(stage: Stage, asked: Asked, calibrated: Interval) -> dict[str, Any]:
    answers = ask(stage, asked.questions())
    told, names = of_deviation(answers, asked), stage.training.preprocessor.variables.names
    groups = groups_of(told, answers.evidence, names, asked.described)
    return {"level": LEVEL} | coverage_by_group(told, calibrated, groups)


def interval(stage: Stage) -> Interval:
    """Of the deviation, fitted on the validation targets."""
    told = of_deviation(ask(stage, stage.validation), stage.validated)
    return Interval.fit(told, len(stage.training.preprocessor.variables), LEVEL)


def ask(stage: Stage, questions: Questions) -> Answers:
    """One pass of the point model."""
    one = partial(answer_batch, stage.networks.model().network)
    return joined(list(each(one, questions.batches, stage.networks.device)))


def of_deviation(answers: Answers, asked: Asked) -> Told:
    """Answers of these records with the deviation as their signal."""
    patient = asked.patient(answers.record)
    return Told(answers.record, patient, answers.variable, answers.truth, answers.prediction, answers.deviation)


# Patients -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patients:
    """Means over each patient's targets, of the patients that have any."""

    record_id: NDArray[np.int64]
    uncertainty: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def flagged(self) -> NDArray[np.int64]:
        """Ids of the least trusted."""
        return self.record_id[flagged(self.uncertainty, FLAGGED, self.record_id)]


def _patients(stage: Stage, calibrated: Interval) -> list[dict[str, Any]]:
    """Trust from one hiding, and from all of its disjoint folds, in which nearly every reading is hidden once.

    Each is scored on the error of the one hiding's targets, on that of all folds' targets, and on its own. No one of
    them is the fair one: errors on fixed targets favour who was asked about just those, own errors who has more.
    """
    untouched = stage.networks.dataset.screening is not None
    asked = stage.screened if untouched else stage.tested
    folds = fold_count(asked.share)
    hidings = []
    for again in range(HIDINGS):
        told = [of_deviation(ask(stage, asked.questions(again, fold)), asked) for fold in range(folds)]
        hidings.append([_by_patient(asked, calibrated, told[:count]) for count in (1, folds)])
    one, several = hidings[0]
    return [
        _scores(arm, one, several)
        | {"folds": count, "flag_overlap_hidings": mean_overlap([hiding[which].flagged for hiding in hidings])}
        | ({"flagged": arm.flagged.tolist()} if untouched else {})  # test records are other ones for every seed
        for which, (arm, count) in enumerate(((one, 1), (several, folds)))
    ]


def _by_patient(asked: Asked, calibrated: Interval, told: Sequence[Told]) -> Patients:
    record = np.concatenate([t.record for t in told])
    values = [calibrated.scale(t) for t in told], [np.abs(t.truth - t.prediction) for t in told]
    count = np.bincount(record, minlength=len(asked.readings))
    some = count > 0
    sums = (np.bincount(record, np.concatenate(v), minlength=len(count)) for v in values)
    return Patients(asked.readings.record_id[some], *(total[some] / count[some] for total in sums))


def _scores(arm: Patients, one: Patients, several: Patients) -> dict[str, Any]:
    found: dict[str, Any] = {"patients": len(arm.record_id)}
    for name, errors in (("one_hiding", one), ("all_folds", several), ("own", arm)):
        found[f"spearman_{name}"] = spearman(arm.uncertainty, errors.error)
        found[f"flagged_decile_{name}"] = flagged_excess(arm.uncertainty, errors.error, FLAGGED, arm.record_id)
    return found


def overlap(first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]) -> float:
    """|A and B| / |A|."""
    return float(np.isin(first, second).mean())


def mean_overlap(sets: Sequence[NDArray[np.integer[Any]]]) -> float:
    """Over all pairs of two sets or more of one size."""
    return float(np.mean([overlap(first, second) for first, second in combinations(sets, 2)]))


# Bands --------------------------------------------------------------------------------------------------------------


def _bands(stage: Stage, calibrated: Interval) -> dict[str, Any]:
    """What the picture draws of a few test records: the interval of the deviation, and the one of MC dropout.

    The first records of the split, as they come; each calibrated alike, on the same validation targets.
    """
    model = stage.networks.model()
    dropout = MonteCarloDropout({"levy": [model.network]})
    limits = calibrated, _of_estimator(stage, dropout)
    readings = stage.tested.readings
    enough = np.flatnonzero(readings.lengths >= model.preprocessor.protocol.min_readings)[:DRAWN_RECORDS]
    drawn = []
    for row in enough:
        record = readings.take(np.array([row]))
        panels = [_panel(stage, record, name, dropout, limits) for name in most_read(record, model.preprocessor)]
        drawn.append({"record_id": int(record.record_id[0]), "panels": panels})
    return {"level": LEVEL, "passes": MonteCarloDropout.passes, "drawn": drawn}


def _of_estimator(stage: Stage, estimator: Estimator) -> Interval:
    a = answer(estimator, stage.validation)
    patient = stage.validated.patient(a.record)
    told = Told(a.record, patient, a.variable, a.truth, a.prediction, a.uncertainty)
    return Interval.fit(told, len(stage.training.preprocessor.variables), LEVEL)


def _panel(
    stage: Stage, record: Readings, name: str, dropout: MonteCarloDropout, limits: tuple[Interval, Interval]
) -> dict[str, Any]:
    preprocessor = stage.training.preprocessor
    variables, index = preprocessor.variables, preprocessor.variables.names.index(name)
    time = np.arange(GRID, dtype=np.float32) / np.float32(GRID)
    batch = _over_time(record, index, time).to(stage.networks.device)
    of_variable = record.variable == index
    found = answer_batch(stage.networks.model().network, batch)
    spread = dropout.spread(batch)[0].cpu().numpy()

    def in_units(value: NDArray[np.floating[Any]]) -> list[float | None]:
        return _rounded(preprocessor.to_units(np.full(len(value), index), value))

    panel: dict[str, Any] = {
        "variable": name,
        "unit": variables.variables[index].unit,
        "reading_time": _rounded(record.time[of_variable] * variables.horizon_hours),
        "reading": in_units(record.value[of_variable]),
        "time": _rounded(time * variables.horizon_hours),
        "prediction": in_units(found.prediction),
    }
    for key, signal, limit in zip(("deviation", "dropout"), (found.deviation, spread), limits, strict=True):
        half = limit.half_width(Told(found.record, found.record, found.variable, found.truth, found.prediction, signal))
        panel[key] = {"lower": in_units(found.prediction - half), "upper": in_units(found.prediction + half)}
    return panel


def _over_time(record: Readings, variable: int, time: NDArray[np.float32]) -> Batch:
    """One record with all its readings as context, asked for one variable at each time."""
    batch = Batcher(record, np.zeros(len(record.time), dtype=bool)).batch(np.array([0]))
    shape = 1, len(time)
    return replace(
        batch,
        query_time=torch.from_numpy(time)[None],
        query_variable=torch.full(shape, variable),
        query_mask=torch.ones(shape, dtype=torch.bool),
        target=torch.zeros(shape),
    )


def _rounded(values: NDArray[np.floating[Any]]) -> list[float | None]:
    """Five digits, more than a picture shows; None for infinity."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]
