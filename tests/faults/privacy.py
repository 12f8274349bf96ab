"""No reading and no id where it does not belong."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq

from levyscreen.cli.app import main
from levyscreen.config import OURS
from levyscreen.records.cache import clear_cache, read_cohort
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.variables import PHYSIONET2012
from tests.faults.row import Row
from tests.faults.same_answer import ROOT, files
from tests.learn.tiny import cohort_of
from tests.records.record_files import HEAD

# A reading, a descriptor, an id and a name that occur nowhere else.
CANARIES = ("271.8281", "93.1415926", "66260701", "Zebrafish")
READING, WEIGHT, ID, NAME = CANARIES


def planted(rng: np.random.Generator, folder: Path) -> Path:
    """A few records of the sample with canaries among their lines, well formed and not."""
    folder.mkdir()
    for at, i in enumerate(rng.choice(len(files()), 4, replace=False)):
        lines = files()[i].read_text().splitlines()[7:]
        facts = [f"00:00,RecordID,{ID}{at}", "00:00,Age,54", f"00:00,Weight,{WEIGHT}"]
        lines += [f"{hour:02d}:00,HR,{READING}" for hour in range(30)]
        if rng.random() < 0.7:
            bad = (
                f"{READING},HR,1",
                f"01:00,{NAME},{READING}",
                f"01:00,HR,{READING}x",
                f"{NAME}",
                f"01:00,HR,{READING},1",
            )
            lines += [str(line) for line in rng.choice(bad, 3)]
        (folder / f"patient-{at}.txt").write_text(HEAD + "\n".join([*facts, *lines]) + "\n")
    return folder


class Crash(Exception):
    """An error of some library, with a value in its message."""


def crash(rng: np.random.Generator) -> Callable[..., Any]:
    """Something that raises, and says more than it should."""
    kind = int(rng.integers(6))

    def broken(*_: Any, **__: Any) -> Any:
        warnings.warn(f"odd value {READING}", UserWarning, stacklevel=1)
        if kind == 0:
            float(f"{READING}x")
        if kind == 1:
            return {}[int(ID)]
        if kind == 2:
            return {}[NAME]
        if kind == 3:
            raise Crash(f"reading {READING} of '{NAME}' in record {ID}")
        try:
            raise Crash(f"{ID}: {WEIGHT}")
        except Crash as error:
            if kind == 4:
                raise RuntimeError(f"at {READING}") from error
            raise ValueError(READING, ID) from None

    return broken


WRITING = "pyarrow.parquet.ParquetWriter.write_table"  # a file is begun by then
PLACES = (
    "levyscreen.screen.ask",
    "levyscreen.screen.select",
    "levyscreen.screen._rank",
    "levyscreen.questions.answer",
    "levyscreen.records.preprocessor.Preprocessor.apply",
    "levyscreen.records.cache.assemble",
    "levyscreen.records.cache.read_parts",
    "levyscreen.records.batches.Batcher.batch",
    "levyscreen.model.network.Network.predict",
    "levyscreen.calibrate.Calibration.scale",
    "levyscreen.outputs.write_parquet",
    "levyscreen.report.tables.timing_line",
    WRITING,
    "levyscreen.store.load_model",
    "levyscreen.timeline.asking.Asker.ask",
    "levyscreen.timeline.writing.Writer._table",
)


@contextlib.contextmanager
def replaced(place: str, by: Any) -> Iterator[None]:
    """What a dotted name stands for replaced; names are looked up anew, since a function may hide its module."""
    parts = place.split(".")
    depth = next(n for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in sys.modules or importable(parts[:n]))
    holder: Any = importlib.import_module(".".join(parts[:depth]))
    for name in parts[depth:-1]:
        holder = getattr(holder, name)
    with mock.patch.object(holder, parts[-1], by):
        yield


def importable(parts: list[str]) -> bool:
    try:
        importlib.import_module(".".join(parts))
    except ImportError:
        return False
    return True


def said(here: Path, *words: str) -> tuple[int, str]:
    """Exit code and stderr of levyscreen in this process, its current folder being `here`."""
    err, out = io.StringIO(), io.TextIOWrapper(io.BytesIO())
    with (
        contextlib.chdir(here),
        contextlib.redirect_stderr(err),
        contextlib.redirect_stdout(out),
        warnings.catch_warnings(),
        replaced("levyscreen.machine.prepare", lambda: None),
        mock.patch.object(sys, "argv", ["levyscreen", *words]),
    ):
        warnings.simplefilter("always")
        try:
            main()
        except SystemExit as stopped:
            return int(stopped.code or 0), err.getvalue()
        except BaseException as error:  # Python would print it, message and all
            return -1, f"{err.getvalue()}{type(error).__name__}: {error}"
    return 0, err.getvalue()


def hits(text: str) -> str | None:
    """Which canaries stand in a text that should have none; a record's own file name is none."""
    found = [canary for canary in CANARIES if canary in text]
    return f"{', '.join(found)} in: {text[-600:]}" if found else None


