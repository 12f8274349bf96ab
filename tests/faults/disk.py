"""A full disk, wherever the output of a command meets it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from tests.faults.forks import Done, commands
from tests.faults.replacement import VARYING, files, left_over, prepared, run, ward
from tests.faults.row import Row

FULL = "/dev/full"


def full(name: str, rng: np.random.Generator, folder: Path) -> str | None:
    """No file can grow beyond some size, up to that of the largest one the command writes."""
    whole = prepared(name)
    work = Path(shutil.copytree(whole.folder, folder / "work"))
    done = run(work, name, 1, file_bytes=int(rng.uniform(0, 1.1) * whole.largest))
    if done.code == 0:
        return whole.wrong(work) or left_over(work) or _lacking(whole.new, work)
    return _unclear(done) or whole.wrong(work) or left_over(work)


def full_stdout(rng: np.random.Generator, folder: Path) -> str | None:
    """Standard output, or the file of -o, is a full device."""
    link = folder / "full"
    link.symlink_to(FULL)  # were the device replaced by a file, it would be the link here
    words, limits = {
        0: (["screen", ward()], {"stdout": FULL}),
        1: (["validate", ward()], {"stdout": FULL}),
        2: (["cache", "list"], {"stdout": FULL}),
        3: (["screen", ward(), "-o", link, "--format", "csv"], {}),
    }[int(rng.integers(4))]
    if words == ["cache", "list"]:
        commands().run(folder, "validate", ward())
    done = commands().run(folder, *words, **limits)
    if done.code != 1:
        return f"{words[0]} on a full device ended with {done.code}"
    return _unclear(done) or left_over(folder) or (None if link.is_char_device() else "the device was replaced")


def full_temporary(rng: np.random.Generator, folder: Path) -> str | None:
    """The folder for temporary files has no room for a large cohort, or the cache has none."""
    lines = 100 if rng.random() < 0.5 else 1 << 21
    done = commands().run(folder, "validate", ward(), memory_lines=lines, file_bytes=int(rng.uniform(0, 20_000)))
    said = "TMPDIR names another folder" if lines == 100 else "not cached, the cache folder cannot be written"
    if done.code != (1 if lines == 100 else 0) or said not in done.err:
        return f"it ended with {done.code}: {done.err[-300:]}"
    return left_over(folder)


def _unclear(done: Done) -> str | None:
    """Whether an error is other than a line of our own that says what could not be written."""
    last = done.err.rstrip("\n").split("\n")[-1]
    if (
        done.code == 1
        and last.startswith("levyscreen: ")
        and "could not be written" in last
        and "Trace" not in done.err
    ):
        return None
    return f"it ended with {done.code}: {done.err[-300:]}"


def _lacking(new: dict[str, bytes], work: Path) -> str | None:
    """What a command that claims success did not write."""
    found = files(work)
    bad = [path for path, data in new.items() if Path(path).name not in VARYING and found.get(path) != data]
    return f"it claims success, but {bad[0]} is not the new one" if bad else None


ROWS: tuple[Row, ...] = (
    *(
        Row(f"disk full in {name}", "one clear line, exit 1, old output intact, no temporary left", attempt, *tries)
        for name, attempt, tries in (
            (name, partial(full, name), tries)
            for name, tries in {
                "screen": (3, 30),
                "continuum": (3, 30),
                "train": (3, 30),
                "calibrate": (3, 30),
                "study": (5, 100),
            }.items()
        )
    ),
    Row("standard output or -o is a full device", "one clear line, exit 1", full_stdout, 4, 40),
    Row("no room for the cache or a large cohort", "not cached, and said; or one clear line", full_temporary, 4, 50),
)
