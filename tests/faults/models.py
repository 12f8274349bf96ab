"""Model folders that are damaged, foreign or hostile."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from levyscreen import outputs
from levyscreen.calibrate import fit_calibration
from levyscreen.config import NETWORK_LIMITS
from levyscreen.continuum import ContinuumSettings, continuum
from levyscreen.errors import LevyscreenError, ModelError
from levyscreen.model.network import build
from levyscreen.questions import ask, joined
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.screen import screen
from levyscreen.store import CALIBRATION, CONFIG, PREPROCESSOR, WEIGHTS, load_model, save_calibrations, save_model
from tests.faults.row import Row
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, tiny_cohort

JSONS = (CONFIG, PREPROCESSOR, CALIBRATION)
# What stands in the place of a value, or of a key: wrong types, absurd numbers, and what JSON has no number for.
ODD: tuple[Any, ...] = (
    *(None, True, False, "", "1", "levy", "Infinity", [], {}, [[]], {"a": 1}, [1, 2, 3, 4], ["HR"], "\u0000", "../x"),
    *(0, 1, -1, 2, 3, 5, 1000, 10**9, 2**63, 10**400, 0.0, -0.0, 0.5, -1.5, 1e-300, 1e-45, 1e30, 1e300, -1e300),
    *(float("nan"), float("inf"), float("-inf")),
)
MOST_BYTES = 400e6  # that refusing a folder may take


@cache
def cohort() -> Any:
    return tiny_cohort(20)


@cache
def whole(seed: int = 0) -> dict[str, bytes]:
    """The files of a small calibrated model; another seed gives those of another training."""
    rows = np.arange(20 - seed)
    readings = (preprocessor := Preprocessor.fit(cohort(), rows, VARIABLES, PROTOCOL)).apply(cohort())
    split = {"train": [1, 2, 3], "validation": [4], "test": [5]}
    about = {"settings": TRAINING.to_json(), "cohort": "tiny", "cohort_fingerprint": "", "split": split}
    network = build(MODEL, seed).eval()
    a = joined([answers for _, answers in ask(network, readings, hide(readings, 0.3, 0), torch.device("cpu"))])
    names = preprocessor.variables.names
    fitted = [
        # Targets as far off as the signal says: an untrained network's own would leave nothing to rank by.
        fit_calibration(a.signal(name), name, 0 * a.truth, a.signal(name) * a.truth, a.variable, names, by="nothing")
        for name in ("deviation", "disagreement")
    ]
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), network, preprocessor, about)
        wrong = not_finite(save_calibrations(load_model(folder), fitted, cohort().records), Path(folder) / "tiny")
        assert wrong is None, wrong
        shutil.rmtree(Path(folder) / "continuum")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def write(folder: Path) -> Path:
    """A whole model in a new folder `tiny`."""
    model = folder / "tiny"
    model.mkdir()
    for name, content in whole().items():
        (model / name).write_bytes(content)
    return model


def refused(model: Path, *names: str) -> str | None:
    """None if loading raises a ModelError that names one of the files, or else what happened."""
    try:
        load_model(model)
    except ModelError as error:
        named = str(model)[:200] in str(error) and (not names or any(name in str(error) for name in names))
        return None if named else f"the error names none of {', '.join(names)}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "it was loaded"


def a_pickle(rng: np.random.Generator, folder: Path) -> str | None:
    model, mark = write(folder), folder / "exploded"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (mark,))

    content = [{"weights": Bomb()}, [Bomb()], Bomb()][int(rng.integers(3))]
    path = model / str(rng.choice([WEIGHTS, *JSONS]))
    if rng.random() < 0.5:
        path.write_bytes(pickle.dumps(content, protocol=int(rng.integers(0, 6))))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=bool(rng.random() < 0.5))
    wrong = refused(model, path.name)
    return "its code ran" if mark.exists() else wrong


def a_cut_file(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    path = model / str(rng.choice([WEIGHTS, *JSONS]))
    content = path.read_bytes().rstrip()
    kept = int(rng.choice([0, 1, 8, len(content) - 1, rng.integers(len(content))]))
    path.write_bytes(content[:kept])
    return refused(model, path.name)


def a_foreign_header(rng: np.random.Generator, folder: Path) -> str | None:
    """Another length of the weights' header, or other bytes in it; a change that means nothing may load."""
    model = write(folder)
    path = model / WEIGHTS
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        lengths = (0, 1, 7, len(content), 2**31, 2**40, 2**63, 2**64 - 1)
        content[:8] = lengths[int(rng.integers(len(lengths)))].to_bytes(8, "little")
        path.write_bytes(content)
        return refused(model, WEIGHTS)
    header = int.from_bytes(content[:8], "little")
    for at in rng.integers(8, 8 + header, int(rng.integers(1, 4))):
        content[at] = int(rng.integers(0, 256))
    path.write_bytes(content)
    return fits_or_refused(model, WEIGHTS)


