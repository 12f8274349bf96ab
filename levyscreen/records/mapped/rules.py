"""The rules of a mapping: what is read as one variable or descriptor, from its table of the TOML file."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, field

from levyscreen.records.mapped.toml_table import Table
from levyscreen.records.units import canonical, same_unit


@dataclass(frozen=True)
class Mixed:
    """Values in [low, high], as they are written, are in another unit than the others of their rule."""

    low: float
    high: float
    factor: float
    offset: float


@dataclass(frozen=True)
class Rule:
    """What is read as one variable or descriptor: value * factor + offset of its codes, or the number of a text."""

    name: str
    target: int  # position among the variables and, after them, the facts
    codes: tuple[str, ...]  # of a wide table, columns; * stands for any text
    factor: float = 1.0
    offset: float = 0.0
    values: Dict[str, float] = field(default_factory=dict)
    units: tuple[str, ...] | None = None  # that the unit column must say; None takes those that no other rule takes
    mixed: Mixed | None = None

    def takes(self, unit: str) -> bool:
        """Whether values in that unit are of this rule, however the unit is written."""
        return self.units is None or any(same_unit(unit, own, self.name) for own in self.units)


def rules_of(table: Table, name: str, target: int, wide: bool, told: bool) -> list[Rule]:
    """The rule of a table, and those under its key `also`, whose codes come in other units; told by a column or not."""
    tables = [table, *table.tables("also")]
    rules = [_rule(each, name, target, wide) for each in tables]
    for each, rule in zip(tables, rules, strict=True):
        if rule.units == ():
            raise each.error("units", "is empty, and so takes no value: delete it to take every unit")
        if rule.units is not None and not told:
            raise each.error("units", "is for a table that says units: name that column as unit under [columns]")
        each.done()
    return rules


def _rule(table: Table, name: str, target: int, wide: bool) -> Rule:
    codes = codes_of(table, wide)
    factor, offset = table.number("factor", 1.0), table.number("offset", 0.0)
    if factor == 0:
        raise table.error("factor", "is 0, which would make every value the same")
    units = table.texts("units", None)
    codes = (name,) if codes is None else codes
    return Rule(name, target, codes, factor, offset, _values(table), units, _mixed(table))


def _mixed(table: Table) -> Mixed | None:
    if not table.has("mixed"):
        return None
    mixed = table.table("mixed")
    found = Mixed(mixed.number("low"), mixed.number("high"), mixed.number("factor", 1.0), mixed.number("offset", 0.0))
    if found.low > found.high or found.factor == 0:
        raise mixed.error(
            "low", "is above high, or factor is 0: values from low to high become value * factor + offset"
        )
    mixed.done()
    return found


def codes_of(table: Table, wide: bool) -> tuple[str, ...] | None:
    """What stands for a variable; in a wide table these are columns, and may be called so."""
    if wide and table.has("columns"):
        return table.texts("columns", None)
    return table.texts("codes", None)


def _values(table: Table) -> dict[str, float]:
    if not table.has("values"):
        return {}
    values = table.table("values")
    found = {key: values.number(key) for key in values.keys()}  # noqa: SIM118
    values.done()
    return found


def refuse_a_code_twice(top: Table, rules: list[Rule]) -> None:
    """Raises CohortError where two rules take the same code in the same unit, or both in those that no other takes."""
    taken: dict[tuple[str, str | None], str] = {}
    for rule in rules:
        units = {None} if rule.units is None else {canonical(unit, rule.name) for unit in rule.units}
        for code in rule.codes:
            for unit in units:
                said = f"the code {code!r}" + (f" in {unit or 'no unit'}" if unit is not None else "")
                other = taken.get((code, unit))
                if other == rule.name:
                    raise top.error("variables", f"gives {rule.name} {said} twice: keep one")
                if other is not None:
                    raise top.error("variables", f"gives {said} to {other} and to {rule.name}: keep one")
                taken[code, unit] = rule.name
