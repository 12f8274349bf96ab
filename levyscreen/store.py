"""Model folders: weights, configuration, preprocessor, calibration, card. Loading runs no code from them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialised

from levyscreen import outputs
from levyscreen.calibrate import Calibration
from levyscreen.config import ModelConfig, TrainingConfig, parsed
from levyscreen.errors import CalibrationError, ModelError
from levyscreen.model.network import Network
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.temporaries import folder_beside

if TYPE_CHECKING:
    import pyarrow as pa

    from levyscreen.records.cohort import Cohort

FORMAT = 1
DEFAULT = "physionet2012"
WEIGHTS, CONFIG, PREPROCESSOR, CALIBRATION, CARD, CARD_DATA = (
    "model.safetensors",
    "config.json",
    "preprocessor.json",
    "calibration.json",
    "README.md",
    "card.json",
)
MEMBERS = "member-*.safetensors"


@dataclass(frozen=True)
class Model:
    """A loaded model folder."""

    name: str
    folder: Path
    digest: str  # of the weights
    network: Network
    preprocessor: Preprocessor
    calibrations: dict[str, Calibration]  # by signal, the default one first; empty where the model is not calibrated
    # Settings, cohort, split (record ids of train, validation, test), subjects and unnamed (as `identities`), history.
    training: dict[str, Any]
    # The `identities` of the records that the calibrations are of; empty where the folder does not say.
    fitted_on: dict[str, list[int]] = field(default_factory=dict)
    shipped: bool = False  # called by the name of a model that comes with the package: its folder stays as it is

    def records(self, part: str) -> NDArray[np.int64]:
        """Record ids that stood in `train`, `validation` or `test` when this model was trained."""
        return np.asarray(self.remembered("split", part), dtype=np.int64)

    def knows(self, cohort: Cohort, parts: Sequence[str]) -> NDArray[np.bool_]:
        """Which records of a cohort are of patients of these parts of the training, (R,).

        By subject where both say it; else by record id, by which a stranger may be taken for one, and left out.
        """
        of_parts = {"records": "split", "subjects": "subjects", "unnamed": "unnamed"}
        told = {name: key for name, key in of_parts.items() if key == "split" or key in self.training}
        return _among(
            cohort, {name: [x for part in parts for x in self.remembered(key, part)] for name, key in told.items()}
        )

    def calibrated_with(self, cohort: Cohort) -> NDArray[np.bool_]:
        """Which records of a cohort are of patients that set this model's intervals, (R,), known as by `knows`."""
        return _among(cohort, self.fitted_on)

    def remembered(self, *keys: str) -> Any:
        """What the folder remembers of its training. Raises ModelError where it does not say."""
        found: Any = self.training
        for key in keys:
            if key not in found:
                raise ModelError(
                    f"{self.folder / CONFIG} does not say {'.'.join(keys)} of its training: train the model again"
                )
            found = found[key]
        return found

    def met(self, fingerprint: str) -> str | None:
        """`trained` or `calibrated` where that was done on records of the cohort of this fingerprint, else None."""
        if fingerprint == self.training.get("cohort_fingerprint"):
            return "trained"
        of_calibrations = {c.provenance.get("cohort_fingerprint") for c in self.calibrations.values()}
        return "calibrated" if fingerprint in of_calibrations else None

    @property
    def device(self) -> torch.device:
        """Where its network lies, and all that is asked of it is computed."""
        return next(self.network.parameters()).device

    @property
    def calibration(self) -> Calibration | None:
        """The default calibration."""
        return next(iter(self.calibrations.values()), None)

    def require_calibration(self) -> Calibration:
        """The default one. Raises CalibrationError where there is none, ModelError where there can be none."""
        self.network.levy()
        if self.calibration is None:
            raise CalibrationError(
                f"model {self.name} is not calibrated: run levyscreen calibrate {self.folder} COHORT"
            )
        return self.calibration

    def timeline_calibration(self, with_deviation: bool) -> Calibration:
        """The one for a dense timeline: unless the deviation is paid for anyway, on a signal of the mean path.

        On sigma_hat where there is one: the disagreement does not see that evidence is missing.
        """
        default = self.require_calibration()
        if with_deviation and default.needs_deviation:
            return default
        cheap = [c for c in self.calibrations.values() if not c.needs_deviation]
        return min(cheap, key=lambda c: c.signal != "sigma_hat", default=default)

    def provenance(self) -> dict[str, Any]:
        """What an output says of the model."""
        calibration = self.calibration
        return {
            "model": self.name,
            "model_digest": self.digest,
            "protocol": self.preprocessor.protocol.name,
            "calibration": None
            if calibration is None
            else {"signal": calibration.signal, "by": calibration.by} | calibration.provenance,
            "calibration_digest": outputs.sealed(_as_json(self.calibrations.values()))[outputs.SEAL],
        }


