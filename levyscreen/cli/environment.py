"""Variables of the environment that are called as ours are, and are none: said, for else they are silently ignored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from levyscreen.cli.crash import DEBUG

PREFIX = "LEVYSCREEN_"
OTHERS = (DEBUG, "LEVYSCREEN_CACHE_DIR", "LEVYSCREEN_VERSION", "_LEVYSCREEN_COMPLETE")
ALIKE = 0.9  # of a name with another prefix, beyond which it is a misspelt one of ours


def notes(environment: Iterable[str], group: Any) -> Iterator[str]:
    """A sentence for each variable that no command of the group reads; not what is in it.

    Those of a prefix that is written otherwise are told too, where the whole is much like one that is read.
    """
    known = {*OTHERS, *_read_by(group, PREFIX)}
    for name in sorted(set(environment) - known):
        ours = name.upper().startswith(PREFIX)
        near = _nearest(name.upper(), known) if ours else _alike(name.upper(), known, ALIKE)
        if ours or near:
            meant = f"; did you mean {near}?" if near else "; levyscreen COMMAND --help names those there are"
            yield f"the variable {name} is none of levyscreen's, and is ignored{meant}"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The variable most like one of our prefix; where that leaves out the command, the first with such an option."""
    said, names = name.removeprefix(PREFIX), sorted(known, key=_screen_first)
    whole = next((each for each in names if each.endswith(f"_{said}")), None)
    near = _alike(said, (each.removeprefix(PREFIX) for each in names), 0.6)
    return whole or (near and PREFIX + near)


def _alike(name: str, known: Iterable[str], least: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), 1, least)), None)


def _screen_first(name: str) -> tuple[bool, str]:
    return not name.startswith(f"{PREFIX}SCREEN_"), name


def _read_by(group: Any, prefix: str) -> Iterator[str]:
    """What the options of a group, and of its commands, fall back to; arguments, such as COHORT, to nothing."""
    for parameter in group.params:
        if parameter.param_type_name == "option":
            yield f"{prefix}{str(parameter.name).upper()}"
    for name, command in getattr(group, "commands", {}).items():
        yield from _read_by(command, f"{prefix}{name.upper().replace('-', '_')}_")
