"""What a process writes before it is whole: under a temporary name, which no end of the process leaves for long.

A failure removes it at once, a stopped command (cli/entry.py) as it ends, and after a kill the next write beside it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levyscreen.errors import LevyscreenError
from levyscreen.pending import undoing

STRAY_SECONDS = 86_400  # of a process on another machine, or where another has got the number of a dead one

_NAME = re.compile(r"\..+\.([0-9]+)@(.+)\.tmp")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed to it on success, removed on any failure.

    A link stays, and what it leads to is replaced. A device or a pipe is written to as it is, and so is what stands for
    an open file, such as /dev/stdout: a rename would put a file in its place.
    """
    stands_for_another = path.absolute().parts[:2] in (("/", "dev"), ("/", "proc"))
    if path.is_symlink() and not stands_for_another:
        path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{_owner()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
    except OSError as error:
        raise LevyscreenError(f"folder {path.parent} could not be made: {error.strerror or error}") from error
    try:
        if stands_for_another or (path.exists() and not (path.is_file() or path.is_dir())):
            yield path
            return
        with undoing(lambda: temporary.unlink(missing_ok=True)):
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        raise LevyscreenError(f"{path} could not be written: {error.strerror or error}") from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, for its owner alone; removed at the end unless it was renamed by then."""
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=f".{_owner()}.tmp", dir=path.parent))
    with undoing(lambda: shutil.rmtree(folder, ignore_errors=True)):
        yield folder


def aside(path: Path) -> Path:
    """A temporary name of this process for what is taken out of use before it is deleted."""
    return path.with_name(f".{path.name}-{time.time_ns()}.{_owner()}.tmp")


def sweep(folder: Path, older_than_seconds: float = STRAY_SECONDS) -> None:
    """Deletes what killed processes left in a folder."""
    for name in os.listdir(folder) if folder.is_dir() else []:
        found = _NAME.fullmatch(name)
        if found and (_is_dead(*found.groups()) or _age(folder / name) >= older_than_seconds):
            _remove(folder / name)


def _owner() -> str:
    return f"{os.getpid()}@{platform.node()}"


def _is_dead(pid: str, machine: str) -> bool:
    """Whether a process of this machine has ended; of another machine's nothing is known."""
    if machine != platform.node() or sys.platform == "win32":  # where os.kill would end the process
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is another user's
        return False
    return False


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # another process swept it
        return -1.0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
