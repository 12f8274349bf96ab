"""A guessed mapping of several tables as a TOML file: variables once at the top, and for each table how it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from levyscreen.records.drafted import draft
from levyscreen.records.drafted.draft import CHECK, key, number, text
from levyscreen.records.drafted.guess import Guess
from levyscreen.records.drafted.several import Facts, Several, unit_of

_HEADER = re.compile(r"^(\n?\[{1,2})(?=[a-z])")
_SAID = {
    "admission": "times count from it already",
    "first": f"{CHECK}, for no column of admission times was found: a record's first mapped reading that is plausible",
    "column": "a column of admission times",
}


def draft_several(found: Several, folder: Path) -> str:
    """The text of a mapping that will stand in `folder`."""
    home: dict[str, Guess] = {}  # of each variable, the table that it is described by
    for guess in found.readings:
        for name in guess.variables:
            home.setdefault(name, guess)
    parts = [_head(found), *([_defined(guess, name) for name, guess in home.items()])]
    parts += [_readings(found, guess, home, folder) for guess in found.readings]
    parts += [_static(found.readings[0], each, folder) for each in found.static]
    return "\n".join([*(line for part in parts for line in part), *_left(found)]) + "\n"


def _head(found: Several) -> Iterator[str]:
    tables = len(found.readings) + len(found.static)
    name, horizon = min((guess.horizon for guess in found.readings), key=lambda each: each[0] != "horizon_hours")
    yield f"# A first mapping of {tables} tables, guessed from their first rows. Look at what is marked {CHECK}, then:"
    yield "# levyscreen validate THIS-FILE"
    if not found.one_name:
        yield f"# {CHECK}: the tables call the ids of their records differently, and some of these are alike"
    yield f"{name} = {number(horizon)}  # what comes later after hour 0 is outside the stay"
    if any(guess.windows for guess in found.readings):
        yield f"windows = true  # {CHECK}: records are very long; each is cut into parts of that length"
    negatives = any(guess.negatives for guess in found.readings)
    yield f"negatives = {str(negatives).lower()}  # whether a value below 0 is a value; if not, it means missing"
    yield "\n[time]"
    yield f"origin = {text(found.origin)}  # where hour 0 is: {_SAID[found.origin]}"


def _defined(guess: Guess, name: str) -> Iterator[str]:
    yield f"\n[variables.{key(name)}]"
    if name in guess.doubts:
        yield f"# {CHECK}: {guess.doubts[name]}"
    yield from draft.defined(guess, name, guess.variables[name])


def _readings(found: Several, guess: Guess, home: dict[str, Guess], folder: Path) -> Iterator[str]:
    profile = guess.profile
    rows = f"{'all' if profile.whole else 'the first'} {len(profile.file.which):,} rows"
    doubt = "" if guess.roles.sure_kind else f"; {CHECK}: names and values by what is in the columns"
    yield f"\n[[table]]  # guessed from {rows}{doubt}"
    yield f"source = {text(os.path.relpath(profile.source, folder))}"
    yield f"kind = {text(guess.roles.kind)}"
    if profile.header is not None:
        yield f"header = {draft.texts(profile.header)}  # {CHECK}: the file has no header; give these columns names"
    yield from draft.text_form(guess)
    yield from _within(draft.columns(guess))
    yield from _within(draft.clock(guess))
    if found.origin == "column" and not any(each.start for each in found.static):
        yield from draft.hour_zero(guess)
    yield from _within(draft.facts(guess, guess.facts))
    for name, entries in guess.variables.items():
        described = home[name]
        if unit_of(name, entries) == unit_of(name, described.variables[name]):
            yield from _within(draft.read_as(guess, name, entries))
        else:
            said = (
                f"{unit_of(name, entries) or 'no unit'} here and {unit_of(name, described.variables[name])} elsewhere"
            )
            yield f"\n# {CHECK}: {text(name)} is in {said}, and not read from this table"
    yield from _within(draft.rest(guess))


def _static(guess: Guess, found: Facts, folder: Path) -> Iterator[str]:
    yield f"\n[[table]]  # a row a {'record' if found.record else 'patient'}"
    yield f"source = {text(os.path.relpath(found.profile.source, folder))}"
    yield 'kind = "static"'
    form = found.profile.text.form
    for name, value in (
        ("delimiter", form.delimiter),
        ("encoding", None if form.encoding == "utf-8" else form.encoding),
    ):
        if value is not None:
            yield f"{name} = {text(value)}"
    if form.skip:
        yield f"skip_lines = {form.skip}"
    if found.profile.text.decimal != ".":
        yield f"decimal = {text(found.profile.text.decimal)}"
    yield "\n[table.columns]"
    if found.record is not None:
        yield f"record = {text(found.record)}"
    if found.subject is not None:
        yield f"subject = {text(found.subject)}"
    if found.start is not None:
        yield "\n[table.time]"
        yield 'unit = "timestamp"'
        if found.format is not None:
            yield f"format = {text(found.format)}"
        yield f"column = {text(found.start)}"
    yield from _within(draft.facts(guess, found.facts))


def _within(lines: Iterable[str]) -> Iterator[str]:
    """The same in a table of several."""
    return (_HEADER.sub(r"\1table.", line) for line in lines)


def _left(found: Several) -> Iterator[str]:
    if found.left:
        yield f"\n# {CHECK}: not mapped"
        yield from (f"#   {text(name)}: {why}" for name, why in sorted(found.left.items()))
