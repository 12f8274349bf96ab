"""Commands that replace what an earlier one wrote, and what may be found after one that was cut off: no part of a file.

Each runs in a folder of its own that holds the old outputs; the same command, run whole, has given the new ones.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import SAMPLE
from tests.faults.forks import Done, commands

# With seconds in them, or the folder's own name: no two runs write the same.
VARYING = {
    "timing.json",
    "continuum-timing.json",
    "last.json",
    "config.json",
    "training.safetensors",
    "manifest.json",
    "screening.json",
}
RECORDS = slice(4, 32)  # the shortest of the sample that have readings enough
KEPT = "kept-1"  # the Parquet cohort that `validate` writes


@cache
def temporary() -> Path:
    """A folder for this process."""
    folder = Path(tempfile.mkdtemp(prefix="levyscreen-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def ward() -> Path:
    """A small cohort."""
    folder = temporary() / "ward"
    folder.mkdir()
    for path in sorted(SAMPLE.iterdir(), key=lambda path: (path.stat().st_size, path.name))[RECORDS]:
        shutil.copy(path, folder)
    return folder


def job(name: str, seed: int) -> dict[str, Any]:
    """A command whose outputs differ by the seed."""
    words = {
        "screen": ["screen", ward(), "--seed", seed, "-o", "table.csv", "--queries"],
        "continuum": ["continuum", ward(), "--grid", 12, "--variables", "HR,MAP", "--level", (0.8, 0.9)[seed]],
        "train": [seed],
        "calibrate": ["calibrate", "m", ward(), "--by", ("nothing", "variable")[seed]],
        "validate": ["validate", ward(), "--write", f"kept-{seed}"],
        "study": [seed],
    }
    script = {"train": {"script": "train_tiny"}, "study": {"script": "write_result"}}
    return {"words": [str(word) for word in words[name]], **script.get(name, {})}


def run(folder: Path, name: str, seed: int, **limits: Any) -> Done:
    """The command, in a folder."""
    start(folder, name, seed, **limits)
    return commands().end()


def start(folder: Path, name: str, seed: int, **limits: Any) -> int:
    """The same, not waited for: its process."""
    what = job(name, seed)
    return commands().start(folder, *what.pop("words"), **what, **limits)


def files(folder: Path) -> dict[str, bytes]:
    """Every file a command has written to its folder, the cache apart, temporaries included."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] != "cache")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@dataclass(frozen=True)
class Prepared:
    """A command run once."""

    name: str
    folder: Path  # with the old outputs, and no cache
    old: dict[str, bytes]
    new: dict[str, bytes]
    seconds: float  # that the new run takes

    @property
    def largest(self) -> int:
        """Bytes of the largest file that the new run writes."""
        return max(len(data) for path, data in self.new.items() if self.old.get(path) != data)

    def wrong(self, folder: Path) -> str | None:
        """What is neither old nor new in a folder, or lacking; temporaries are not looked at."""
        found = files(folder)
        for path, data in found.items():
            if Path(path).name in VARYING:
                if path.endswith(".json") and not _is_json(data):
                    return f"{path} is not whole"
            elif not is_temporary(path) and data not in (self.old.get(path), self.new.get(path)):
                return f"{path} is neither the old one nor the new one"
        # Between its two renames a continuum is nowhere by its name; the next start puts the old one back.
        lacking = self.old.keys() - {path.replace(".continuum.old", "continuum") for path in found}
        if any(path.startswith(KEPT) for path in found):  # a folder that is new as a whole
            lacking |= {path for path in self.new if path.startswith(KEPT)} - found.keys()
        return f"{min(lacking)} is gone" if lacking else None

    def wrong_after_next_start(self, folder: Path) -> str | None:
        """Runs the command again: what is not as it should be then, or left over."""
        shutil.rmtree(folder / KEPT, ignore_errors=True)  # which is never replaced
        done = run(folder, self.name, 1)
        if done.code or "damaged" in done.err:
            return f"the next start ended with {done.code}: {done.err[-300:]}"
        found = files(folder)
        if found.keys() != self.new.keys():
            return f"other files after the next start: {sorted(found.keys() ^ self.new.keys())}"
        other = [path for path in found if Path(path).name not in VARYING and found[path] != self.new[path]]
        return f"{other[0]} is not the new one after the next start" if other else left_over(folder)


@cache
def prepared(name: str) -> Prepared:
    """A command with its old and new outputs and its usual duration."""
    folder = temporary() / name
    folder.mkdir()
    if name == "calibrate":
        _succeed(folder, "train", 0)
    _succeed(folder, name, 0)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    old, again = files(folder), Path(shutil.copytree(folder, f"{folder}-again"))
    began = time.perf_counter()
    _succeed(again, name, 1)
    return Prepared(name, folder, old, files(again), time.perf_counter() - began)


def left_over(folder: Path) -> str | None:
    """A temporary in the folder, its cache included."""
    found = [str(p.relative_to(folder)) for p in folder.rglob("*") if is_temporary(str(p.relative_to(folder)))]
    return f"left over: {min(found)}" if found else None


def is_temporary(path: str) -> bool:
    return any(part.startswith(".") for part in Path(path).parts) or path.startswith("tmp/")


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _succeed(folder: Path, name: str, seed: int) -> None:
    done = run(folder, name, seed)
    assert done.code == 0, done.err
