"""`study stress`: the same targets with ever less context; does the model notice (fig:stress)?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import machine
from levyscreen.calibrate import Affine, fit_global, spearman
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.learn.data import epoch_seed
from levyscreen.records.hiding import choose
from levyscreen.study.answers import Answered, Questions, answer

if TYPE_CHECKING:
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Stage

KEPT = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # of the context
SIGNALS = ("sigma-hat", "deviation", "disagreement", "inverse-evidence")
SCALED = "sigma-hat", "deviation"  # of them, those whose calibrated scale is compared with the error
NAME = "levy"


def stress(stage: Stage, results: Results, say: Callable[[str], None] = lambda line: None) -> None:
    """Asks the test targets of one dataset and seed at each level of context."""
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    if results.has(dataset, seed, NAME, stage.networks.weights("levy")):
        return
    networks = {"levy": stage.networks.networks("levy")}
    estimators = {name: ESTIMATORS[name](networks) for name in SIGNALS}
    scales = {name: _scale(stage, answer(estimators[name], stage.validation)) for name in SCALED}
    levels = []
    for kept in KEPT:
        questions = thinned(stage, kept)
        answers = {name: answer(estimator, questions) for name, estimator in estimators.items()}
        own = {
            f"{name}_scale": float((fit.a * answers[name].uncertainty + fit.b).mean()) for name, fit in scales.items()
        }
        levels.append({"kept": kept, **_level(answers), **own})
        say(f"{dataset} seed {seed}: {kept:.0%} of the context, error {levels[-1]['mae']:.3f}")
    error = [level["mae"] for level in levels]
    tracked = (*(f"{name}_scale" for name in SCALED), "deviation", "disagreement")
    found = {
        "levels": levels,
        "spearman_with_error": {key: spearman([level[key] for level in levels], error) for key in tracked},
        "evidence_falls": bool((np.diff([level["evidence"] for level in levels]) < 0).all()),
        "machine": machine.describe(stage.networks.device),
    }
    results.write(dataset, seed, NAME, found, stage.networks.weights("levy"))


def _scale(stage: Stage, validation: Answered) -> Affine:
    patient = stage.validated.patient(validation.record)
    return fit_global(validation.uncertainty, validation.truth - validation.prediction, patient)


def thinned(stage: Stage, kept: float) -> Questions:
    """The test targets with that share of each record's context, one reading at least; what is kept is nested."""
    training, seed = stage.training, epoch_seed(stage.networks.seed, 0)
    part = training.part(training.split.test)
    hidden = training.targets(part, seed)
    context = part.keep(~hidden)
    count = np.maximum(np.ceil(kept * context.lengths - 1e-9), 1).astype(np.int64)
    seen = np.zeros(len(hidden), dtype=bool)
    seen[np.flatnonzero(~hidden)] = choose(context, np.minimum(count, context.lengths), seed + 1)
    return Questions.of(part.keep(hidden | seen), hidden[hidden | seen], stage.networks.device)


def _level(answers: dict[str, Answered]) -> dict[str, Any]:
    first = answers["sigma-hat"]
    return {
        "records": len(np.unique(first.record)),
        "queries": len(first.error),
        "mae": float(first.error.mean()),
        "evidence": float((1 / answers["inverse-evidence"].uncertainty).mean()),
        **{name: float(answers[name].uncertainty.mean()) for name in ("sigma-hat", "deviation", "disagreement")},
    }
