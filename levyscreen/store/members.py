"""The further members of the deep ensemble in a model's folder."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from levyscreen import outputs
from levyscreen.config import parsed
from levyscreen.errors import ModelError
from levyscreen.model.network import Network
from levyscreen.store.files import CONFIG, MEMBERS, read_json
from levyscreen.store.manifest import digest_of, put
from levyscreen.store.model import Model
from levyscreen.store.weights import as_bytes, checked, load_weights


def member_path(folder: Path, seed: int) -> Path:
    """Weights of an ensemble member trained from another seed on the same split."""
    return folder / MEMBERS.replace("*", str(seed))


def has_member(folder: Path, seed: int) -> bool:
    """Whether a model's folder has a member, named by its configuration: a file alone may be of another ensemble."""
    path = member_path(folder, seed)
    return path.exists() and path.name in _listed(folder)


def save_member(folder: Path, seed: int, network: Network) -> Path:
    """Writes another member of a model's ensemble into its folder."""
    path, config = member_path(folder, seed), read_json(folder / CONFIG)
    content = as_bytes(network)
    weights = config.get("weights", {}) | {path.name: digest_of(content)}
    plain = {k: v for k, v in config.items() if k != outputs.SEAL}
    put(folder, {path.name: content, CONFIG: outputs.json_bytes(outputs.sealed(plain | {"weights": weights}))})
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
        checked(path, weights)
    return members


def _listed(folder: Path) -> dict[str, str]:
    """Digests of a model folder's weights, by file, as its configuration has them."""
    return parsed(dict[str, str], read_json(folder / CONFIG).get("weights", {}), "weights")
