"""Parameters of record files that are not known: told of in a note, for a misspelt one is else only a number.

By the place of the first and the known name that is most like it: the text itself may be a value or a patient's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from levyscreen.names import counted, printable

NAMED = 10
MOST_KEPT = 100_000  # names and files; a hostile cohort has no end of them
LONGEST = 40  # characters of what is compared with known names
ALIKE = 0.75
# By file and text: how many lines, and the number of the first.
Met = dict[tuple[int, str], tuple[int, int]]


def merged(parts: Iterable[Mapping[tuple[int, str], tuple[int, int]]]) -> Met:
    """All of several, those of one file and text together."""
    found: Met = {}
    for part in parts:
        for what, (count, line) in part.items():
            before, first = found.get(what, (0, line))
            found[what] = before + count, min(first, line)
    return found


class Unknown:
    """How often each unknown parameter stands in each file, and where first."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = {name.casefold(): name for name in known}
        self._met: Met = {}
        self._names: dict[int, str] = {}  # of the files

    def see(self, met: Met, names: Sequence[str], files_before: int) -> None:
        """Of a batch of files, with their names."""
        for (file, text), told in met.items():
            if len(self._met) < MOST_KEPT:
                self._met[file + files_before, text] = told
                self._names[file + files_before] = names[file]

    def notes(self, does_not_count: NDArray[np.bool_]) -> Iterator[str]:
        """The commonest of them; `does_not_count` (F,) says of which files no line counts."""
        found: dict[str, tuple[int, tuple[str, int]]] = {}  # by text: how many, and the first
        for (file, text), (count, line) in self._met.items():
            if not does_not_count[file]:
                before, first = found.get(text, (0, (self._names[file], line)))
                found[text] = before + count, min(first, (self._names[file], line))
        if not found:
            return
        order = sorted(found.items(), key=lambda item: (-item[1][0], item[1][1]))
        said = [self._told(text, count, *first) for text, (count, first) in order[:NAMED]]
        more = f"; and {len(order) - NAMED:,} more" if len(order) > NAMED else ""
        lines = counted(sum(count for count, _ in found.values()), "line")
        yield (
            f"{lines} of {counted(len(found), 'parameter')} that the model does not know, and so not read: "
            f"{'; '.join(said)}{more}"
        )

    def _told(self, text: str, count: int, file: str, line: int) -> str:
        near = difflib.get_close_matches(text[:LONGEST].casefold(), self._known, 1, ALIKE)
        like = f", which is much like {self._known[near[0]]}" if near else ""
        return f"that of {printable(file)}, line {line} ({count:,}){like}"
