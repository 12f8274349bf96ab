"""Which rule of a mapping reads a value: by the value's code and, where a column says units, by its unit."""

from __future__ import annotations

import re

from levyscreen.errors import CohortError
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
                f"{self.mapping.path}: the code {code!r} fits the patterns of {names}; give it to one by name"
            )
        if fitting:
            return fitting[0]
        called = in_unit(code, unit) if named else code
        return self.IGNORED if any(form.fullmatch(called) for form in self._ignored) else self.UNKNOWN

    def _fitting(self, code: str) -> list[int]:
        return sorted({i for form, i in self._patterns if form.fullmatch(code)})

    def _taking(self, named: list[int], unit: str) -> list[int]:
        """Of some rules those that take a unit: by name or, where none does, whatever it is."""
        rules = self.mapping.rules
        by_name = [i for i in named if rules[i].units is not None and rules[i].takes(unit)]
        return by_name or [i for i in named if rules[i].units is None]


def in_unit(code: str, unit: str) -> str:
    """A code and the unit of some of its values, as notes and [ignore] name them."""
    return f"{code} [{unit or 'no unit'}]"


def pattern(code: str) -> re.Pattern[str]:
    r"""A code as a pattern, in which * stands for any text, \* for a star and everything else for itself."""
    return re.compile(".*".join(re.escape(part.replace(r"\*", "*")) for part in _STAR.split(code)), re.DOTALL)


def literal(code: str) -> str:
    """What a mapping is to say for this very code."""
    return code.replace("*", r"\*")