def identities(described: pa.Table) -> dict[str, list[int]]:
    """Whom some records (schema.RECORDS) are of: `records` and, where there are any, `subjects`, each once.

    `unnamed` are those of the records that have no subject.
    """
    unnamed = described.filter(pc.is_null(described.column("subject_id")))
    columns = {
        "records": described.column("record_id"),
        "subjects": described.column("subject_id"),
        "unnamed": unnamed.column("record_id"),
    }
    found = {name: column.drop_null().unique().sort().to_pylist() for name, column in columns.items()}
    return {name: ids for name, ids in found.items() if ids}


def _among(cohort: Cohort, known: Mapping[str, list[int]]) -> NDArray[np.bool_]:
    """Which records of a cohort are of these `identities`, by subject where both have one, (R,)."""
    subject, ids = (cohort.records.column(name) for name in ("subject_id", "record_id"))
    record = ids.fill_null(-1).to_numpy()
    by_id = np.isin(record, known.get("records", []))
    if "subjects" not in known or subject.null_count == len(cohort):
        return by_id
    by_subject = np.isin(subject.fill_null(0).to_numpy(), known["subjects"])
    return np.where(subject.is_valid().to_numpy(), by_subject | np.isin(record, known.get("unnamed", [])), by_id)


def shipped_folder() -> Path:
    """Where the shipped models lie: beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent / "models"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "models"


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
    folder = find(model)
    preprocessor = _parsed(folder / PREPROCESSOR, Preprocessor.from_json)
    settings, training, weights = _parsed(folder / CONFIG, _settings)
    if settings.variables != len(preprocessor.variables):
        raise ModelError(
            f"{folder} does not fit together: {settings.variables} variables in {CONFIG}, "
            f"{len(preprocessor.variables)} in {PREPROCESSOR}"
        )
    calibrations, fitted_on = _read_calibrations(folder / CALIBRATION, preprocessor)
    network = load_weights(folder / WEIGHTS, settings, device)
    for name in (CONFIG, PREPROCESSOR, CALIBRATION):  # last: an error that says what is wrong is the better one
        if (folder / name).exists() and not outputs.is_whole(_read_json(folder / name)):
            raise _damaged(folder / name)
    digest = _checked(folder / WEIGHTS, weights)
    named = len(Path(model).parts) == 1 and folder.parent == shipped_folder()
    name = folder.resolve().name
    return Model(name, folder, digest, network, preprocessor, calibrations, training, fitted_on, named)


def _checked(path: Path, weights: dict[str, str]) -> str:
    """Digest of a file of weights. Raises ModelError if the configuration was written with another one."""
    digest = outputs.digest(path)
    if weights.get(path.name, digest) != digest:
        raise _damaged(path)
    return digest


def _damaged(path: Path) -> ModelError:
    return ModelError(
        f"{path} is damaged: it is not what was written with its {CONFIG}; put the original back, or train anew "
        "(--resume, if a training was cut short)"
    )


def load_weights(path: Path, settings: ModelConfig, device: torch.device | str = "cpu") -> Network:
    """A network from a safetensors file alone. Raises ModelError for a pickle, a cut file, NaN or other shapes."""
    try:
        tensors = load_file(_file(path))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ModelError(f"{path} is not a whole safetensors file: {error}") from error
    with torch.device("meta"):  # shapes alone: a network of absurd size is found out before it takes memory
        described = {name: (t.shape, t.dtype) for name, t in Network(settings).state_dict().items()}
    held = {name: (t.shape, t.dtype) for name, t in tensors.items()}
    if other := sorted(dict(described.items() ^ held.items())):
        raise ModelError(f"{path} holds other weights than {CONFIG} describes: {', '.join(other[:3])}")
    bad = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise ModelError(f"{path} holds weights that are not finite, in {bad[0]}")
    network = Network(settings)
    network.load_state_dict(tensors)
    return network.to(device).eval()


def save_model(folder: Path, network: Network, preprocessor: Preprocessor, training: dict[str, Any]) -> None:
    """Writes weights, configuration and preprocessor.

    What lies there of other weights, their calibration and the further members of their ensemble, is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for former in (folder / CALIBRATION, *folder.glob(MEMBERS)):
        former.unlink(missing_ok=True)
    save_weights(folder / WEIGHTS, network)
    outputs.write_json(folder / PREPROCESSOR, outputs.sealed(preprocessor.to_json()))
    weights = {WEIGHTS: outputs.digest(folder / WEIGHTS)}
    config = {"format": FORMAT, "model": network.config.to_json(), "training": training, "weights": weights}
    outputs.write_json(folder / CONFIG, outputs.sealed(config))


def require_new(folder: Path, model: Model) -> None:
    """Raises ModelError unless a copy of the model can lie in `folder`: it holds nothing, and is not in the model's."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ModelError(f"{folder} is not empty: name a new folder for the copy of {model.name}")
    if folder.resolve().is_relative_to(model.folder.resolve()):
        raise ModelError(f"{folder} is in the folder of {model.name}: name one outside for the copy")


def copied(model: Model, folder: Path) -> Model:
    """A copy of a model's folder in a new one, without the state of its training and the figures on its card.

    Raises ModelError where the folder is not new.
    """
    require_new(folder, model)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(folder) as temporary:
            shutil.copytree(model.folder, temporary / "copy", ignore=shutil.ignore_patterns("training", CARD))
            data = temporary / "copy" / CARD_DATA
            if data.exists():
                outputs.write_json(data, {k: v for k, v in _read_json(data).items() if k != "KeyMetrics"})
            os.replace(temporary / "copy", folder)
    except OSError as error:
        raise ModelError(f"{folder} could not be written: {error.strerror or error}") from error
    return replace(model, name=folder.resolve().name, folder=folder, shipped=False)


def save_weights(path: Path, network: Network) -> None:
    """Writes a network's weights alone, as for a member of an ensemble."""
    with outputs.replacing(path) as temporary:
        temporary.write_bytes(serialised({k: t.detach().cpu().contiguous() for k, t in network.state_dict().items()}))