def commands(rng: np.random.Generator, cohort: Path) -> list[str]:
    kinds = (
        ["screen", str(cohort)],
        ["screen", str(cohort), "--strict", "--queries"],
        ["screen", str(cohort), "--protocol", "paper", "--top-decile"],
        ["screen", str(cohort), "--compare"],
        ["continuum", str(cohort), "--grid", "2"],
        ["continuum", str(cohort), "--grid", "2", "--records", f"{ID}0,{ID}9"],
        ["continuum", str(cohort), "--grid", "2", "--records", f"{ID}0,{NAME}"],
        ["plot", f"{ID}7", "--cohort", str(cohort)],
        ["validate", str(cohort)],
        ["evaluate", "physionet2012", str(cohort)],
        ["train", str(cohort), "--out", "model"],
        ["screen", str(cohort), "-o", "no-such-format.xyz"],
        ["screen", str(cohort), "--out", "/proc/nowhere"],
        ["screen", str(cohort), "--model", "unknown"],
    )
    return list(kinds[int(rng.integers(len(kinds)))])


def a_failing_run(rng: np.random.Generator, folder: Path) -> str | None:
    """Any command on records with canaries, an error raised somewhere in it as often as not."""
    cohort, words = planted(rng, folder / "ward"), None
    words, place = commands(rng, cohort), str(rng.choice(PLACES)) if rng.random() < 0.6 else None
    damage(rng, cohort)
    settings = {"LEVYSCREEN_CACHE_DIR": str(folder / "cache"), "LEVYSCREEN_DEBUG": str(rng.choice(["0", "1"]))}
    with mock.patch.dict(os.environ, settings), replaced(place, crash(rng)) if place else contextlib.nullcontext():
        code, err = said(folder, *words)
    wrong = hits(err) or hits_in_files(folder)
    if wrong is None and code not in (0, 1, 2, 3):
        wrong = f"exit code {code}: {err[-600:]}"
    return f"{words[0]}, {place}: {wrong}" if wrong else None


def damage(rng: np.random.Generator, cohort: Path) -> None:
    """One record made unreadable, or another file of an id there is."""
    kind = int(rng.integers(4))
    if kind == 0:
        (cohort / "patient-1.txt").write_bytes(b"\xff\xfe" + f"{NAME},{READING}".encode())
    elif kind == 1:
        shutil.copy(cohort / "patient-0.txt", cohort / "patient-5.txt")
    elif kind == 2:
        (cohort / "patient-2.txt").write_text(f"{NAME},{ID},{READING}\n")


def hits_in_files(folder: Path) -> str | None:
    """Canaries in what is written about a run, and in the footers of tables."""
    for path in folder.rglob("*timing.json"):
        if wrong := hits(path.read_text()):
            return f"{path.name}: {wrong}"
    for path in (folder / "levyscreen-out").rglob("*.parquet"):
        if wrong := hits(str(pq.read_schema(path).metadata)):
            return f"the footer of {path.name}: {wrong}"
        if path.name == "rejects.parquet" and (wrong := hits(json.dumps(pq.read_table(path).to_pylist()))):
            return f"{path.name}: {wrong}"
    return None


CHILD = "import tests.faults.privacy as p, numpy, warnings; p.crash_in_a_process({seed})"


def crash_in_a_process(seed: int) -> None:
    """What a child runs: a command in which something breaks."""
    rng = np.random.default_rng(seed)
    with replaced(str(rng.choice(PLACES[:9])), crash(rng)):
        main()


