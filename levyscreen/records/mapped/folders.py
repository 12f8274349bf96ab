"""Folders in which tables may be, for one who says so."""

from __future__ import annotations

import os
import re
from pathlib import Path

from levyscreen.records.archives import is_document
from levyscreen.records.mapped.tables import ending_of, is_table, listing

_RECORD = re.compile(r"[0-9]+\.txt")


def may_be_tables(folder: Path) -> bool:
    """Whether a folder holds tables for one who says so: texts of any name that is no record file's are tables then."""
    if is_table(folder):
        return True
    if not os.path.isdir(folder):
        return False
    names = [name for name in listing(folder) if not name.startswith(".") and not is_document(name)]
    return any(map(ending_of, names)) and not any(_RECORD.fullmatch(name) for name in names)


def folders_of_tables(path: Path) -> list[Path]:
    """Folders in a folder, or in those, that hold tables; relative to it, by name."""
    inner = _folders_in(path)
    inner += [each for folder in inner for each in _folders_in(folder)]
    return [each.relative_to(path) for each in inner if os.access(each, os.R_OK) and is_table(each)]


def _folders_in(path: Path) -> list[Path]:
    if not os.path.isdir(path) or not os.access(path, os.R_OK):
        return []
    return sorted(path / name for name in os.listdir(path) if os.path.isdir(path / name) and not name.startswith("."))
