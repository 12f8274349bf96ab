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

MOST_LINKS = 40  # one after the other, as the kernel has it

_OPEN_FILE = re.compile(r"/dev/(stdin|stdout|stderr|fd/)|/proc/")
_NAME = re.compile(r"\..+\.([0-9]+)@(.+)\.tmp")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed to it on success, removed on any failure.

    A link stays, and what it leads to is replaced. A device or a pipe is written to as it is, and so is what stands for
    an open file, such as /dev/stdout: a rename would put a file in its place.
    """
    path = _led_to(path)
    temporary = path.with_name(f".{path.name}.{_owner()}.tmp")
    _make_ready(path.parent)
    try:
        if _is_open_file(path) or (path.exists() and not (path.is_file() or path.is_dir())):
            yield path
            return
        with undoing(lambda: temporary.unlink(missing_ok=True)):
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        raise LevyscreenError(f"{path} could not be written: {error.strerror or error}") from error


def _make_ready(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
    except OSError as error:
        raise LevyscreenError(f"folder {folder} could not be made: {error.strerror or error}") from error


def _led_to(path: Path) -> Path:
    """The end of a chain of links, or in it what stands for an open file."""
    for _ in range(MOST_LINKS):
        if _is_open_file(path) or not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    return path


def _is_open_file(path: Path) -> bool:
    return bool(_OPEN_FILE.match(os.path.abspath(path)))


@contextmanager
def together(folder: Path) -> Iterator[Path]:
    """A folder to write files to, all of which are moved into `folder` at the end, or none where one failed."""
    _make_ready(folder)
    try:
        with folder_beside(folder / "files") as temporary:
            try:
                yield temporary
            except LevyscreenError as error:  # which file it was, by the name that it was to have
                raise LevyscreenError(str(error).replace(str(temporary), str(folder))) from error
            for path in sorted(temporary.iterdir()):
                os.replace(path, folder / path.name)
    except OSError as error:
        raise LevyscreenError(f"{folder} could not be written: {error.strerror or error}") from error


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
    names = []
    with suppress(OSError):  # it is not there, or closed to us
        names = os.listdir(folder)
    for name in names:
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
