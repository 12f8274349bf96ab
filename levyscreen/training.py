"""From a cohort to a calibrated model folder; further members of its ensemble; and a student of them all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from levyscreen.config import OURS, ModelConfig, Protocol, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.judging import calibrate
from levyscreen.learn import checkpoint
from levyscreen.learn.data import TrainingData, prepare
from levyscreen.learn.fit import Fitted, Watch, fit
from levyscreen.learn.teacher import Teacher
from levyscreen.store import (
    CALIBRATION,
    CONFIG,
    MANIFEST,
    Model,
    has_member,
    identities,
    load_members,
    load_model,
    member_path,
    save_member,
    save_model,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levyscreen.records.cohort import Cohort

STATE = "training"  # folder in a model's own
RECIPE = TrainingConfig()


def train(
    cohort: Cohort,
    folder: Path | str,
    protocol: Protocol = OURS,
    model: ModelConfig | None = None,
    config: TrainingConfig = RECIPE,
    device: torch.device | str = "cpu",
    resume: bool = False,
    watch: Watch | None = None,
    teacher: Teacher | None = None,
) -> Model:
    """Trains one model into `folder`, and calibrates it on its validation records if it emits signals.

    What is left out is as in `levyscreen train`, but for the device; `model` is its network of the cohort's variables.
    The state of the training lies in `folder`/training; with `resume`, one cut off there goes on, and a model that is
    already there with the same records and settings is taken as it is, so that members can be added to its ensemble.
    Raises TrainingError where `resume` finds a whole model of others there.
    """
    folder, device = Path(folder), torch.device(device)
    model = model or ModelConfig(len(cohort.variables))
    if resume and (done := finished(folder, cohort, protocol, model, config, device)):
        return done
    if resume and (folder / CONFIG).exists() and not (folder / STATE / checkpoint.FILE).exists():
        found = load_model(folder.resolve(), device)
        if not _is_of(found, cohort, protocol, model, config):
            raise TrainingError(
                f"{folder} holds a model of other records or settings: name another folder, or remove this one to "
                "begin anew"
            )
        return calibrate(found, cohort)  # all that it lacks
    data = prepare(cohort, protocol, config.seed)
    fitted = fit(data, model, config, folder / STATE, device, resume, watch, teacher)
    save_model(folder, fitted.network, data.preprocessor, describe(cohort, data, config, fitted))
    trained = load_model(folder.resolve(), device)
    return calibrate(trained, cohort) if model.decode == "levy" else trained


def member_seeds(seed: int, members: int) -> range:
    """Seeds of the other members of an ensemble whose first has `seed`: ensembles of two seeds share no others."""
    return range(100 * seed + 1, 100 * seed + members)


def train_member(
    cohort: Cohort, model: Model, seed: int, device: torch.device, resume: bool = False, watch: Watch | None = None
) -> Path:
    """Trains another member of a model's deep ensemble: same records and split, initialised and shuffled by `seed`."""
    path = member_path(model.folder, seed)
    if resume and has_member(model.folder, seed):
        return path
    settings = _settings_of(model, cohort)
    data = prepare(cohort, model.preprocessor.protocol, settings.seed)
    state = model.folder / STATE / f"member-{seed}"
    fitted = fit(data, model.network.config, replace(settings, seed=seed), state, device, resume, watch)
    return save_member(model.folder, seed, fitted.network)


def train_student(
    cohort: Cohort,
    model: Model,
    folder: Path,
    epochs: int,
    resume: bool = False,
    watch: Watch | None = None,
) -> Model:
    """Trains one model on the mean of a model's deep ensemble: same records, split and sizes, one pass at inference.

    On the device of that model. Raises as `learning_from`.
    """
    config, teacher = learning_from(model, cohort, epochs)
    protocol, sizes = model.preprocessor.protocol, model.network.config
    return train(cohort, folder, protocol, sizes, config, model.device, resume, watch, teacher)


def learning_from(
    model: Model, cohort: Cohort, epochs: int, seeds: Iterable[int] | None = None
) -> tuple[TrainingConfig, Teacher]:
    """Settings of a student of a model's deep ensemble, of all its members or those of `seeds`, and its teacher.

    Raises TrainingError where there is no ensemble, or one of another cohort or of other heads than point ones.
    """
    teacher = Teacher([model.network, *load_members(model, seeds)])
    if len(teacher.networks) == 1:
        raise TrainingError(f"{model.name} has no ensemble to learn from: train it with --members 5")
    if model.network.config.head != "point":  # a mean alone teaches no scale: it would shrink to nothing
        raise TrainingError(f"{model.name} has a {model.network.config.head} head; only point heads teach a student")
    return replace(_settings_of(model, cohort), epochs=epochs, teacher=teacher.digest), teacher


def _settings_of(model: Model, cohort: Cohort) -> TrainingConfig:
    """Of a model's training. Raises TrainingError unless it was on this cohort."""
    if cohort.fingerprint != model.remembered("cohort_fingerprint"):
        raise TrainingError(
            f"an ensemble shares its records: {model.name} was trained on another cohort than {cohort.name}"
        )
    return TrainingConfig.from_json(model.remembered("settings"))


def finished(
    folder: Path, cohort: Cohort, protocol: Protocol, model: ModelConfig, config: TrainingConfig, device: torch.device
) -> Model | None:
    """The model in `folder`, if it is whole and what this training would give."""
    last_written = CALIBRATION if model.decode == "levy" else MANIFEST  # what emits no signals has no calibration
    if not (folder / last_written).exists():
        return None
    found = load_model(folder.resolve(), device)
    return found if _is_of(found, cohort, protocol, model, config) else None


def _is_of(found: Model, cohort: Cohort, protocol: Protocol, model: ModelConfig, config: TrainingConfig) -> bool:
    return (
        found.training.get("settings") == config.to_json()
        and found.training.get("cohort_fingerprint") == cohort.fingerprint
        and found.network.config == model
        and found.preprocessor.protocol == protocol
    )


def describe(cohort: Cohort, data: TrainingData, config: TrainingConfig, fitted: Fitted) -> dict[str, Any]:
    """What a model folder remembers of its training."""
    ids, history = data.readings.record_id, [vars(epoch) for epoch in fitted.progress.history]
    parts = {name: (rows, identities(cohort.records.take(rows))) for name, rows in vars(data.split).items()}
    told = {key: {name: who.get(key, []) for name, (_, who) in parts.items()} for key in ("subjects", "unnamed")}
    if not any(told["subjects"].values()):
        told = {}
    return {
        "settings": config.to_json(),
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "split": {name: ids[rows].tolist() for name, (rows, _) in parts.items()},
        **{key: of_parts for key, of_parts in told.items() if any(of_parts.values())},
        "best_epoch": fitted.progress.best_epoch,
        "history": history,
    }
