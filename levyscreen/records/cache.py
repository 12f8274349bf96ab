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
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from levyscreen.errors import CohortError
from levyscreen.names import expanded
from levyscreen.records.archives import Others, Source, Stamp, open_source, read_source
from levyscreen.records.assemble import READER_VERSION, assemble
from levyscreen.records.cohort import Cohort
from levyscreen.records.grammar import GRAMMAR_VERSION
from levyscreen.records.mapped.mapping import Mapping, is_mapping, read_mapping
from levyscreen.records.mapped.reading import MAPPED_VERSION, read_mapped
from levyscreen.records.mapped.tables import is_table, stamps, table_files
from levyscreen.records.parquet import (
    FORMAT_VERSION,
    is_parquet_cohort,
    name_of,
    read_parquet,
    write_cohort,
    write_files,
)
from levyscreen.records.physionet2012 import read_parts
from levyscreen.temporaries import aside, folder_beside
from levyscreen.temporaries import sweep as sweep_folder
from levyscreen.variables import PHYSIONET2012, VariableSet

__all__ = ["CacheEntry", "cache_entries", "cache_folder", "clear_cache", "read_cohort", "write_cohort"]

FOLDER_VARIABLE = "LEVYSCREEN_CACHE_DIR"
# Two edits within one tick of the clock that stamps files get one time; a listing must be older than that.
TICK_SECONDS = 0.02

_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class CacheEntry:
    """One cached cohort."""

    name: str  # of the cohort when it was read; "(damaged)" where that cannot be told
    bytes: int
    time: float  # when it was written, seconds since 1970
    folder: Path


def read_cohort(path: str | os.PathLike[str], *, cache: bool = True, variables: VariableSet | None = None) -> Cohort:
    """Read a folder of PhysioNet-2012 record files, an archive of one, a mapping file, or a Parquet cohort of ours.

    A record file that cannot be read becomes a row of `records` with its problem; the others go on. With `cache`, a
    second reading of unchanged files opens what the first one kept. `variables` are those of the mapping or the Parquet
    cohort and else PHYSIONET2012, unless others are given.

    Raises CohortError if nothing is there, nothing in it is a record, an archive is refused, a mapping and its source
    do not fit, a table comes without a mapping, or a Parquet cohort is damaged or of other variables than those given.
    """
    where = expanded(path)
    if is_parquet_cohort(where):
        return read_parquet(where, variables)
    if is_mapping(where):
        mapping = read_mapping(where)
        return _kept_or_read(mapping_listing(mapping), mapping.variables, cache, lambda _: read_mapped(mapping))
    if is_table(where):
        raise CohortError(
            f"{where}: a table needs a mapping; levyscreen map {where} writes a first one, to give instead"
        )
    known = variables or PHYSIONET2012
    return _kept_or_read(_settled(lambda: open_source(where)), known, cache, lambda source: _read(source, known))


def mapping_listing(mapping: Mapping) -> Source:
    """What stands for the source of a mapping: its text, and every file that it names."""
    digest = hashlib.blake2b(mapping.text.encode(), digest_size=16).hexdigest()
    text = Stamp(digest, len(mapping.text), MAPPED_VERSION, 0, None)

    def listing() -> Source:
        files = tuple(stamp for part in mapping.parts for stamp in stamps(table_files(part.source, part.kind)))
        files += stamps(table_files(mapping.static.source, "")) if mapping.static is not None else ()
        return Source(mapping.source, mapping.name, (text, *files), is_archive=False)

    return _settled(listing)


def _kept_or_read(source: Source, variables: VariableSet, cache: bool, read: Callable[[Source], Cohort]) -> Cohort:
    """The cohort as the cache holds it, else read anew and kept there."""
    if not cache:
        return read(source)
    entry = _entries_folder() / cache_key(source, variables)
    sweep()
    known, damage = _look_up(entry, source, variables)
    if known is not None:
        return known
    cohort = read(source)
    said = [note for note in (damage, _keep(entry, cohort)) if note]
    return replace(cohort, notes=(*cohort.notes, *said))