def save_calibrations(model: Model, calibrations: Sequence[Calibration], described: pa.Table) -> Model:
    """Writes calibrations into the model's folder, the default one first; returns the model with them.

    `described` is schema.RECORDS of the records that they were fitted on.
    """
    fitted_on = identities(described)
    if "subjects" not in fitted_on:
        fitted_on.pop("unnamed", None)
    outputs.write_json(model.folder / CALIBRATION, outputs.sealed(_as_json(calibrations) | {"fitted_on": fitted_on}))
    return replace(model, calibrations={c.signal: c for c in calibrations}, fitted_on=fitted_on)


def _as_json(calibrations: Iterable[Calibration]) -> dict[str, Any]:
    return {"format": FORMAT, "calibrations": [c.to_json() for c in calibrations]}


def _read_calibrations(path: Path, preprocessor: Preprocessor) -> tuple[dict[str, Calibration], dict[str, list[int]]]:
    """By signal, and the records that they were fitted on."""
    if not os.path.lexists(path):  # a link that leads nowhere is no model without calibration
        return {}, {}
    found, fitted_on = _parsed(path, _calibrations)
    if any(c.variables != preprocessor.variables.names for c in found):
        raise ModelError(f"{path} is of a model with other variables")
    return {c.signal: c for c in found}, fitted_on


def member_path(folder: Path, seed: int) -> Path:
    """Weights of an ensemble member trained from another seed on the same split."""
    return folder / MEMBERS.replace("*", str(seed))


def has_member(folder: Path, seed: int) -> bool:
    """Whether a model's folder has a member, named by its configuration: a file alone may be of another ensemble."""
    path = member_path(folder, seed)
    return path.exists() and path.name in _listed(folder)


def _listed(folder: Path) -> dict[str, str]:
    """Digests of a model folder's weights, by file, as its configuration has them."""
    return parsed(dict[str, str], _read_json(folder / CONFIG).get("weights", {}), "weights")


def save_member(folder: Path, seed: int, network: Network) -> Path:
    """Writes another member of a model's ensemble into its folder."""
    path, config = member_path(folder, seed), _read_json(folder / CONFIG)
    save_weights(path, network)
    weights = config.get("weights", {}) | {path.name: outputs.digest(path)}
    content = {k: v for k, v in config.items() if k != outputs.SEAL}
    outputs.write_json(folder / CONFIG, outputs.sealed(content | {"weights": weights}))
    return path


def load_members(model: Model, seeds: Iterable[int] | None = None) -> list[Network]:
    """The other members of the deep ensemble in a model's folder, where its network lies; of these seeds or all."""
    weights = _listed(model.folder)
    if seeds is None:
        paths = [model.folder / name for name in sorted(weights) if fnmatch(name, MEMBERS)]
    else:
        paths = [member_path(model.folder, seed) for seed in seeds]
    members = [load_weights(path, model.network.config, model.device) for path in paths]
    for path in paths:
        if path.name not in weights:
            raise ModelError(f"{path} is not of this ensemble: {CONFIG} beside it does not name it; take it away")
        _checked(path, weights)
    return members


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


def _calibrations(data: dict[str, Any]) -> tuple[list[Calibration], dict[str, list[int]]]:
    try:
        fitted_on = parsed(dict[str, list[int]], data.get("fitted_on", {}), "fitted_on")
    except ValueError as error:  # what came may be a record id
        raise ValueError(str(error).partition(", got ")[0]) from None
    return [Calibration.from_json(c) for c in parsed(list[Any], data["calibrations"], "calibrations")], fitted_on


def _file(path: Path) -> Path:
    """The path, if it is a file. Raises OSError for a pipe or a device, which would be read for ever."""
    if not os.path.isfile(path):
        raise OSError("it is missing, or no file")
    return path


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object")
    return data


def _parsed(path: Path, parse: Any) -> Any:
    data = _read_json(path)
    if path.name != PREPROCESSOR and (type(data.get("format")) is not int or data["format"] != FORMAT):
        raise ModelError(f"{path} has format {data.get('format')!r:.40}; this version reads {FORMAT}")
    try:
        return parse({key: value for key, value in data.items() if key != outputs.SEAL})
    except CalibrationError as error:
        raise CalibrationError(f"{path} is not what this version writes: {error}") from error
    except (KeyError, ValueError) as error:
        raise ModelError(f"{path} is not what this version writes: {type(error).__name__} {error}") from error
