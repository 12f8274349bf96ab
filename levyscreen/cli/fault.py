"""What is said of an exception that nobody meant: where it arose, and none of the values that may stand in it.

An exception's own text often quotes what it stumbled over, which here may be a reading or an id of a patient.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

DEBUG = "LEVYSCREEN_DEBUG"


def is_debugging() -> bool:
    """Whether the user asked to see everything."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def places(error: BaseException) -> str:
    """The kind of the exception and of what caused it, and the file, line and function of each call on the way."""
    kinds, cause = [type(error).__name__], error.__cause__ or error.__context__
    while cause is not None and len(kinds) < 5:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    calls = [f"  {_short(f.filename)}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    head = f"an unexpected fault, {' after '.join(kinds)}: this is a mistake in levyscreen, please report these lines"
    foot = f"  its text is left out, as it may quote a patient's data; {DEBUG}=1 shows all of it"
    return "\n".join([head, *calls, foot])


def _short(file: str) -> str:
    """The package and what is in it, without the folders above."""
    parts = Path(file).parts
    roots = [i for i, part in enumerate(parts) if part in ("site-packages", "levyscreen")]
    if not roots:
        return parts[-1]
    start = roots[-1] + (parts[roots[-1]] == "site-packages")
    return "/".join(parts[start:])