def a_crash_of_a_process(rng: np.random.Generator, folder: Path) -> str | None:
    """As above, in a process in one of Python's debug modes, whose own hooks print what they please."""
    cohort = planted(rng, folder / "ward")
    modes = (["-X", "dev"], ["-X", "tracemalloc"], ["-W", "always"], ["-v"], ["-X", "importtime"])
    code = CHILD.format(seed=int(rng.integers(2**31)))
    words = [sys.executable, *modes[int(rng.integers(len(modes)))], "-c", code, "screen", str(cohort)]
    own = {"PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1", "LEVYSCREEN_DEBUG": str(rng.choice(["0", "1"]))}
    settings = {**os.environ, **own, "LEVYSCREEN_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(words, capture_output=True, cwd=folder, env=settings, timeout=300)
    if done.returncode != 1:
        return f"exit code {done.returncode}: {done.stderr.decode()[-600:]}"
    return hits(done.stderr.decode())


# Files for their owner alone -----------------------------------------------------------------------------------------


def the_cache(rng: np.random.Generator, folder: Path) -> str | None:
    """Modes while it is written and afterwards, under any umask; what clearing it leaves; and stray temporaries."""
    umask = int(rng.choice([0o000, 0o002, 0o022, 0o077]) if rng.random() < 0.7 else rng.integers(0o100))
    cohort, rename, seen = planted(rng, folder / "ward"), os.rename, []
    (scratch := folder / "scratch").mkdir()

    def watched(source: Any, target: Any) -> None:
        seen.append(too_open(folder / "cache"))
        rename(source, target)

    settings = {"LEVYSCREEN_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(scratch)}
    before = os.umask(umask)
    try:
        with mock.patch.dict(os.environ, settings), mock.patch("os.rename", watched):
            breaks = rng.random() < 0.4
            with replaced(WRITING, crash(rng)) if breaks else contextlib.nullcontext(), contextlib.suppress(Exception):
                read_cohort(cohort)
            seen.append(too_open(folder / "cache"))
            clear_cache()
    finally:
        os.umask(before)
    left = [str(path.relative_to(folder)) for path in (folder / "cache").rglob("*") if path.is_file()]
    left += [str(path) for path in scratch.iterdir()]
    wrong = next((s for s in seen if s), None) or (f"left: {', '.join(left)}" if left else None)
    return f"umask {umask:o}: {wrong}" if wrong else None


def too_open(folder: Path) -> str | None:
    """What under a folder, itself included, someone else may read or write."""
    for path in [folder, *folder.rglob("*")]:
        if mode := stat.S_IMODE(path.lstat().st_mode) & 0o077:
            return f"{path.name} is open to others, {mode:o}"
    return None


def outputs_and_temporaries(rng: np.random.Generator, folder: Path) -> str | None:
    """What holds patients' values is its owner's alone, or with --share as the umask has it, wherever the run ended."""
    umask, cohort = int(rng.choice([0o022, 0o027, 0o077])), planted(rng, folder / "ward")
    (scratch := folder / "scratch").mkdir()
    words = commands(rng, cohort)
    private = words[0] in ("screen", "continuum", "report", "plot", "validate")
    if private and (shared := rng.random() < 0.3):
        words = [*words, "--share"]
    others = 0o077 if private and not shared else umask
    place = (WRITING, "os.replace", str(rng.choice(PLACES)), None)[int(rng.integers(4))]
    settings = {"LEVYSCREEN_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(scratch)}
    before = os.umask(umask)
    try:
        with mock.patch.dict(os.environ, settings):
            if rng.random() < 0.5:  # else the first file to be written is the cache's
                read_cohort(cohort)
            with replaced(place, crash(rng)) if place else contextlib.nullcontext():
                said(folder, *words)
    finally:
        os.umask(before)
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts
        if inside[0] == "scratch" and len(inside) > 1:
            return f"{words[0]}, {place}: {path.name} is left in the folder of temporaries"
        if path.name.startswith(".") or path.suffix == ".tmp":
            return f"{words[0]}, {place}: {path.name} is left"
        if inside[0] not in ("ward", "scratch") and stat.S_IMODE(path.stat().st_mode) & others:
            return f"{' '.join(map(str, words))}: {path.name} is open to others"
    return None


def statistics_of_few(rng: np.random.Generator, folder: Path) -> str | None:
    """A variable that fewer than ten patients have: a model tells nothing of its values but their magnitude."""
    names = PHYSIONET2012.names
    rare, few = int(rng.integers(36)), int(rng.integers(1, 10))
    low, high = (getattr(PHYSIONET2012.variables[rare], end) for end in ("low", "high"))
    magnitude = 10.0 ** np.ceil(np.log10(high))
    found = []
    for _ in range(2):
        values = np.maximum(low, rng.uniform(0.5, 1, (few, 3)) * high).round(4)
        others = [i for i in range(36) if i != rare]
        lines = [
            [(float(hour), int(others[hour % 35]), 50.0 + hour % 7) for hour in range(40)]
            + ([(float(hour), rare, float(values[i, hour])) for hour in range(3)] if i < few else [])
            for i in range(20)
        ]
        fitted = Preprocessor.fit(cohort_of(lines, variables=PHYSIONET2012), np.arange(20), PHYSIONET2012, OURS)
        found.append(fitted.to_json())
        if (fitted.mean[rare], fitted.scale[rare]) not in {(0.0, magnitude), (0.0, magnitude / 10)}:
            return f"{names[rare]} of {few}: {fitted.mean[rare]} and {fitted.scale[rare]}"
        if held := [value for value in values.ravel() if repr(float(value)) in json.dumps(found[-1]["mean"])]:
            return f"{len(held)} values are told"
    return None


ROWS: tuple[Row, ...] = (
    Row(
        "a variable of fewer than ten training patients",
        "of its values the preprocessor has an order of magnitude alone",
        statistics_of_few,
        10,
        300,
    ),
    Row(
        "an error, meant or not, in any command on records that hold canaries",
        "0 canaries in stderr, timings, rejects and footers; exit 0 to 3",
        a_failing_run,
        24,
        1_000,
    ),
    Row("a crash in debug mode", "0 canaries in the traceback, exit 1", a_crash_of_a_process, 1, 30),
    Row("a cache under any umask", "for its owner alone, even half written; cleared whole", the_cache, 10, 300),
    Row(
        "outputs under an umask, a run ending anyhow",
        "for their owner alone, or shared; no temporary",
        outputs_and_temporaries,
        12,
        300,
    ),
)
