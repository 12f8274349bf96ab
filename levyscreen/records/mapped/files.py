"""The files of a mapped source: a table, a folder of them, the parts of a partitioned one, or MEDS's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.archives import OWN_RESULTS, Stamp, is_document
from levyscreen.records.mapped.partitions import Partition, is_partition, parts
from levyscreen.records.mapped.sheets import EXCEL

DELIMITERS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".psv": "|"}
PARQUET = ".parquet"
PACKED = ".gz"
LOCKED = "~$"  # begins the name of what Excel lays beside a workbook that is open
_ENDINGS = f"{', '.join(DELIMITERS)} (also {PACKED}), {PARQUET} or {EXCEL}"
MEDS_DATA = "data"


@dataclass(frozen=True)
class TableFile:
    """One file of a source."""

    path: Path
    name: str  # within the source, made printable
    ending: str  # a key of DELIMITERS, PARQUET or EXCEL
    partition: Partition = ()  # what the names of its folders say of all of its rows


def ending_of(name: str) -> str | None:
    """The ending by which a file is known as a table, without that of packing; None where it is no table."""
    plain = name.lower().removesuffix(PACKED)
    found = next((e for e in DELIMITERS if plain.endswith(e)), None)
    return found or next((ending for ending in (PARQUET, EXCEL) if name.lower().endswith(ending)), None)


def is_table(path: Path) -> bool:
    """Whether a path names a table, or a folder of tables, rather than record files or an archive of them.

    Raises CohortError for a folder that is closed to us.
    """
    if not os.path.isdir(path):
        return (ending_of(path.name) or ".txt") != ".txt" and os.path.isfile(path)
    if os.path.isdir(path / MEDS_DATA) and any((path / MEDS_DATA).rglob(f"*{PARQUET}")):
        return True
    if any(ending_of(file.name) for file, _ in parts(path)):
        return True
    names = [name for name in listing(path) if not name.startswith(".") and not is_document(name)]
    return not any(name.endswith(".txt") for name in names) and any(map(ending_of, names))


def listing(folder: Path) -> list[str]:
    """What is in a folder. Raises CohortError where it is closed to us."""
    try:
        return os.listdir(folder)
    except OSError as error:
        raise CohortError(f"{folder}: cannot be opened: {error.strerror}") from error


def table_files(source: Path, kind: str) -> list[TableFile]:
    """The tables of a file, a folder, or below the data folder of MEDS; by name.

    Raises CohortError where there is none, or a folder holds tables of more than one kind.
    """
    if not os.path.exists(source):
        raise CohortError(
            f"{source}: no such file or folder; set source in the mapping, relative to the mapping's folder"
        )
    if os.path.isfile(source):
        found = [(source, source.name)]
    elif kind == "meds":
        paths = (source / MEDS_DATA).rglob(f"*{PARQUET}")
        found = [(path, str(path.relative_to(source))) for path in paths if path.is_file()]
    else:
        names = listing(source)
        found = [(source / n, n) for n in names if os.path.isfile(source / n) and not is_document(n)]
    files = [
        TableFile(path, printable(name), ending_of(name) or "") for path, name in sorted(found, key=lambda f: f[1])
    ]
    files = [file for file in files if file.ending and not Path(file.name).name.startswith((".", LOCKED))]
    files = files or (_partitioned(source) if kind != "meds" else [])
    if not files:
        wanted = f"a folder {MEDS_DATA} with {PARQUET} files" if kind == "meds" else _ENDINGS
        raise CohortError(f"{source}: no table there; a source is {wanted}")
    named = {file.name for file in files}
    if twice := [name for name in sorted(named) if f"{name}{PACKED}" in named]:
        raise CohortError(f"{source}: holds {twice[0]} twice, once packed as {twice[0]}{PACKED}: take one of them away")
    endings = sorted({file.ending for file in files})
    if len(endings) > 1:
        raise CohortError(
            f"{source}: holds {' and '.join(endings)} files: put the tables of one kind into their own folder, "
            "or set source to one file"
        )
    return files


def _partitioned(source: Path) -> list[TableFile]:
    found = [(path, path.relative_to(source).as_posix(), said) for path, said in parts(source)]
    return [TableFile(p, printable(name), ending, said) for p, name, said in found if (ending := ending_of(name))]


def passed_over(source: Path, kind: str) -> str | None:
    """A note on what a folder of tables holds besides, mappings aside; None for nothing, and where it is no folder."""
    if kind == "meds" or not os.path.isdir(source):
        return None
    names = listing(source)
    names = sorted(n for n in names if os.path.isdir(source / n) or not ending_of(n) or is_document(n))
    names = [n for n in names if not n.startswith(".") and not n.endswith(".toml") and n != OWN_RESULTS]
    if not any(map(ending_of, listing(source))):  # its tables are in the partitions
        names = [n for n in names if not is_partition(n)]
    if not names:
        return None
    where, one = printable(source.resolve().name), printable(names[0])
    return (
        f"{len(names)} of what is in {where} not read, such as {one}: tables are {_ENDINGS}, and lie in the folder "
        "itself"
    )


def stamps(files: Sequence[TableFile]) -> tuple[Stamp, ...]:
    """What changes whenever a file is edited. Raises CohortError for one that is gone."""
    found = []
    for file in files:
        try:
            of_file = os.stat(file.path)
        except OSError as error:
            raise CohortError(f"{file.path}: cannot be opened: {error.strerror}") from error
        found.append(Stamp(file.name, of_file.st_size, of_file.st_mtime_ns, of_file.st_ctime_ns, None))
    return tuple(found)
