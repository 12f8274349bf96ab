"""The same answer whatever the machine, its settings and the company of other records."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from levyscreen import outputs, schema
from levyscreen.continuum import ContinuumSettings, continuum
from levyscreen.records.cache import read_cohort, write_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.screen import ScreenSettings, screen
from levyscreen.store import Model, load_model
from levyscreen.timeline import asking
from tests.conftest import SAMPLE
from tests.faults.row import Row

ROOT = SAMPLE.parent.parent
screening, timeline = (importlib.import_module(f"levyscreen.{name}") for name in ("screen", "continuum"))
SETTINGS = ContinuumSettings(grid=3, with_deviation=True)
EXACT = ["record_id", "status", "n_readings", "n_context", "n_hidden"]
MEANS = ["uncertainty", "deviation", "disagreement", "evidence", "sigma_hat", "interval_width", "mae"]


@cache
def model() -> Model:
    return load_model()


@cache
def files() -> list[Path]:
    """The sample's records but the longest, so that an attempt takes a second or less."""
    return sorted(sorted(SAMPLE.iterdir(), key=lambda path: path.stat().st_size)[:-20])


def some(rng: np.random.Generator) -> list[Path]:
    """Twelve records, with the one that is empty or has too few readings now and then."""
    return [files()[i] for i in rng.choice(len(files()), 12, replace=False)]


def folder_of(paths: list[Path], folder: Path) -> Path:
    folder.mkdir()
    for path in paths:
        shutil.copy(path, folder)
    return folder


def differ(one: pd.DataFrame, other: pd.DataFrame, exact: list[str]) -> str | None:
    """What differs of two screenings: by more than 1e-5 relative, or in an exact column."""
    one, other = (frame.sort_values("record_id", ignore_index=True) for frame in (one, other))
    if not one[exact].equals(other[exact]):
        return "another status, count or flag"
    same = np.allclose(one[MEANS].to_numpy(float), other[MEANS].to_numpy(float), rtol=1e-5, atol=0, equal_nan=True)
    return None if same else "another score"


def timelines_differ(one: pd.DataFrame, other: pd.DataFrame) -> str | None:
    """As `differ`; predictions cross 0 and are compared by their variable's standard deviation."""
    if not one[["record_id", "variable", "time_hours"]].equals(other[["record_id", "variable", "time_hours"]]):
        return "other rows of the timeline"
    scale = np.asarray(model().preprocessor.scale)[one["variable"].cat.codes]
    if not (np.abs(one["prediction"] - other["prediction"]) <= 1e-5 * scale).all():
        return "another prediction in the timeline"
    names = ["evidence", "disagreement", "sigma_hat", "deviation"]
    same = np.allclose(one[names].to_numpy(float), other[names].to_numpy(float), rtol=1e-5, atol=1e-6)
    return None if same else "another signal in the timeline"


def timeline_of(cohort: Cohort, folder: Path) -> pd.DataFrame:
    return pq.read_table(continuum(cohort, model(), folder, SETTINGS).folder).to_pandas()


# Work cut up otherwise -----------------------------------------------------------------------------------------------


@contextmanager
def cut_up(rng: np.random.Generator) -> Iterator[int]:
    """Other windows, batches, threads and query blocks, perhaps inside autocast; gives the tokens of a batch."""
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        for module, name, values in (
            (screening, "WINDOW_RECORDS", (1, 5, 4096)),
            (timeline, "WINDOW_RECORDS", (1, 5, 4096)),
            (asking, "WINDOW", (1, 3, 128)),
            (asking, "TOKENS", (1, 700, 2_048, 100_000)),
            (asking, "QUERIES", (1, 10, 10_368)),
            (importlib.import_module("levyscreen.model.network"), "INTENSITIES", (1, 2**16, 2**24)),
        ):
            stack.enter_context(mock.patch.object(module, name, int(rng.choice(values))))
        stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=bool(rng.random() < 0.6)))
        torch.set_num_threads(int(rng.choice([1, 2])))
        stack.callback(torch.set_num_threads, threads)
        yield int(rng.choice([1, 300, 1_000, 2_048, 7_000, 48_000]))


