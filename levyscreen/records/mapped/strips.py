"""A block of somebody's table as strips: for each row the rule that reads it, and the number it holds.

A long table, MEDS among them, is one strip; a wide one has a strip a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from levyscreen.records.mapped.cells import EMPTY, Numbers, Words, numbers, refuse_rounded, words
from levyscreen.records.mapped.codes import Codes
from levyscreen.records.mapped.mapping import FILE, STATIC, Mapping
from levyscreen.records.mapped.tables import Block


@dataclass(frozen=True)
class Strip:
    """Rows of a block, (N,) each."""

    code: Words
    rule: NDArray[np.int64]  # position in the mapping's rules, or Codes.UNKNOWN, Codes.IGNORED
    numbers: Numbers
    there: NDArray[np.bool_]  # False where a wide table has nothing
    column: str | None = None  # of a wide table, the one that holds the numbers


class Strips:
    """Makes strips of blocks, by a mapping."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping, self.codes = mapping, Codes(mapping)

    def of(self, block: Block) -> Iterator[Strip]:
        """The strips of a block. Raises CohortError for a mapped column that holds neither numbers nor texts."""
        columns = self.mapping.columns
        if self.mapping.kind not in ("wide", STATIC):
            assert columns.variable is not None  # see mapping
            assert columns.value is not None
            code = words(block.columns[columns.variable])
            refuse_rounded(block.columns[columns.variable], columns.variable, code)
            code, rule = self._ruled(code, None if columns.unit is None else words(block.columns[columns.unit]))
            yield self._strip(code, rule, block.columns[columns.value], columns.value, False)
            return
        qualifier = None if columns.variable is None else words(block.columns[columns.variable])
        for name in self.measured(block.columns):
            code = (
                Words(np.zeros(len(block.row), np.int64), [name]) if qualifier is None else _qualified(qualifier, name)
            )
            yield self._strip(*self._ruled(code), block.columns[name], name, True)

    def measured(self, names: Iterable[str]) -> list[str]:
        """Of a wide table's columns those that are no record, subject or time."""
        columns, time = self.mapping.columns, self.mapping.time
        roles = {columns.record, columns.subject, columns.time, columns.variable, time.column}
        return [name for name in names if name not in roles]

    def needed(self, names: list[str]) -> list[str]:
        """The columns to read of those there are, and those that should be there."""
        columns, time = self.mapping.columns, self.mapping.time
        roles = [
            columns.record,
            columns.subject,
            columns.time,
            columns.variable,
            time.column,
            columns.value,
            columns.unit,
        ]
        found = [name for name in dict.fromkeys(roles) if name is not None and name != FILE]
        return found + (self.measured(names) if self.mapping.kind in ("wide", STATIC) else [])

    def _ruled(self, code: Words, unit: Words | None = None) -> tuple[Words, NDArray[np.int64]]:
        """The rule of each row, (N,), and its code, which names the unit too where no rule takes that unit."""
        if unit is None:
            return code, np.array([self.codes.rule(word) for word in code.words])[code.which]
        pairs, which = np.unique(code.which * len(unit.words) + unit.which, return_inverse=True)
        said = [(code.words[i], unit.words[j]) for i, j in zip(*divmod(pairs, len(unit.words)), strict=True)]
        rules = np.array([self.codes.rule(*pair) for pair in said], dtype=np.int64)
        names = [self.codes.label(*pair) if rule < 0 else pair[0] for pair, rule in zip(said, rules, strict=True)]
        distinct = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return Words(np.array([distinct[name] for name in names], np.int64)[which], [*distinct, ""]), rules[which]

    def _strip(self, code: Words, rule: NDArray[np.int64], column: pa.Array, name: str, wide: bool) -> Strip:
        whose, every = name if wide else None, np.ones(len(rule), bool)
        if (rule < 0).all():  # whatever it holds, nobody reads it
            return Strip(code, rule, _unread(len(rule)), _filled(column) if wide else every, whose)
        called = f"that {self.mapping.rules[rule.max()].name} is read from" if wide else repr(name)
        found = self._with_texts(numbers(column, called, self.mapping.decimal), rule, code, column)
        return Strip(code, rule, found, ~found.empty if wide else every, whose)

    def _with_texts(self, found: Numbers, rule: NDArray[np.int64], code: Words, column: pa.Array) -> Numbers:
        """Where a rule gives numbers to texts: by the value's text, else, where there is none, by the code's."""
        with_values = [i for i in np.unique(rule).tolist() if i >= 0 and self.mapping.rules[i].values]
        if not with_values:
            return found
        value, refusal, empty = found.value.copy(), found.refusal.copy(), found.empty.copy()
        text = words(column)
        for index in with_values:
            known = self.mapping.rules[index].values
            by_text, by_code = (_looked_up(known, said) for said in (text, code))
            number = np.where(np.isnan(by_text) & found.empty, by_code, by_text)
            hit = (rule == index) & ~np.isnan(number)
            value[hit], refusal[hit], empty[hit] = number[hit], 0, False
        return Numbers(value, refusal, empty)


def _unread(count: int) -> Numbers:
    return Numbers(np.zeros(count), np.zeros(count, np.uint8), np.zeros(count, bool))


def _filled(column: pa.Array) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_floating(column.type):
        return there & ~np.isnan(column.to_numpy(zero_copy_only=False))
    if pt.is_string(column.type) or pt.is_large_string(column.type):
        found = words(column)
        return np.array([word.lower() not in EMPTY for word in found.words])[found.which]
    return there


def _qualified(qualifier: Words, name: str) -> Words:
    return Words(qualifier.which, [f"{word}/{name}" for word in qualifier.words])


def _looked_up(known: Dict[str, float], said: Words) -> NDArray[np.float64]:
    return np.array([known.get(word, np.nan) for word in said.words])[said.which]
