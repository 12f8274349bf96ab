"""From a cohort to a calibrated model folder; and further members of its ensemble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from levyscreen.config import ModelConfig, Protocol, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.judging import calibrate
from levyscreen.learn.data import TrainingData, prepare
from levyscreen.learn.fit import Fitted, Watch, fit
from levyscreen.store import CALIBRATION, CONFIG, Model, load_model, member_path, save_member, save_model

if TYPE_CHECKING:
    from levyscreen.records.cohort import Cohort


def train(
    cohort: Cohort,
    folder: Path,
    protocol: Protocol,
    model: ModelConfig,
    config: TrainingConfig,
    device: torch.device,
    resume: bool = False,
    watch: Watch | None = None,
) -> Model:
    """Trains one model into `folder`, and calibrates it on its validation records if it emits signals.

    The state of the training lies in `folder`/training; with `resume`, one cut off there goes on, and a model that is
    already there with the same records and settings is taken as it is, so that members can be added to its ensemble.
    """
    if resume and (done := _finished(folder, cohort, protocol, model, config, device)):
        return done
    data = prepare(cohort, protocol, config.seed)
    fitted = fit(data, model, config, folder / "training", device, resume, watch)
    save_model(folder, fitted.network, data.preprocessor, describe(cohort, data, config, fitted))
    trained = load_model(folder.resolve(), device)
    return calibrate(trained, cohort, device) if model.decode == "levy" else trained


def train_member(
    cohort: Cohort, model: Model, seed: int, device: torch.device, resume: bool = False, watch: Watch | None = None
) -> Path:
    """Trains another member of a model's deep ensemble: same records and split, initialised and shuffled by `seed`."""
    path = member_path(model.folder, seed)
    if resume and path.exists():
        return path
    settings = TrainingConfig.from_json(model.remembered("settings"))
    data = prepare(cohort, model.preprocessor.protocol, settings.seed)
    if cohort.fingerprint != model.remembered("cohort_fingerprint"):
        raise TrainingError(
            f"an ensemble shares its records: {model.name} was trained on another cohort than {cohort.name}"
        )
    state = model.folder / "training" / f"member-{seed}"
    fitted = fit(data, model.network.config, replace(settings, seed=seed), state, device, resume, watch)
    return save_member(model.folder, seed, fitted.network)


def _finished(
    folder: Path, cohort: Cohort, protocol: Protocol, model: ModelConfig, config: TrainingConfig, device: torch.device
) -> Model | None:
    """The model in `folder`, if it is whole and what this training would give."""
    last_written = CALIBRATION if model.decode == "levy" else CONFIG  # what emits no signals has no calibration
    if not (folder / last_written).exists():
        return None
    found = load_model(folder.resolve(), device)
    training = found.training
    same = (
        training.get("settings") == config.to_json()
        and training.get("cohort_fingerprint") == cohort.fingerprint
        and found.network.config == model
        and found.preprocessor.protocol == protocol
    )
    return found if same else None


def describe(cohort: Cohort, data: TrainingData, config: TrainingConfig, fitted: Fitted) -> dict[str, Any]:
    """What a model folder remembers of its training."""
    ids = data.readings.record_id
    history = [vars(epoch) for epoch in fitted.progress.history]
    return {
        "settings": config.to_json(),
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "split": {name: ids[rows].tolist() for name, rows in vars(data.split).items()},
        "best_epoch": fitted.progress.best_epoch,
        "history": history,
    }