def batches_and_threads(rng: np.random.Generator, folder: Path) -> str | None:
    cohort = read_cohort(folder_of(some(rng), folder / "ward"), cache=False)
    one, course = screen(cohort, model()), timeline_of(cohort, folder / "one")
    with cut_up(rng) as tokens:
        other = screen(cohort, model(), ScreenSettings(tokens=tokens))
        other_course = timeline_of(cohort, folder / "other")
    exact = [*EXACT, "flagged", "decile"]
    return differ(one.scores, other.scores, exact) or timelines_differ(course, other_course)


# The cohort kept otherwise -------------------------------------------------------------------------------------------


def packed(rng: np.random.Generator, paths: list[Path], folder: Path) -> Path:
    """The records as a folder, an archive or a Parquet cohort of the same name, written in any order."""
    kind = str(rng.choice(["folder", "tar", "tar.gz", "tgz", "zip", "parquet"]))
    order = [paths[i] for i in rng.permutation(len(paths))]
    if kind == "folder":
        return folder_of(order, folder / "ward")
    if kind == "parquet":
        plain = folder_of(order, folder / "plain")
        write_cohort(replace(read_cohort(plain, cache=False), name="ward"), folder / "ward")
        return folder / "ward"
    inside = str(rng.choice(["", "ward/"]))
    path = folder / f"ward.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for record in order:
                archive.write(record, inside + record.name)
    else:
        with tarfile.open(path, "w" if kind == "tar" else "w:gz") as archive:
            for record in order:
                archive.add(record, inside + record.name)
    return path


def content(cohort: Cohort, folder: Path) -> bytes:
    """scores.parquet without what the footer says of the cohort's source."""
    scores = screen(cohort, model()).scores
    scores.attrs.clear()
    table = pa.Table.from_pandas(scores, schema.SCORES, preserve_index=False)
    outputs.write_parquet(folder / "scores.parquet", table, {})
    return (folder / "scores.parquet").read_bytes()


def forms_and_caches(rng: np.random.Generator, folder: Path) -> str | None:
    paths = some(rng)
    expected = content(read_cohort(folder_of(paths, folder / "plain"), cache=False), folder)
    (there := folder / "packed").mkdir()
    path = packed(rng, paths, there)
    with mock.patch.dict(os.environ, LEVYSCREEN_CACHE_DIR=str(folder / "cache")):
        for kept in ("no cache", "a cold cache", "a warm cache"):
            if content(read_cohort(path, cache=kept != "no cache"), folder) != expected:
                return f"{path.name} with {kept}: other bytes"
    return None


# The process started otherwise ---------------------------------------------------------------------------------------

START = "from levyscreen.cli.app import main; main()"
LOCALES = ("C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "ar_EG.UTF-8", "ja_JP.SJIS")
SETTINGS_OF_A_PROCESS = {
    "LC_ALL": LOCALES,
    "LANG": LOCALES,
    "LANGUAGE": ("de", "tr"),
    "TZ": ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "nonsense"),
    "PYTHONHASHSEED": ("0", "1", "4294967295", "random"),
    "PYTHONUTF8": ("0", "1"),
    "PYTHONIOENCODING": ("ascii", "utf-16", "latin-1"),
    "PYTHONOPTIMIZE": ("", "1", "2"),
    "PYTHONDEVMODE": ("", "1"),
    "COLUMNS": ("20", "400"),
    "TERM": ("dumb", "xterm-256color"),
}


