"""`study interpolation` and `study cohort`: every estimator on the same targets, of test records or of a new cohort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from levyscreen import machine
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.records.described import patients
from levyscreen.study.answers import answer, scores, scores_besides
from levyscreen.study.networks import MissingNetwork

if TYPE_CHECKING:
    from levyscreen.estimators.base import Estimator
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Stage


def rank(stage: Stage, results: Results, names: Sequence[str], say: Callable[[str], None] = lambda line: None) -> None:
    """Runs the estimators of one dataset and seed that have no result yet, and keeps each as it is done.

    One whose network is not trained is passed over where the stage trains none.
    """
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    for name in names:
        kind = ESTIMATORS[name].reads
        if results.has(dataset, seed, name, stage.networks.weights(kind)):
            continue
        try:
            estimator = _made(stage, name)
        except MissingNetwork as missing:
            say(f"{name} left out: {missing}")
            continue
        found = _run(stage, estimator, results.study)
        results.write(dataset, seed, name, found, stage.networks.weights(kind))
        say(f"{dataset} seed {seed} {name}: AUSE {found['ause']:.3f}, Spearman {found['spearman']:.3f}")


def _made(stage: Stage, name: str) -> Estimator:
    kind = ESTIMATORS[name].reads
    estimator = ESTIMATORS[name]({kind: stage.networks.networks(kind)})
    estimator.patients = patients(stage.validated.described)
    validation = stage.validation_folds if estimator.all_folds else stage.validation.batches
    estimator.fit(stage.train.batches, validation, stage.networks.seed)
    return estimator


def _run(stage: Stage, estimator: Estimator, study: str) -> dict[str, Any]:
    asked = stage.screening if study == "cohort" else stage.test
    validation, answered = answer(estimator.on_validation, stage.validation), answer(estimator, asked)
    patient, variables = stage.validated.patient(validation.record), stage.training.preprocessor.variables.names
    return {
        "passes": estimator.passes,
        "reads": estimator.reads,
        "needs_labels": estimator.needs_labels,
        **scores(validation, patient, answered, variables, estimator.in_units, estimator.noise),
        **(scores_besides(estimator, asked) if study == "interpolation" else {}),
        "machine": machine.describe(stage.networks.device),
    }
