"""What is said of an error that nobody meant: where it happened, and nothing that may be out of a patient's record.

Python's own traceback ends with the error's message, and that often quotes a value: could not convert string to float,
KeyError of a record id.
"""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from levyscreen.cli.common import stderr

DEBUG = "LEVYSCREEN_DEBUG"
# Quoted text, and numbers that are not part of a name such as float32.
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|(?<!\w)[-+]?\d[\d.,:e+-]*""")


def report(error: BaseException) -> None:
    """The kind of an unforeseen error and its places; with LEVYSCREEN_DEBUG=1 its lines and masked messages too."""
    debug = os.environ.get(DEBUG) == "1"
    for line in _lines(error, debug):
        stderr(line)
    stderr("levyscreen: this is a bug; nothing was left half written")
    more = "" if debug else f"; with {DEBUG}=1 they would show the lines of code and what is safe of the message"
    stderr(f"Please report the lines above: they hold no reading and no record id{more}.")


def _lines(error: BaseException, debug: bool) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _lines(before, debug)
        yield "which led to"
    yield f"{type(error).__module__}.{type(error).__qualname__}" + (f": {masked(str(error))}" if debug else "")
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        if debug and frame.line:
            yield f"    {frame.line}"


def masked(message: str) -> str:
    """A message with all that may be data taken out: quoted text, and numbers."""
    return _VALUE.sub("...", message)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Our own warnings are meant to be read; another library's may quote a value, and is named with its place."""
    ours = category.__module__.partition(".")[0] == "levyscreen"
    stderr(f"warning: {message if ours else f'{category.__name__} at {filename}:{lineno}'}")


def prepare() -> None:
    """Warnings as above, for the whole process."""
    warnings.showwarning = show_warning
