"""Folders of tables in parts, as Hive, Spark and others write them: admission_year=2150/unit=icu/part-0.parquet.

What the folders' names say are columns of all rows in them, unless the files have columns of these names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_NULL = "__HIVE_DEFAULT_PARTITION__"
Partition = tuple[tuple[str, str | None], ...]  # columns and what they hold in all rows of a file


def is_partition(name: str) -> bool:
    """Whether a folder's name says what a column holds."""
    return _FOLDER.fullmatch(name) is not None and not name.startswith((".", "_"))


def partitions(folder: Path) -> list[Path]:
    """Folders in a folder whose names say what a column holds, by name; none where it is closed to us."""
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
        return []
    return sorted(folder / name for name in os.listdir(folder) if is_partition(name) and os.path.isdir(folder / name))


def parts(folder: Path, said: Partition = ()) -> Iterator[tuple[Path, Partition]]:
    """Every file below the partitions of a folder, with what the names of its folders say, by path."""
    for inner in partitions(folder):
        found = _FOLDER.fullmatch(inner.name)
        assert found is not None  # see is_partition
        own = (*said, (unquote(found[1]), None if found[2] == _NULL else unquote(found[2])))
        for name in sorted(os.listdir(inner)):
            if os.path.isfile(inner / name) and not name.startswith((".", "_")):
                yield inner / name, own
        yield from parts(inner, own)