def started(cohort: Path, folder: Path, here: Path, **settings: str) -> tuple[bytes, bytes] | str:
    """scores.parquet and stdout of `levyscreen screen`, or what it said when it failed."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    # One thread: two cut the work in other places, which the last digit shows.
    own = {"PYTHONPATH": str(ROOT), "LEVYSCREEN_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", START, "screen", str(cohort), "--out", str(folder / "out")]
    done = subprocess.run(words, capture_output=True, cwd=here, env={**kept, **own, **settings}, timeout=300)
    if done.returncode:
        return done.stderr.decode(errors="replace")[-500:]
    return (folder / "out" / "scores.parquet").read_bytes(), done.stdout


@cache
def as_usual() -> tuple[Path, Any]:
    """A cohort of twelve records, kept for the whole run, and what an ordinary process gives for it."""
    folder = Path(tempfile.mkdtemp(prefix="levyscreen-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    cohort = folder_of(some(np.random.default_rng(0)), folder / "ward")
    return cohort, started(cohort, folder, folder)


def locales_and_zones(rng: np.random.Generator, folder: Path) -> str | None:
    cohort, expected = as_usual()
    here = folder / str(rng.choice(["here", "a space", "Grüße", "-v"]))
    here.mkdir()
    chosen = {name: str(rng.choice(values)) for name, values in SETTINGS_OF_A_PROCESS.items() if rng.random() < 0.6}
    got = started(cohort, folder, here, **chosen)
    if isinstance(got, str) or got == expected:
        return got if isinstance(got, str) else None
    return f"other {'scores' if got[0] != expected[0] else 'output'} under {chosen}"


# Other company -------------------------------------------------------------------------------------------------------


def changed(rng: np.random.Generator, path: Path) -> str:
    """A record's text with its values altered, some lines gone, or some twice."""
    head, *lines = path.read_text().splitlines()
    kind = str(rng.choice(["values", "fewer", "twice", "nothing left", "nonsense"]))
    if kind == "values":
        lines = [*lines[:6], *(line.rpartition(",")[0] + f",{rng.uniform(0, 200):.2f}" for line in lines[6:])]
    elif kind == "fewer":
        lines = [line for i, line in enumerate(lines) if i < 6 or rng.random() < 0.5]
    elif kind == "twice":
        lines += lines[6:] * 3
    else:
        lines = lines[:6] if kind == "nothing left" else ["99:99,HR,x"] * 40
    return "\n".join([head, *lines]) + "\n"


def other_company(rng: np.random.Generator, folder: Path) -> str | None:
    """Other records changed, added, removed: the scores of those that stay do not change; ranks and flags may."""
    paths = some(rng)
    one, other = folder_of(paths, folder / "one"), folder_of(paths, folder / "other")
    touched = set(rng.choice(12, int(rng.integers(1, 11)), replace=False).tolist())
    for i in touched:
        path = other / paths[i].name
        if rng.random() < 0.4:
            path.unlink()
        else:
            path.write_text(changed(rng, paths[i]))
    for added in [path for path in some(rng) if path not in paths][: int(rng.integers(0, 6))]:
        shutil.copy(added, other)
    stay = [int(path.stem) for i, path in enumerate(paths) if i not in touched]
    cohorts = [read_cohort(path, cache=False) for path in (one, other)]
    scores = [frame[frame["record_id"].isin(stay)] for frame in (screen(c, model()).scores for c in cohorts)]
    courses = [timeline_of(c, folder / f"course-{i}") for i, c in enumerate(cohorts)]
    courses = [frame[frame["record_id"].isin(stay)].reset_index(drop=True) for frame in courses]
    return differ(scores[0], scores[1], EXACT) or timelines_differ(courses[0], courses[1])


ROWS: tuple[Row, ...] = (
    Row(
        "other batches, windows, query blocks and threads, inside autocast or not",
        "scores within 1e-5 relative, the same flagged set",
        batches_and_threads,
        2,
        150,
    ),
    Row(
        "folder, tar, zip or Parquet, files in any order, without cache, cold and warm",
        "identical bytes",
        forms_and_caches,
        3,
        150,
    ),
    Row(
        "another locale, time zone, current folder, hash seed, encoding, developer mode",
        "identical bytes",
        locales_and_zones,
        1,
        30,
    ),
    Row(
        "other records of the cohort changed, added or removed",
        "the scores of those that stay within 1e-5 relative",
        other_company,
        3,
        150,
    ),
)
