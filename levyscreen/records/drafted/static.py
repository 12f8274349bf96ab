"""Descriptors in a table of their own, beside that of the readings, as ricu and YAIB have them."""

from __future__ import annotations

from pathlib import Path

from levyscreen.records.drafted.aliases import FACT_ALIASES, known_as
from levyscreen.records.drafted.guess import Guess
from levyscreen.records.drafted.pooling import Entry, pooled
from levyscreen.records.drafted.profile import DYNAMIC, by_code, look
from levyscreen.records.mapped.cells import words

STATIC = "sta.parquet"


def static_facts(guess: Guess) -> tuple[Path, dict[str, list[Entry]]] | None:
    """The table, and descriptors in it that the readings' own does not have; None where there is none.

    Raises CohortError where the table cannot be read.
    """
    path, record = guess.profile.source.with_name(STATIC), guess.roles.record
    if guess.profile.source.name != DYNAMIC or not path.is_file():
        return None
    profile = look(path, None)
    if record not in profile.columns:
        return None
    names = [name for name in profile.columns if known_as(name) in FACT_ALIASES and name != record]
    found: dict[str, list[Entry]] = {}
    for seen in by_code(profile, words(profile.columns[record]), None, names, wide=True):
        name = str(known_as(seen.code))
        if name not in guess.facts and name not in found:
            entries = [Entry((seen,), "")] if name == "gender" else pooled(name, [seen], {})
            found[name] = [entry for entry in entries if not entry.strange]
    found = {name: entries for name, entries in found.items() if entries}
    return (path, found) if found else None
