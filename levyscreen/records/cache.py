"""`read_cohort`, and the cache that makes a second reading of the same files fast.

An entry is a Parquet cohort in a folder named by its key. It is written under a temporary name and renamed once whole,
so a killed process leaves an old entry, a new one, or a stray temporary that the next start sweeps.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from levyscreen.errors import CohortError
from levyscreen.records.archives import Source, open_source, read_source
from levyscreen.records.assemble import READER_VERSION, assemble
from levyscreen.records.cohort import Cohort
from levyscreen.records.parquet import (
    FORMAT_VERSION,
    is_parquet_cohort,
    name_of,
    read_parquet,
    write_cohort,
    write_files,
)
from levyscreen.records.physionet2012 import read_parts
from levyscreen.variables import PHYSIONET2012, VariableSet

__all__ = ["CacheEntry", "cache_entries", "cache_folder", "clear_cache", "read_cohort", "write_cohort"]

FOLDER_VARIABLE = "LEVYSCREEN_CACHE_DIR"
STRAY_SECONDS = 3600  # no write takes an hour: an older temporary was left by a killed process
CLEAR_SECONDS = 60  # who clears the cache wants the space now, but should not disturb a process that writes
# Two edits within one tick of the clock that stamps files get one time; a listing must be older than that.
TICK_SECONDS = 0.02

_TEMPORARY = ".tmp-"
_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class CacheEntry:
    """One cached cohort."""

    name: str  # of the cohort when it was read; "(damaged)" where that cannot be told
    bytes: int
    time: float  # when it was written, seconds since 1970
    folder: Path


def read_cohort(path: str | os.PathLike[str], *, cache: bool = True, variables: VariableSet = PHYSIONET2012) -> Cohort:
    """Read a folder of PhysioNet-2012 record files, an archive of one, or a Parquet cohort that levyscreen wrote.

    A record file that cannot be read becomes a row of `records` with its problem; the others go on. With `cache`, a
    second reading of unchanged files opens what the first one kept.

    Raises CohortError if nothing is there, nothing in it is a record, an archive is refused, or a Parquet cohort is
    damaged or of other variables.
    """
    where = Path(path).expanduser()
    if is_parquet_cohort(where):
        return read_parquet(where, variables)
    source = _settled(where)
    if not cache:
        return _read(source, variables)
    entry = _entries_folder() / cache_key(source, variables)
    sweep()
    known, damage = _look_up(entry, source, variables)
    if known is not None:
        return known
    cohort = _read(source, variables)
    said = [note for note in (damage, _keep(entry, cohort)) if note]
    return replace(cohort, notes=(*cohort.notes, *said))


def _read(source: Source, variables: VariableSet) -> Cohort:
    return assemble(read_parts(read_source(source), variables), source.name, variables)


def _settled(path: Path) -> Source:
    """The listing of a cohort, taken again if a file changed so lately that its next change could look the same."""
    source = open_source(path)
    age = time.time() - max(s.ctime_ns for s in source.stamps) / 1e9
    if not 0 <= age < TICK_SECONDS:
        return source
    time.sleep(TICK_SECONDS)
    return open_source(path)


def cache_key(source: Source, variables: VariableSet) -> str:
    """Name of a cohort's entry; changes with the reader, the variable table, and any file's name, size or time."""
    head = json.dumps([READER_VERSION, FORMAT_VERSION, variables.to_json(), source.is_archive], sort_keys=True)
    digest = hashlib.blake2b(head.encode(), digest_size=16)
    for stamp in source.stamps:
        digest.update(repr(tuple(stamp)).encode())
    return digest.hexdigest()


def _look_up(entry: Path, source: Source, variables: VariableSet) -> tuple[Cohort | None, str | None]:
    """The cohort that an entry holds, or None; and what to say if the entry was there and damaged."""
    for _ in range(2):  # another process may clear the entry, or replace it, while it is being read
        if not entry.is_dir():
            return None, None
        try:
            return replace(read_parquet(entry, variables), name=source.name), None
        except CohortError:
            continue
    _discard(entry)
    return None, "the cached copy of this cohort was damaged; the files were read again"


def _keep(entry: Path, cohort: Cohort) -> str | None:
    """Write an entry, or say why it was not written; another process that came first wins."""
    temporary = None
    try:
        for folder in (cache_folder(), entry.parent):  # with `parents`, those above would have the umask's mode
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=entry.parent))
        write_files(cohort, temporary)
        if not entry.is_dir():
            os.rename(temporary, entry)
    except OSError as error:
        return None if entry.is_dir() else f"not cached, the cache folder cannot be written: {error.strerror}"
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return None


# Looking after the cache --------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """$LEVYSCREEN_CACHE_DIR, else the platform's folder for what may be deleted at any time."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("levyscreen"))


def _entries_folder() -> Path:
    return cache_folder() / "cohorts"


def cache_entries() -> list[CacheEntry]:
    """Every cached cohort, the newest first."""
    folder = _entries_folder()
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted((_describe(folder / n) for n in names if _KEY.fullmatch(n)), key=lambda e: -e.time)


def clear_cache() -> list[CacheEntry]:
    """Delete every cached cohort and stray temporary, and nothing else; gives what was deleted."""
    entries = cache_entries()
    for entry in entries:
        _discard(entry.folder)
    sweep(CLEAR_SECONDS)
    return entries


def sweep(older_than_seconds: float = STRAY_SECONDS) -> None:
    """Delete temporaries that killed processes left."""
    folder = _entries_folder()
    for name in os.listdir(folder) if folder.is_dir() else []:
        if name.startswith(_TEMPORARY) and _age(folder / name) >= older_than_seconds:
            shutil.rmtree(folder / name, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # another process swept it
        return -1.0


def _discard(entry: Path) -> None:
    """Take an entry out of use in one step, then delete it: a reader sees all of it or nothing."""
    aside = entry.with_name(f"{_TEMPORARY}{entry.name}-{os.getpid()}-{time.time_ns()}")
    try:
        os.rename(entry, aside)
    except OSError:  # another process did, or the folder cannot be written
        return
    shutil.rmtree(aside, ignore_errors=True)


def _describe(entry: Path) -> CacheEntry:
    try:
        sizes = [p.stat().st_size for p in entry.iterdir()]
        return CacheEntry(name_of(entry) or "(damaged)", sum(sizes), entry.stat().st_mtime, entry)
    except OSError:
        return CacheEntry("(damaged)", 0, 0.0, entry)
