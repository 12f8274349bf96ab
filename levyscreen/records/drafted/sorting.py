"""What was seen under each code, sorted out: variables, descriptors, what is ignored, and what stays unmapped."""

from __future__ import annotations

from collections.abc import Sequence

from levyscreen.names import printable
from levyscreen.records.drafted.aliases import FACT_ALIASES, is_component, known_as, of_any_site, short
from levyscreen.records.drafted.contents import identifies
from levyscreen.records.drafted.datasets import data_set
from levyscreen.records.drafted.pooling import Entry, pooled
from levyscreen.records.drafted.profile import Profile, Seen
from levyscreen.records.drafted.roles import NO_READING, Roles
from levyscreen.records.drafted.sources import fixed_unit, listed_as, other_meaning, source_of, whole
from levyscreen.records.mapped.codes import in_unit

MOST_VARIABLES = 200  # from which on only codes known by name become further ones
LEAST_VALUES = 20  # under a code that is not known by name


class Sorted:
    """What was seen, sorted out into variables, descriptors, what is ignored, and what is left."""

    def __init__(self, profile: Profile, roles: Roles, described: dict[str, str]) -> None:
        self.profile, self.roles, self.described = profile, roles, described
        self.source = source_of(profile)
        self.variables: dict[str, list[Entry]] = {}
        self.facts: dict[str, list[Entry]] = {}
        self.ignored: list[str] = []
        self.left: list[Seen] = []
        self.doubts: dict[str, str] = {}

    def take(self, seen: Sequence[Seen]) -> None:
        """Everything that was seen; the most frequent codes first."""
        variables: dict[str, list[Seen]] = {}
        facts: dict[str, list[Seen]] = {}
        for each in sorted(seen, key=lambda s: -s.count):
            name = self._name(each)
            each.fixed = fixed_unit(self.source, name or "", each)
            is_number = each.numeric > 0.5 * each.count
            if name in FACT_ALIASES:
                facts.setdefault(name, []).append(each)
            elif self._is_ignored(each, name, is_number):
                self.ignored.append(each.code)
            elif not name and self._is_none(each.code):
                self.left.append(each)
            elif is_number and (name or (each.count >= LEAST_VALUES and len(variables) < MOST_VARIABLES)):
                variables.setdefault(name or variable_name(each.code), []).append(each)
            else:
                self.left.append(each)
        for name, found in facts.items():
            entries = pooled(name, found, self.described) if name != "gender" else [Entry(tuple(found), "")]
            self.facts[name] = [e for e in entries if not e.strange]
            self.left += [s for e in entries if e.strange for s in e.seen]
        self.facts = {name: entries for name, entries in self.facts.items() if entries}
        pools = {name: pooled(name, found, self.described) for name, found in variables.items()}
        for name, pool in pools.items():
            self.variables[name] = [e for e in pool if not e.strange] or pool[:1]
        for name, pool in pools.items():
            self._keep_apart(name, pool[len(self.variables[name]) :])
        self.doubts |= _doubts(self.variables, self.described)

    def _name(self, seen: Seen) -> str | None:
        listed = listed_as(self.source, seen.code)
        name = listed or known_as(seen.code, self.described.get(seen.code, ""))
        if listed or name is None:
            return name
        wide = self.roles.kind == "wide"
        meant = other_meaning(name, self.profile.columns, wide, self.roles.variable)
        if meant != name:
            self.doubts[meant] = (
                "in eICU's table of vital signs sao2 is of pulse oximetry"
                if wide
                else "a laboratory's O2 saturation is of arterial blood, and not of pulse oximetry"
            )
        return meant

    def _is_none(self, code: str) -> bool:
        """Whether a code stands for no variable at all: for part of one, or for no concept."""
        no_code = data_set(self.source).no_code if self.source else None
        return is_component(code) or whole(code) == no_code

    def _is_ignored(self, seen: Seen, name: str | None, is_number: bool) -> bool:
        wide = self.roles.kind == "wide"
        if short(seen.code.rsplit("/", 1)[-1]) in NO_READING or (wide and not name and not is_number):
            return True
        column = self.profile.columns.get(seen.code)
        return wide and not name and column is not None and identifies(column, seen.code)

    def _keep_apart(self, name: str, strange: list[Entry]) -> None:
        """What comes in units from which no way to the variable's own is known."""
        for entry in strange:
            apart = variable_name(in_unit(name, entry.unit))
            if sum(s.count for s in entry.seen) < LEAST_VALUES or apart in self.variables:
                self.left += entry.seen
            else:
                self.variables[apart] = [entry]


def _doubts(variables: dict[str, list[Entry]], described: dict[str, str]) -> dict[str, str]:
    """Of pressures for which no code says where they were measured, where no cuff's are in the table beside them."""
    if {"NISysABP", "NIDiasABP", "NIMAP"} & set(variables):
        return {}
    return {
        name: f"taken for the invasive pressure; if a cuff measured it, name it {by_cuff}"
        for name, by_cuff in (("SysABP", "NISysABP"), ("DiasABP", "NIDiasABP"), ("MAP", "NIMAP"))
        for entries in [variables.get(name, [])]
        if any(of_any_site(s.code, described.get(s.code, "")) for e in entries for s in e.seen)
    }


def variable_name(code: str) -> str:
    """A code as a variable's name: all of it shows, and nothing in it separates names in a list."""
    return printable(code).replace(",", "_").replace(";", "_")