def _read(source: Source, variables: VariableSet) -> Cohort:
    others = Others()
    cohort = assemble(read_parts(read_source(source, others), variables), source.name, variables)
    return replace(cohort, notes=(*cohort.notes, *others.note(source)))


def _settled(listing: Callable[[], Source]) -> Source:
    """The listing of a cohort, taken again if a file changed so lately that its next change could look the same."""
    source = listing()
    age = time.time() - max(s.ctime_ns for s in source.stamps) / 1e9
    if not 0 <= age < TICK_SECONDS:
        return source
    time.sleep(TICK_SECONDS)
    return listing()


def cache_key(source: Source, variables: VariableSet) -> str:
    """Name of a cohort's entry; changes with the reader, the variable table, and any file's name, size or time."""
    head = json.dumps(
        [READER_VERSION, GRAMMAR_VERSION, FORMAT_VERSION, variables.to_json(), source.is_archive], sort_keys=True
    )
    digest = hashlib.blake2b(head.encode(), digest_size=16)
    for stamp in source.stamps:
        digest.update(repr(tuple(stamp)).encode())
    return digest.hexdigest()


def _look_up(entry: Path, source: Source, variables: VariableSet) -> tuple[Cohort | None, str | None]:
    """The cohort that an entry holds, or None; and what to say if the entry was there and damaged."""
    for _ in range(2):  # another process may clear the entry, or replace it, while it is being read
        if not os.path.isdir(entry):
            return None, None
        try:
            return replace(read_parquet(entry, variables), name=source.name), None
        except CohortError:
            continue
    _discard(entry)
    return None, "the cached copy of this cohort was damaged; the files were read again"


def _keep(entry: Path, cohort: Cohort) -> str | None:
    """Write an entry, or say why it was not written; another process that came first wins."""
    try:
        for folder in (cache_folder(), entry.parent):  # one by one: what mkdir makes on the way has no mode
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folder_beside(entry) as temporary:
            write_files(cohort, temporary)
            if not os.path.isdir(entry):
                os.rename(temporary, entry)
    except OSError as error:
        return None if os.path.isdir(entry) else f"not cached, the cache folder cannot be written: {error.strerror}"
    return None


# Looking after the cache --------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """$LEVYSCREEN_CACHE_DIR, else the platform's folder for what may be deleted at any time."""
    named = os.environ.get(FOLDER_VARIABLE)
    return expanded(named) if named else Path(platformdirs.user_cache_dir("levyscreen"))


def _entries_folder() -> Path:
    return cache_folder() / "cohorts"


def cache_entries() -> list[CacheEntry]:
    """Every cached cohort, the newest first."""
    folder = _entries_folder()
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CohortError(
            f"{folder}: the cache cannot be read: {error.strerror}; set ${FOLDER_VARIABLE} to another folder"
        ) from error
    return sorted((_describe(folder / n) for n in names if _KEY.fullmatch(n)), key=lambda e: -e.time)


def clear_cache() -> list[CacheEntry]:
    """Delete every cached cohort and stray temporary, and nothing else; gives what was deleted."""
    entries = cache_entries()
    for entry in entries:
        _discard(entry.folder)
    sweep()
    return entries


def sweep() -> None:
    """Delete temporaries that killed processes left."""
    sweep_folder(_entries_folder())


def _discard(entry: Path) -> None:
    """Take an entry out of use in one step, then delete it: a reader sees all of it or nothing."""
    away = aside(entry)
    try:
        os.rename(entry, away)
    except OSError:  # another process did, or the folder cannot be written
        return
    shutil.rmtree(away, ignore_errors=True)


def _describe(entry: Path) -> CacheEntry:
    try:
        sizes = [p.stat().st_size for p in entry.iterdir()]
        return CacheEntry(name_of(entry) or "(damaged)", sum(sizes), entry.stat().st_mtime, entry)
    except OSError:
        return CacheEntry("(damaged)", 0, 0.0, entry)
