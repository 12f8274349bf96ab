"""What a process writes before it is whole: under a temporary name, which no end of the process leaves for long.

A failure removes it at once, a stopped command (cli/entry.py) as it ends, and after a kill the next write beside it.
Names are random and files new, so that nobody can lay a link where one will be. A temporary is locked while its process
lives, whatever the process is called and in whatever container it runs.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levyscreen.errors import LevyscreenError
from levyscreen.pending import undoing

try:
    import fcntl
except ImportError:  # Windows, where what a killed process left stays
    fcntl = None  # type: ignore[assignment]

MOST_LINKS = 40  # one after the other, as the kernel has it

_OPEN_FILE = re.compile(r"/dev/(stdin|stdout|stderr|fd/)|/proc/")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_NAME = re.compile(r"\..+\.levyscreen-[0-9a-f]{16}\.tmp")
_sharing = False


def share(on: bool) -> None:
    """Whether what holds patients' values may from here on be read by whomever the umask lets."""
    global _sharing
    _sharing = on


def file_mode(shared: bool = False) -> int:
    """Of a new file: for its owner alone unless it is `shared`, or all are."""
    return 0o666 if shared or _sharing else 0o600


def _folder_mode(shared: bool = False) -> int:
    return 0o777 if shared or _sharing else 0o700


@contextmanager
def replacing(path: Path, shared: bool = True) -> Iterator[Path]:
    """A new file beside `path` to write to; renamed to it on success, removed on any failure.

    Not `shared` is what may hold a patient's values: for its owner alone, unless `share` was called. A link stays,
    and what it leads to is replaced. A device or a pipe is written to as it is, and so is what stands for an open file,
    such as /dev/stdout: a rename would put a file in its place.
    """
    path = _led_to(path)
    _make_ready(path.parent, shared)
    try:
        if _is_open_file(path) or (path.exists() and not (path.is_file() or path.is_dir())):
            yield path
            return
        with _new_file(path, file_mode(shared)) as temporary:
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        raise LevyscreenError(f"{path} could not be written: {error.strerror or error}") from error


@contextmanager
def _new_file(path: Path, mode: int) -> Iterator[Path]:
    with (
        _locked(path, lambda new: os.open(new, _NEW, mode)) as temporary,
        undoing(lambda: temporary.unlink(missing_ok=True)),
    ):
        yield temporary


@contextmanager
def _locked(path: Path, make: Callable[[Path], int]) -> Iterator[Path]:
    """A temporary beside `path`, made and opened by `make`, and locked until the end of the block or the process."""
    while True:
        temporary = aside(path)
        descriptor = make(temporary)
        try:
            if fcntl is not None:
                with suppress(OSError):  # a file system without locks, where nothing is swept either
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_there(temporary, descriptor):  # else it was swept before it was locked
                yield temporary
                return
        finally:
            os.close(descriptor)


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def private_folder(folder: Path, shared: bool = False) -> None:
    """Makes a folder and those above it that are lacking, for their owner alone unless `shared`."""
    for each in (*reversed(folder.parents), folder):
        with suppress(FileExistsError):
            if not each.is_dir():
                each.mkdir(_folder_mode(shared))
    folder.mkdir(exist_ok=True)  # raises where a file is there


def _make_ready(folder: Path, shared: bool) -> None:
    try:
        private_folder(folder, shared)
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
    _make_ready(folder, shared=False)
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

    def make(new: Path) -> int:
        new.mkdir(_folder_mode())
        return os.open(new, os.O_RDONLY)

    with _locked(path, make) as folder, undoing(lambda: shutil.rmtree(folder, ignore_errors=True)):
        yield folder


def aside(path: Path) -> Path:
    """A temporary name for what is taken out of use before it is deleted."""
    return path.with_name(f".{path.name}.levyscreen-{secrets.token_hex(8)}.tmp")


def sweep(folder: Path) -> None:
    """Deletes what killed processes left in a folder: temporaries that nobody holds locked."""
    names = []
    with suppress(OSError):  # it is not there, or closed to us
        names = os.listdir(folder)
    for name in names:
        if fcntl is not None and _NAME.fullmatch(name):
            _remove_if_dead(folder / name)


def _remove_if_dead(path: Path) -> None:
    """Unless a living process holds it; locked meanwhile, so that one that just made it sees that it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # a link, another user's, or swept by another process
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