def weights_that_are_not_finite(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    tensors = load_file(model / WEIGHTS)
    name = str(rng.choice(sorted(tensors)))
    tensors[name].flatten()[int(rng.integers(tensors[name].numel()))] = float(rng.choice([np.nan, np.inf, -np.inf]))
    save_file(tensors, model / WEIGHTS)
    wrong = refused(model, WEIGHTS)
    return f"{name}: {wrong}" if wrong else None


def weights_of_another_kind(rng: np.random.Generator, folder: Path) -> str | None:
    """One tensor missing, added, of another shape or of another type."""
    model = write(folder)
    tensors = load_file(model / WEIGHTS)
    name = str(rng.choice(sorted(tensors)))
    kind = str(rng.choice(["missing", "added", "reshaped", "float64", "int64", "float16", "bool"]))
    if kind == "missing":
        del tensors[name]
    elif kind == "added":
        tensors["extra"] = torch.zeros(3)
    elif kind == "reshaped":
        tensors[name] = tensors[name].flatten()[:-1].clone()
    else:
        tensors[name] = tensors[name].to(getattr(torch, kind))
    save_file(tensors, model / WEIGHTS)
    wrong = refused(model, WEIGHTS)
    return f"{name} {kind}: {wrong}" if wrong else None


def edited(path: Path, change: Callable[[Any], None]) -> None:
    """A JSON file with something else in it and a digest that fits, so that what is wrong has to be seen."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(resealed(data)))


def resealed(data: Any) -> Any:
    """What a whole file with that content would hold."""
    if not isinstance(data, dict) or outputs.SEAL not in data:
        return data
    return outputs.sealed({key: value for key, value in data.items() if key != outputs.SEAL})


def another_vocabulary(rng: np.random.Generator, folder: Path) -> str | None:
    model, at = write(folder), int(rng.integers(4))
    kind = str(rng.choice(["renamed", "swapped", "twice", "nameless", "fewer", "more"]))

    def change(data: Any) -> None:
        variables = data["variables"]["variables"]
        other = (at + 1) % 4
        if kind == "renamed":
            variables[at]["name"] = "Other"
        elif kind == "swapped":
            variables[at], variables[other] = variables[other], variables[at]
        elif kind == "twice":
            variables[at]["name"] = variables[other]["name"]
        elif kind == "nameless":
            variables[at]["name"] = ""
        elif kind == "fewer":
            del variables[at], data["mean"][at], data["scale"][at]
        else:
            variables.append(dict(variables[at], name="Other"))
            data["mean"].append(0.0)
            data["scale"].append(1.0)

    edited(model / PREPROCESSOR, change)
    if kind not in ("renamed", "swapped") and rng.random() < 0.5:  # those two a calibration alone can tell
        (model / CALIBRATION).unlink()
    wrong = refused(model)
    return f"{kind}: {wrong}" if wrong else None


def another_version(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    name, number = str(rng.choice([CONFIG, CALIBRATION])), ODD[int(rng.integers(len(ODD)))]
    if number == 1 and number is not True:
        number = 2
    inner = name == CALIBRATION and rng.random() < 0.5
    edited(model / name, lambda data: (data["calibrations"][0] if inner else data).update(format=number))
    wrong = refused(model, name)
    return f"{name} {number!r}: {wrong}" if wrong else None


def numbers_that_no_fit_gives(rng: np.random.Generator, folder: Path) -> str | None:
    """Scales of 0 or less, intervals that shrink with their level, levels that are none."""
    model = write(folder)
    kind = str(
        rng.choice(["a", "b", "global a", "global b", "quantiles", "by variable", "levels", "twice", "mean_error"])
    )
    low, at = float(rng.choice([-1e-9, -1.0, -1e14])), int(rng.integers(4))

    def change(data: Any) -> None:
        fitted = data["calibrations"][int(rng.integers(2))]
        if kind in ("a", "b", "mean_error"):
            fitted[kind][at] = low
        elif kind.startswith("global"):
            fitted["global"][kind[-1]] = low
        elif kind == "quantiles":
            fitted["quantiles"].reverse()
        elif kind == "by variable":
            fitted["quantiles_by_variable"].reverse()
        elif kind == "levels":
            fitted["levels"][at % 3] = float(rng.choice([0.0, 1.0, 90.0, -0.9]))
        else:
            fitted["levels"][at % 3] = fitted["levels"][(at + 1) % 3]

    edited(model / CALIBRATION, change)
    wrong = refused(model, CALIBRATION)
    return f"{kind}: {wrong}" if wrong else None


def a_preprocessor_of_absurd_numbers(rng: np.random.Generator, folder: Path) -> str | None:
    model, at = write(folder), int(rng.integers(4))
    nothing, beyond = (
        (0, 0.0, -1.0, 1e-300, 1e-30, True, "1", None),
        (float("nan"), float("inf"), 1e30, -1e300, 10**400),
    )
    key, values = (
        ("scale", nothing + beyond),
        ("mean", (*nothing[5:], *beyond)),
        ("horizon_hours", nothing + beyond),
        ("hide", (0, 1, 1.0, -0.3, 30, "0.3", None, *beyond)),
        ("min_readings", (0, -20, 20.5, "20", None, *beyond)),
        ("max_readings", (0, -1, 512.0, *beyond)),
    )[int(rng.integers(6))]
    value = values[int(rng.integers(len(values)))]

    def change(data: Any) -> None:
        if key in ("scale", "mean"):
            data[key][at] = value
        else:
            data["variables" if key == "horizon_hours" else "protocol"][key] = value

    edited(model / PREPROCESSOR, change)
    wrong = refused(model, PREPROCESSOR)
    return f"{key} {value!r:.20}: {wrong}" if wrong else None


def sizes_beyond_memory(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    sizes = ("variables", "width", "heads", "blocks", "feed_forward", "frequencies", "time_cells", "channel_cells")
    names = rng.choice(sizes, int(rng.integers(1, 3)), replace=False).tolist()
    times = int(rng.choice([1, 1, 2, 1000, 10**6, 10**9]))
    size = {name: int(NETWORK_LIMITS[name][1]) * times for name in names}
    edited(model / CONFIG, lambda data: data["model"].update(size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = fits_or_refused(model, CONFIG, WEIGHTS)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if wrong is None and grown > MOST_BYTES:
        wrong = f"refusing took {grown / 1e6:.0f} MB"
    return f"{size}: {wrong}" if wrong else None


def no_files_where_files_should_be(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    name = str(rng.choice(["", WEIGHTS, *JSONS]))
    path = model / name
    for inside in [path] if name else model.iterdir():
        inside.unlink()
    if not name:
        model.rmdir()
    kind = str(rng.choice(["file", "folder", "loop", "dangling", "pipe", "device", "long"]))
    if kind == "file" and name:
        kind = "folder"
    if kind == "long":
        return refused(folder / ("x" * 5000))
    if kind == "file":
        path.write_text("{}")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"loop": path.name, "dangling": "nowhere", "device": "/dev/zero"}[kind])
    wrong = refused(model, name)
    return f"{name or 'the folder'} a {kind}: {wrong}" if wrong else None


# Anything else ------------------------------------------------------------------------------------------------------


def place(rng: np.random.Generator, data: Any) -> tuple[Any, Any]:
    """A container in some JSON and a key of it: a walk from the root, so that long lists weigh no more than others."""
    keys = list(data) if isinstance(data, dict) else range(len(data))
    key = keys[int(rng.integers(len(keys)))]
    within = data[key]
    return place(rng, within) if isinstance(within, (dict, list)) and within and rng.random() < 0.8 else (data, key)


def mutated(rng: np.random.Generator, data: Any) -> str:
    """One value replaced, removed or doubled, or one key added, at any depth; says which."""
    holder, key = place(rng, data)
    odd, kind = ODD[int(rng.integers(len(ODD)))], str(rng.choice(["replace"] * 6 + ["remove", "add", "scale"]))
    if kind == "remove":
        del holder[key]
    elif kind == "add":
        holder.insert(key, odd) if isinstance(holder, list) else holder.update({"extra": odd})
    elif kind == "scale" and type(holder[key]) in (int, float):
        holder[key] *= float(rng.choice([-1, 1e-9, 1e3, 1e9]))
    else:
        holder[key] = odd
    return f"{kind} {key!r} by {odd!r:.20}"


def another_value(rng: np.random.Generator, folder: Path) -> str | None:
    model = write(folder)
    name = str(rng.choice(JSONS))
    data = json.loads((model / name).read_text())
    what = "; ".join(mutated(rng, data) for _ in range(int(rng.integers(1, 3))))
    sealed = resealed(data) if rng.random() < 0.8 else data
    (model / name).write_text(json.dumps(sealed))
    wrong = fits_or_refused(model, *JSONS, WEIGHTS)
    return f"{name}, {what}: {wrong}" if wrong else None


def fits_or_refused(folder: Path, *names: str) -> str | None:
    """None if the folder is refused by a file's name, or loads and gives nothing that is not finite."""
    try:
        model = load_model(folder)
    except ModelError as error:
        named = any(str(folder / name) in str(error) for name in names) or "does not fit together" in str(error)
        return None if named else f"the error names no file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        return not_finite(model, folder)
    except LevyscreenError:
        return None
    except Exception as error:
        return f"once loaded, {type(error).__name__}: {error}"


def not_finite(model: Any, folder: Path) -> str | None:
    """What a loaded model gives that is not finite."""
    import pyarrow.parquet as pq

    scores = screen(cohort(), model).scores
    scored = scores[scores["status"] == "scored"]
    if "non_finite" in set(scores["status"]):
        return "records are non_finite"
    if not np.isfinite(scored[["uncertainty", "deviation", "evidence", "mae"]].to_numpy(float)).all():
        return "a score is not finite"
    if (scored["uncertainty"] <= 0).any():
        return "an uncertainty is 0 or less"
    written = continuum(cohort(), model, folder.parent / "continuum", ContinuumSettings(grid=2))
    found = pq.read_table(written.folder).to_pandas()
    if not np.isfinite(found[["prediction", "evidence", "disagreement"]].to_numpy(float)).all():
        return "a timeline is not finite"
    if (found["lower"] > found["upper"]).any():
        return "an interval ends before it begins"
    return None


REFUSED = "refused by the file's name"
ROWS: tuple[Row, ...] = (
    Row("a pickle by the name of a model's file", f"{REFUSED}; no code runs", a_pickle, 12, 500),
    Row("a model's file cut off", REFUSED, a_cut_file, 20, 1_000),
    Row("a header of the weights of another length or with other bytes", REFUSED, a_foreign_header, 20, 1_000),
    Row("weights that are not finite", REFUSED, weights_that_are_not_finite, 10, 500),
    Row("weights missing, added, of another shape or type", REFUSED, weights_of_another_kind, 20, 500),
    Row("another vocabulary", REFUSED, another_vocabulary, 12, 200),
    Row("another format of a model's file", REFUSED, another_version, 12, 500),
    Row("a preprocessor of absurd numbers", REFUSED, a_preprocessor_of_absurd_numbers, 20, 500),
    Row("a calibration of numbers that no fit gives", REFUSED, numbers_that_no_fit_gives, 15, 300),
    Row("sizes of a network beyond memory", f"{REFUSED} under 400 MB", sizes_beyond_memory, 20, 300),
    Row("a folder, loop, pipe or device for a model's file", REFUSED, no_files_where_files_should_be, 20, 300),
    Row("any value of a model's JSON replaced, removed or added", f"{REFUSED}, or finite", another_value, 150, 5_000),
)
