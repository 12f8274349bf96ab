"""From a model to a folder: a new one, its calibrations, a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen import outputs
from levyscreen.calibrate import Calibration
from levyscreen.errors import ModelError
from levyscreen.model.network import Network
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.store.files import (
    CALIBRATION,
    CARD,
    CARD_DATA,
    CONFIG,
    FORMAT,
    PREPROCESSOR,
    WEIGHTS,
    read_json,
)
from levyscreen.store.manifest import begin, check, digest_of, put
from levyscreen.store.model import Model, as_json, identities
from levyscreen.store.weights import as_bytes
from levyscreen.temporaries import folder_beside

if TYPE_CHECKING:
    import pyarrow as pa


def save_model(folder: Path, network: Network, preprocessor: Preprocessor, training: dict[str, Any]) -> None:
    """Writes weights, configuration, preprocessor and, last, the manifest by which they belong together.

    What lies there of other weights, their calibration and the further members of their ensemble, is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin(folder)
    content = as_bytes(network)
    weights = {WEIGHTS: digest_of(content)}
    config = {"format": FORMAT, "model": network.config.to_json(), "training": training, "weights": weights}
    put(
        folder,
        {
            WEIGHTS: content,
            PREPROCESSOR: outputs.json_bytes(outputs.sealed(preprocessor.to_json())),
            CONFIG: outputs.json_bytes(outputs.sealed(config)),
        },
    )


def save_calibrations(model: Model, calibrations: Sequence[Calibration], described: pa.Table) -> Model:
    """Writes calibrations into the model's folder, the default one first; returns the model with them.

    `described` is schema.RECORDS of the records that they were fitted on.
    """
    fitted_on = identities(described)
    if "subjects" not in fitted_on:
        fitted_on.pop("unnamed", None)
    content = outputs.sealed(as_json(calibrations) | {"fitted_on": fitted_on})
    put(model.folder, {CALIBRATION: outputs.json_bytes(content)})
    return replace(model, calibrations={c.signal: c for c in calibrations}, fitted_on=fitted_on)


def copied(model: Model, folder: Path) -> Model:
    """A copy of a model's folder in a new one, without the state of its training and the figures on its card.

    Raises ModelError where the folder is not new.
    """
    require_new(folder, model)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(folder) as temporary:
            shutil.copytree(model.folder, temporary / "copy", ignore=shutil.ignore_patterns("training", CARD))
            check(temporary / "copy")
            data = temporary / "copy" / CARD_DATA
            if data.exists():
                outputs.write_json(data, {k: v for k, v in read_json(data).items() if k != "KeyMetrics"})
            os.replace(temporary / "copy", folder)
    except OSError as error:
        raise ModelError(f"{folder} could not be written: {error.strerror or error}") from error
    return replace(model, name=folder.resolve().name, folder=folder, shipped=False)


def require_new(folder: Path, model: Model) -> None:
    """Raises ModelError unless a copy of the model can lie in `folder`: it holds nothing, and is not in the model's."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ModelError(f"{folder} is not empty: name a new folder for the copy of {model.name}")
    if folder.resolve().is_relative_to(model.folder.resolve()):
        raise ModelError(f"{folder} is in the folder of {model.name}: name one outside for the copy")
