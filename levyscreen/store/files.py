"""The files of a model folder, and how one is read: nothing is taken that is not what was written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from levyscreen import outputs
from levyscreen.errors import CalibrationError, ModelError

FORMAT = 1
WEIGHTS, CONFIG, PREPROCESSOR, CALIBRATION, CARD, CARD_DATA = (
    "model.safetensors",
    "config.json",
    "preprocessor.json",
    "calibration.json",
    "README.md",
    "card.json",
)
MEMBERS = "member-*.safetensors"
MANIFESTS = "manifest.json"  # how their names end


def parsed_file(path: Path, parse: Any) -> Any:
    """What `parse` makes of a file's object, of this format. Raises ModelError or CalibrationError, naming the file."""
    data = read_json(path)
    if path.name != PREPROCESSOR and (type(data.get("format")) is not int or data["format"] != FORMAT):
        raise ModelError(f"{path} has format {data.get('format')!r:.40}; this version reads {FORMAT}")
    try:
        return parse(data if path.name.endswith(MANIFESTS) else {k: v for k, v in data.items() if k != outputs.SEAL})
    except CalibrationError as error:
        raise CalibrationError(f"{path} is not what this version writes: {error}") from error
    except (KeyError, ValueError) as error:
        raise ModelError(f"{path} is not what this version writes: {type(error).__name__} {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelError where there is none."""
    try:
        data = json.loads(outputs.read_text(require_file(path)))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object")
    return data


def require_file(path: Path) -> Path:
    """The path, if it is a file. Raises OSError for a pipe or a device, which would be read for ever."""
    if not os.path.isfile(path):
        raise OSError("it is missing, or no file")
    return path


def damaged(path: Path) -> ModelError:
    """The error for a file that is not what was written."""
    return ModelError(
        f"{path} is damaged: it is not what was written with its {CONFIG}; put the original back, or train anew "
        "(--resume, if a training was cut short)"
    )
