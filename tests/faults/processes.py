"""Kills, interrupts, two at once: as processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path

import numpy as np

from tests.faults.forks import ROOT, commands
from tests.faults.replacement import Prepared, job, left_over, prepared, start, temporary, ward
from tests.faults.row import Row

STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}
LATEST_SECONDS = 2.0
# Before its first line no program can answer a signal: the clock starts there.
PROGRAM = "import os; from levyscreen.cli.entry import main; os.write(1, b'!'); main()"


# Killed -------------------------------------------------------------------------------------------------------------


def kill(name: str, rng: np.random.Generator, folder: Path) -> str | None:
    """A kill somewhere in the life of a command, every other time in the midst of a write; then the command again."""
    whole, work = _copy(name, folder)
    limits = {"file_bytes": int(rng.uniform(0, whole.largest)), "die": True} if rng.random() < 0.5 else {}
    process = start(work, name, 1, **limits, **_size(name, rng))
    if not limits:
        time.sleep(rng.uniform(0, whole.seconds))
        os.kill(process, signal.SIGKILL)  # its parent has not waited for it yet: the number is still its own
    commands().end()
    return whole.wrong(work) or whole.wrong_after_next_start(work)


def _copy(name: str, folder: Path) -> tuple[Prepared, Path]:
    whole = prepared(name)
    return whole, Path(shutil.copytree(whole.folder, folder / "work"))


def _size(name: str, rng: np.random.Generator) -> dict[str, int]:
    """A cohort that counts as large now and then, and so goes through a temporary file."""
    return {"memory_lines": 100} if name == "validate" and rng.random() < 0.5 else {}


# Stopped ------------------------------------------------------------------------------------------------------------


def stop(name: str, rng: np.random.Generator, folder: Path) -> str | None:
    """Ctrl-C, or SIGTERM, once or twice, somewhere in the life of a command."""
    whole, work = _copy(name, folder)
    process = start(work, name, 1, **_size(name, rng))
    time.sleep(rng.uniform(0.05, whole.seconds))
    number, began = _send(rng, process), time.perf_counter()
    done = commands().end()
    return _wrong_end(number, time.perf_counter() - began, done.code, done.err) or whole.wrong(work) or left_over(work)


def stop_program(rng: np.random.Generator, folder: Path) -> str | None:
    """The same of a program started from nothing, most of whose life are imports."""
    seconds = _program_seconds()
    whole, work = _copy("screen", folder)
    process = _program(work)
    time.sleep(rng.uniform(0, seconds))
    number, began = _send(rng, process.pid), time.perf_counter()
    _, err = process.communicate()
    took = time.perf_counter() - began
    return _wrong_end(number, took, process.returncode, err.decode()) or whole.wrong(work) or left_over(work)


def stop_product(rng: np.random.Generator, folder: Path) -> str | None:
    """In the midst of one operation that takes many seconds, and of a write."""
    process = commands().start(folder, 7000, script="one_long_product")
    while not list(folder.glob(".product*")):
        time.sleep(0.01)
    time.sleep(rng.uniform(0.2, 2))
    number, began = _send(rng, process), time.perf_counter()
    done = commands().end()
    return _wrong_end(number, time.perf_counter() - began, done.code, done.err) or left_over(folder)


def _send(rng: np.random.Generator, process: int) -> signal.Signals:
    number = signal.SIGINT if rng.random() < 0.7 else signal.SIGTERM
    os.kill(process, number)
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0, 0.05))
        os.kill(process, number)
    return number


def _wrong_end(number: signal.Signals, seconds: float, code: int, err: str) -> str | None:
    if code not in (STOPPED[number], -number, 0):  # by its own number where it was ending already
        return f"{number.name} ended it with {code}: {err[-300:]}"
    if "Traceback" in err or "Exception ignored" in err:
        return f"{number.name} ended it with a traceback: {err[-300:]}"
    if code == STOPPED[number] and "nothing was left half written" not in err:
        return f"{number.name} was not answered: {err[-300:]}"
    return f"it took {seconds:.1f} s to end" if seconds > LATEST_SECONDS else None


def _program(work: Path) -> subprocess.Popen[bytes]:
    """A screening in a process from nothing, at its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *job("screen", 1)["words"]],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LEVYSCREEN_CACHE_DIR": str(work / "cache")},
    )
    assert process.stdout is not None
    process.stdout.read(1)
    return process


