"""Variables of the environment that are called as ours are, and are none: said, for else they are silently ignored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from levyscreen.cli.crash import DEBUG

PREFIX = "LEVYSCREEN_"
OTHERS = (DEBUG, "LEVYSCREEN_CACHE_DIR", "LEVYSCREEN_VERSION", "_LEVYSCREEN_COMPLETE")


def notes(environment: Iterable[str], group: Any) -> Iterator[str]:
    """A sentence for each variable that no command of the group reads; not what is in it."""
    known = {*OTHERS, *_read_by(group, PREFIX)}
    for name in sorted(set(environment) - known):
        if name.startswith(PREFIX):
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else "; levyscreen COMMAND --help names those there are"
            yield f"the variable {name} is none of levyscreen's, and is ignored{meant}"


def _read_by(group: Any, prefix: str) -> Iterator[str]:
    """What the options of a group, and of its commands, fall back to."""
    for parameter in group.params:
        yield f"{prefix}{str(parameter.name).upper()}"
    for name, command in getattr(group, "commands", {}).items():
        yield from _read_by(command, f"{prefix}{name.upper().replace('-', '_')}_")
