"""The manifest of a model folder: the digest of every file that loading reads, so that none is of another training.

The card, README.md and card.json, is for people to fill in, and stays out of it. A write that keeps the weights names
the files to come in a second manifest first: a kill on the way leaves each of them old or new, and both are accepted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from levyscreen import outputs
from levyscreen.config import parsed
from levyscreen.errors import ModelError
from levyscreen.store.files import (
    CALIBRATION,
    CONFIG,
    FORMAT,
    MEMBERS,
    PREPROCESSOR,
    WEIGHTS,
    damaged,
    parsed_file,
    read_json,
)

MANIFEST, COMING = "manifest.json", ".manifest.json"
SEALED = (WEIGHTS, CONFIG, PREPROCESSOR, CALIBRATION, MEMBERS)  # in this order in an error


def begin(folder: Path) -> None:
    """Before other weights are written: the former files go, and first the manifest."""
    for former in (folder / COMING, folder / MANIFEST, folder / CALIBRATION, *sorted(folder.glob(MEMBERS))):
        former.unlink(missing_ok=True)


def put(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes files of the model that lies in a folder, and its manifest; whenever it ends, the folder can be loaded."""
    files = dict(_whole(folder)) | {name: digest_of(content) for name, content in contents.items()}
    with ExitStack() as renames:
        for name, content in contents.items():
            renames.enter_context(outputs.replacing(folder / name)).write_bytes(content)
        outputs.write_json(folder / COMING, _as_json(files))  # where there is no room for all, nothing has changed
    os.replace(folder / COMING, folder / MANIFEST)


def seal(folder: Path) -> None:
    """Writes the manifest of the files that lie in a folder, whatever they are: for one who knows that they fit."""
    members = parsed(dict[str, str], read_json(folder / CONFIG).get("weights", {}), "weights")
    found = {path.name: outputs.digest(path) for path in _present(folder) if path.name in members or _is_one(path)}
    outputs.write_json(folder / MANIFEST, _as_json(found))
    (folder / COMING).unlink(missing_ok=True)


def check(folder: Path) -> None:
    """Raises ModelError, naming a file, unless the folder holds what its manifest says, and nothing else of a model."""
    now, coming = _read(folder / MANIFEST), _coming(folder)
    for name in [*now, *(n for n in coming if n not in now and (folder / n).exists())]:
        if not os.path.lexists(folder / name):
            raise ModelError(f"{folder / name} is missing, and {MANIFEST} names it: put it back, or train again")
        if outputs.digest(folder / name) not in (now.get(name), coming.get(name)):
            raise damaged(folder / name)
    for path in filter(_is_one, _present(folder)):
        if path.name not in now and path.name not in coming:
            raise ModelError(f"{path} is not of this model, for {MANIFEST} does not name it: take it away")


def digest_of(content: bytes) -> str:
    """As `outputs.digest` gives it of a file with that content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _whole(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file of a folder's model with the digest of what lies there; nothing where a model is begun."""
    if not (folder / MANIFEST).exists():
        return
    check(folder)
    known = _read(folder / MANIFEST).keys() | _coming(folder).keys()
    yield from ((path.name, outputs.digest(path)) for path in _present(folder) if path.name in known)


def _present(folder: Path) -> list[Path]:
    """Files that a model may be read from, present in a folder."""
    return [path for kind in SEALED for path in sorted(folder.iterdir()) if fnmatch(path.name, kind)]


def _is_one(path: Path) -> bool:
    """Whether there is one such file in a model; a further member counts for nothing until config.json names it."""
    return not fnmatch(path.name, MEMBERS)


def _as_json(files: Mapping[str, str]) -> dict[str, Any]:
    return outputs.sealed({"format": FORMAT, "files": dict(files)})


def _read(path: Path) -> dict[str, str]:
    if not os.path.lexists(path):
        raise ModelError(
            f"{path} is missing, so nothing says whether the files beside it are of one training: put it back or, if "
            f"you know that they are, write it by python -m levyscreen.store {path.parent}"
        )
    found: dict[str, str] = parsed_file(path, _files)
    return found


def _coming(folder: Path) -> dict[str, str]:
    """What a write that was cut short was about to write, if there was one."""
    return _read(folder / COMING) if (folder / COMING).exists() else {}


def _files(data: dict[str, Any]) -> dict[str, str]:
    if not outputs.is_whole(data) or outputs.SEAL not in data:
        raise ValueError("its digest does not hold")
    files = parsed(dict[str, str], data["files"], "files")
    if strange := [name for name in files if not any(fnmatch(name, kind) for kind in SEALED)]:
        raise ValueError(f"{strange[0]!r:.40} is no file of a model")
    return files
