"""Names that others chose, of files, folders, cohorts and variables, made inert where they are shown or written.

A name may hold an escape sequence that a terminal obeys, a formula that a spreadsheet runs, or a path that leads away.
"""

from __future__ import annotations

import os
from pathlib import Path

FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the start of one


def printable(text: str) -> str:
    """The same text with backslash escapes for bytes that are not UTF-8, and for whatever does not show.

    A newline is among these, and what turns the direction of writing: a name is never more than it looks.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a file name, as the system's functions hand it over
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with a leading ~ or ~user made a folder; as it is where there is no such user."""
    return Path(os.path.expanduser(path))


def counted(count: int, what: str) -> str:
    """So many of something: 1 record, 1,000 records, 2 passes."""
    return f"{count:,} {what}{'' if count == 1 else 'es' if what.endswith('s') else 's'}"


def file_name(text: str) -> str:
    """The same text as the name of a file or folder that stands where it is put."""
    plain = printable(text).replace("/", "_").replace("\\", "_")
    return plain if plain.strip(".") else f"cohort{plain}"


def cell(text: str) -> str:
    """The same text as one cell of a CSV file that no spreadsheet takes for a formula."""
    shown = printable(text)  # pandas leaves a lone carriage return unquoted, and the next cell begins after it
    return "'" + shown if shown.startswith(FORMULA) else shown