@cache
def _program_seconds() -> float:
    """From its first line to a cohort screened."""
    _, work = _copy("screen", temporary() / "timed")
    process, began = _program(work), time.perf_counter()
    process.communicate()
    return time.perf_counter() - began


# Two at once --------------------------------------------------------------------------------------------------------


def pair(rng: np.random.Generator, folder: Path) -> str | None:
    """A cohort read again and again by one process, while another reads it, too, or clears the cache."""
    beside = int(rng.integers(4))
    if rng.random() < 0.5:
        _read_often(0, folder, clearing=False)
        commands(0).end()
    _read_often(0, folder, clearing=False)
    if beside < 2:
        _read_often(1, folder, clearing=beside == 1)
    else:
        time.sleep(rng.uniform(0, 0.2))
        commands(1).start(folder, *(["cache", "clear"], ["validate", ward()])[beside - 2])
    one, other = commands(0).end(), commands(1).end()
    _read_often(0, folder, clearing=False)
    for done in (one, commands(0).end(), *([other] if beside < 2 else [])):
        if (done.code, done.out, done.err) != (0, _read(), ""):
            return f"a reading ended with {done.code}: {done.err[-300:] or done.out[:200]}"
    if other.code or "note" in other.err:
        return f"what ran beside it ended with {other.code}: {other.err[-300:]}"
    return left_over(folder) or _damaged(folder)


def _read_often(number: int, folder: Path, clearing: bool) -> None:
    commands(number).start(folder, ward(), clearing, script="read_often")


@cache
def _read() -> str:
    """What is read where nothing runs beside it."""
    folder = temporary() / "read"
    folder.mkdir()
    _read_often(0, folder, clearing=False)
    return commands(0).end().out


def _damaged(folder: Path) -> str | None:
    names = {path.name for path in (folder / "cache" / "cohorts").iterdir()}
    files = {path.name for path in (folder / "cache" / "cohorts").rglob("*") if path.is_file()}
    whole = {"B2SUMS", "readings.parquet", "records.parquet", "rejects.parquet"}
    return None if len(names) == 1 and files == whole else f"the cache holds {sorted(files)}"


ROWS: tuple[Row, ...] = (
    *(
        Row(f"kill -9 at any moment of {name}", "old file or new file, strays swept at the next start", attempt, *tries)
        for name, attempt, tries in (
            (name, partial(kill, name), tries)
            for name, tries in {
                "screen": (5, 60),
                "continuum": (4, 40),
                "train": (4, 40),
                "calibrate": (3, 20),
                "validate": (5, 40),
            }.items()
        )
    ),
    *(
        Row(
            f"Ctrl-C or SIGTERM at any moment of {name}",
            "exit 130 or 143 within 2 s, no part of a file",
            attempt,
            *tries,
        )
        for name, attempt, tries in (
            (name, partial(stop, name), tries)
            for name, tries in {"screen": (4, 50), "continuum": (4, 50), "train": (3, 50), "validate": (4, 50)}.items()
        )
    ),
    Row("Ctrl-C from the first import on", "exit 130 within 2 s, no traceback, no part of a file", stop_program, 3, 50),
    Row("Ctrl-C in one long operation", "exit 130 within 2 s, no temporary left", stop_product, 1, 10),
    Row("two runs on one cache, or a run while it is cleared", "both answers right, none corrupts", pair, 8, 50),
)
