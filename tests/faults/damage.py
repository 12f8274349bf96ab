"""Flipped bits in what is read again, and edited sources of what is kept."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from levyscreen.calibrate import CalibrationWarning
from levyscreen.cli import common
from levyscreen.errors import LevyscreenError
from levyscreen.judging import calibrate
from levyscreen.learn import fit as loop
from levyscreen.learn.data import prepare
from levyscreen.learn.fit import fit
from levyscreen.model.network import build
from levyscreen.records.cache import FOLDER_VARIABLE, cache_entries, read_cohort
from levyscreen.store import load_members, load_model, save_member, save_model
from levyscreen.study.results import Results
from levyscreen.training import describe
from tests.faults.replacement import temporary
from tests.faults.row import Row
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort
from tests.records.record_files import record, same, write_folder
from tests.records.test_cache import add, edit, edit_and_hide_it, remove, rename
from tests.records.test_physionet2012 import EVERY_CLASS

DAMAGED = "the cached copy of this cohort was damaged; the files were read again"
CPU = torch.device("cpu")


def flip(rng: np.random.Generator, folder: Path) -> str:
    """Flips a bit of any file in a folder, the small ones as often as the large, and says where."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    path = paths[int(rng.integers(len(paths)))]
    data = bytearray(path.read_bytes())
    place, bit = int(rng.integers(len(data))), int(rng.integers(8))
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {place} of {path.name}"


# The cache ----------------------------------------------------------------------------------------------------------


def source(folder: Path) -> Path:
    """A cohort of a few records."""
    many = {f"{i}.txt": record(i, *(f"{h:02d}:07,HR,{70 + (h * i) % 9}" for h in range(24))) for i in range(20, 26)}
    return write_folder(folder / "set", {"7.txt": record(7, *EVERY_CLASS), "8.txt": "x", **many})


def own_cache(folder: Path) -> Any:
    """The cache in a folder."""
    return mock.patch.dict(os.environ, {FOLDER_VARIABLE: str(folder / "cache")})


def flip_in_cache(rng: np.random.Generator, folder: Path) -> str | None:
    files = source(folder)
    with own_cache(folder):
        first = read_cohort(files)
        where = flip(rng, cache_entries()[0].folder)
        second, third = read_cohort(files), read_cohort(files)
    if second.notes != (*first.notes, DAMAGED):
        return f"not said: {where}"
    if third.notes != first.notes:
        return f"not rebuilt: {where}"
    return None if same(first, second) and same(first, third) else f"another cohort: {where}"


def edit_source(rng: np.random.Generator, folder: Path) -> str | None:
    files, change = source(folder), (edit, edit_and_hide_it, rename, add, remove)[int(rng.integers(5))]
    with own_cache(folder):
        before = read_cohort(files)
        change(files)
        after, again = read_cohort(files), read_cohort(files)
        fresh = read_cohort(files, cache=False)
    if after.fingerprint == before.fingerprint:
        return f"not seen: {change.__name__}"
    return None if same(after, fresh) and same(again, fresh) else f"another cohort after: {change.__name__}"


# What training and screening keep -----------------------------------------------------------------------------------


def flip_and_read(
    write: Callable[[Path], None], read: Callable[[Path], Any], rng: np.random.Generator, folder: Path
) -> str | None:
    """Damages what was written: it must be refused, or read as it was (a bit of a name may say nothing)."""
    whole = _written(write)
    damaged = Path(shutil.copytree(whole, folder / "damaged"))
    where = flip(rng, damaged)
    try:
        found = read(damaged)
    except LevyscreenError:
        return None
    return None if found == read(whole) else f"silent: {where}"


@cache
def _written(write: Callable[[Path], None]) -> Path:
    folder = temporary() / f"damage-{write.__name__}"
    folder.mkdir()
    write(folder)
    return folder


@cache
def _data() -> Any:
    return prepare(tiny_cohort(40), PROTOCOL, TRAINING.seed)


def train(folder: Path) -> None:
    fit(_data(), MODEL, replace(TRAINING, epochs=1), folder, CPU)


def resume(folder: Path) -> Any:
    """All that a training takes up again."""
    trainer = loop._Trainer(_data(), MODEL, replace(TRAINING, epochs=1), CPU)
    trainer.restore(folder)
    slots = [sorted(slot.items()) for slot in trainer.optimiser.state_dict()["state"].values()]
    tensors = [*trainer.network.state_dict().values(), *trainer.best.values(), *(t for slot in slots for _, t in slot)]
    schedule = {name: value for name, value in trainer.schedule.state_dict().items() if not callable(value)}
    return trainer.progress, schedule, [tensor.numpy().tobytes() for tensor in tensors]


def save(folder: Path) -> None:
    """A calibrated model with a second member."""
    cohort, config = tiny_cohort(40), replace(TRAINING, epochs=1)
    fitted = fit(_data(), MODEL, config, folder / "training", CPU)
    save_model(folder, fitted.network, _data().preprocessor, describe(cohort, _data(), config, fitted))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # so few records leave too few targets for a bound
        calibrate(load_model(folder), cohort, by="nothing")
    save_member(folder, 1, build(MODEL, 1))
    shutil.rmtree(folder / "training")


def load(folder: Path) -> Any:
    model = load_model(folder)
    calibrations = [c.to_json() for c in model.calibrations.values()]
    networks = [model.network, *load_members(model)]
    return model.preprocessor, calibrations, model.training, model.network.config, [_bytes(n) for n in networks]


def write_results(folder: Path) -> None:
    Results(folder, "interpolation").write(
        "tiny", 0, "deviation", {"figures": np.random.default_rng(0).random(50).tolist()}
    )


def read_results(folder: Path) -> Any:
    return Results(folder, "interpolation").read()


def remember(folder: Path) -> None:
    with mock.patch.object(common, "LAST", folder / "last.json"):
        common.remember(Path("set-b"), "physionet2012", None)


def recall(folder: Path) -> Any:
    with mock.patch.object(common, "LAST", folder / "last.json"):
        return common.recall()


def _bytes(network: torch.nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in network.state_dict().values()]


ROWS: tuple[Row, ...] = (
    Row("flipped bit in a cache entry", "detected, rebuilt, said", flip_in_cache, 60, 1000),
    Row("source edited, renamed, added, removed", "cache rebuilt", edit_source, 20, 200),
    *(
        Row(f"flipped bit in {what}", "refused, or of no effect", partial(flip_and_read, write, read), *tries)
        for what, write, read, tries in (
            ("a training's state", train, resume, (40, 1000)),
            ("a model folder", save, load, (60, 1000)),
            ("a study's result", write_results, read_results, (60, 1000)),
            ("what was last screened", remember, recall, (60, 1000)),
        )
    ),
)
