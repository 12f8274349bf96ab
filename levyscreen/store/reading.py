"""From a model folder, or the name of a shipped one, to a model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from levyscreen import outputs
from levyscreen.calibrate import Calibration
from levyscreen.config import ModelConfig, TrainingConfig, parsed
from levyscreen.errors import ModelError
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.store.files import CALIBRATION, CONFIG, PREPROCESSOR, WEIGHTS, damaged, parsed_file, read_json
from levyscreen.store.manifest import check
from levyscreen.store.model import Model
from levyscreen.store.weights import checked, load_weights

DEFAULT = "physionet2012"


def shipped_folder() -> Path:
    """Where the shipped models lie: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).parent.parent
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def find(model: str | Path) -> Path:
    """The folder of a shipped model's name, or a folder. Raises ModelError, naming what is shipped."""
    as_path = Path(model)
    shipped = shipped_folder() / as_path
    for folder in ([shipped] if len(as_path.parts) == 1 else []) + [as_path]:
        if os.path.isfile(folder / CONFIG):  # Path.is_file raises for a name that is too long
            return folder
    known = sorted(p.parent.name for p in shipped_folder().glob(f"*/{CONFIG}"))
    raise ModelError(
        f"no model '{model!s:.200}': shipped are {', '.join(known) or 'none'}; or name a folder with {CONFIG}"
    )


def load_model(model: str | Path = DEFAULT, device: torch.device | str = "cpu") -> Model:
    """Loads a shipped model by name, or a model folder. Raises ModelError, saying what is wrong with which file."""
    loaded = read_model(find(model), device)  # first: an error that says what is wrong is the better one
    check(loaded.folder)
    return replace(loaded, shipped=len(Path(model).parts) == 1 and loaded.folder.parent == shipped_folder())


def read_model(folder: Path, device: torch.device | str = "cpu") -> Model:
    """The model in a folder, by whatever its files say; only `load_model` asks whether they are of one training."""
    preprocessor = parsed_file(folder / PREPROCESSOR, Preprocessor.from_json)
    settings, training, weights = parsed_file(folder / CONFIG, _settings)
    if settings.variables != len(preprocessor.variables):
        raise ModelError(
            f"{folder} does not fit together: {settings.variables} variables in {CONFIG}, "
            f"{len(preprocessor.variables)} in {PREPROCESSOR}"
        )
    calibrations, fitted_on = _read_calibrations(folder / CALIBRATION, preprocessor)
    network = load_weights(folder / WEIGHTS, settings, device)
    for name in (CONFIG, PREPROCESSOR, CALIBRATION):
        if (folder / name).exists() and not outputs.is_whole(read_json(folder / name)):
            raise damaged(folder / name)
    digest = checked(folder / WEIGHTS, weights)
    return Model(folder.resolve().name, folder, digest, network, preprocessor, calibrations, training, fitted_on)


def _settings(data: dict[str, Any]) -> tuple[ModelConfig, dict[str, Any], dict[str, str]]:
    """The network's settings; what is remembered of the training, as far as anything later reads it; file digests."""
    training = parsed(dict[str, Any], data["training"], "training")
    ids = dict[str, list[int]]
    read_later = {"cohort_fingerprint": str, "split": ids, "subjects": ids, "unnamed": ids, "settings": TrainingConfig}
    for key in training.keys() & read_later:
        try:
            parsed(read_later[key], training[key], f"training.{key}")
        except ValueError as error:  # what came may be a record id
            raise ValueError(str(error).partition(", got ")[0]) from None
    weights = parsed(dict[str, str], data.get("weights", {}), "weights")
    return parsed(ModelConfig, data["model"], "model"), training, weights


def _read_calibrations(path: Path, preprocessor: Preprocessor) -> tuple[dict[str, Calibration], dict[str, list[int]]]:
    """By signal, and the records that they were fitted on."""
    if not os.path.lexists(path):  # a link that leads nowhere is no model without calibration
        return {}, {}
    found, fitted_on = parsed_file(path, _calibrations)
    if any(c.variables != preprocessor.variables.names for c in found):
        raise ModelError(f"{path} is of a model with other variables")
    return {c.signal: c for c in found}, fitted_on


def _calibrations(data: dict[str, Any]) -> tuple[list[Calibration], dict[str, list[int]]]:
    try:
        fitted_on = parsed(dict[str, list[int]], data.get("fitted_on", {}), "fitted_on")
    except ValueError as error:  # what came may be a record id
        raise ValueError(str(error).partition(", got ")[0]) from None
    return [Calibration.from_json(c) for c in parsed(list[Any], data["calibrations"], "calibrations")], fitted_on
