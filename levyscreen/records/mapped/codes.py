"""Which rule of a mapping reads a value: by the value's code and, where a column says units, by its unit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from levyscreen.errors import CohortError
from levyscreen.records import quoting
from levyscreen.records.mapped.mapping import Mapping

_STAR = re.compile(r"(?<!\\)\*")


class Codes:
    """Which rule a code and its unit fall under: an exact code before a pattern, a variable before what is ignored."""

    UNKNOWN, IGNORED = -1, -2

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self._exact: dict[str, list[int]] = {}
        for i, rule in enumerate(mapping.rules):
            for code in rule.codes:
                self._exact.setdefault(code.replace(r"\*", "*"), []).append(i)
        self._patterns = [
            (pattern(code), i) for i, rule in enumerate(mapping.rules) for code in rule.codes if _STAR.search(code)
        ]
        self._ignored = [pattern(code) for code in mapping.ignored]
        self._known: dict[tuple[str, str], int] = {}

    def rule(self, code: str, unit: str = "") -> int:
        """Position in the mapping's rules, UNKNOWN or IGNORED. Raises CohortError where two patterns fit."""
        if (code, unit) not in self._known:
            self._known[code, unit] = self._look_up(code, unit)
        return self._known[code, unit]

    def label(self, code: str, unit: str) -> str:
        """What a value is called in a note: by its unit too, where that is why no rule takes it."""
        return in_unit(code, unit) if code and (code in self._exact or self._fitting(code)) else code

    def _look_up(self, code: str, unit: str) -> int:
        named = self._exact.get(code) or self._fitting(code)
        fitting = self._taking(named, unit)
        if len(fitting) > 1:
            names = " and ".join(self.mapping.rules[i].name for i in fitting)
            raise CohortError(
                f"{self.mapping.path}: one code fits the patterns of {names}: make them narrower, or give it to one by "
                "name"
            )
        if fitting:
            return fitting[0]
        called = in_unit(code, unit) if named else code
        return self.IGNORED if any(form.fits(called) for form in self._ignored) else self.UNKNOWN

    def shown(self, label: str) -> str | None:
        """A label as a note may have it; None where the mapping does not know it, for then it may be a value or id."""
        return quoting.shown(label, self._exact)

    def _fitting(self, code: str) -> list[int]:
        return sorted({i for form, i in self._patterns if form.fits(code)})

    def _taking(self, named: list[int], unit: str) -> list[int]:
        """Of some rules those that take a unit: by name or, where none does, whatever it is."""
        rules = self.mapping.rules
        by_name = [i for i in named if rules[i].units is not None and rules[i].takes(unit)]
        return by_name or [i for i in named if rules[i].units is None]


def in_unit(code: str, unit: str) -> str:
    """A code and the unit of some of its values, as notes and [ignore] name them."""
    return f"{code} [{unit or 'no unit'}]"


@dataclass(frozen=True)
class Pattern:
    """Texts in this order, with any text between two of them; the first begins a code and the last ends it."""

    parts: tuple[str, ...]

    def fits(self, code: str) -> bool:
        """Whether a code is such a text; each part is sought once, so that no pattern takes long."""
        first, *rest = self.parts
        if not rest:
            return code == first
        *between, last = rest
        if len(code) < len(first) + len(last) or not code.startswith(first) or not code.endswith(last):
            return False
        at, end = len(first), len(code) - len(last)
        for part in between:
            found = code.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


def pattern(code: str) -> Pattern:
    r"""A code as a pattern, in which * stands for any text, \* for a star and everything else for itself."""
    return Pattern(tuple(part.replace(r"\*", "*") for part in _STAR.split(code)))


def literal(code: str) -> str:
    """What a mapping is to say for this very code."""
    return code.replace("*", r"\*")
