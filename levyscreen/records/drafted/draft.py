"""A guessed mapping as a TOML file for people: every guess with what it rests on, and CHECK where it is weak."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping as Dict
from pathlib import Path

from levyscreen.records.drafted.aliases import KNOWN, range_of
from levyscreen.records.drafted.clocks import unread_form
from levyscreen.records.drafted.guess import SEXES, Guess
from levyscreen.records.drafted.pooling import Entry
from levyscreen.records.drafted.profile import Seen
from levyscreen.records.drafted.sorting import MOST_VARIABLES
from levyscreen.records.drafted.static import static_facts
from levyscreen.records.mapped.codes import in_unit, literal
from levyscreen.records.mapped.mapping import FILE, TIMESTAMP
from levyscreen.records.units import held_in

CHECK = "CHECK"
NAMED_LEFT = 20
NAMED_FILES = 5
OUTSIDE = 0.05  # of the values, beyond which a plausible range is doubted


def draft(guess: Guess, folder: Path) -> str:
    """The text of a mapping that will stand in `folder`."""
    return (
        "\n".join(
            [
                *_head(guess, folder),
                *_columns(guess),
                *_static(guess, folder),
                *facts(guess, guess.facts),
                *_variables(guess),
                *rest(guess),
            ]
        )
        + "\n"
    )


def _head(guess: Guess, folder: Path) -> Iterator[str]:
    profile = guess.profile
    rows = f"{'all' if profile.whole else 'the first'} {len(profile.file.which):,} rows"
    key, horizon = guess.horizon
    yield f"# A first mapping, guessed from {rows}. Look at what is marked {CHECK}, then: levyscreen validate THIS-FILE"
    doubt = "" if guess.roles.sure_kind else f"  # {CHECK}: names and values by what is in the columns"
    yield f"source = {text(os.path.relpath(profile.source, folder))}" + _source_doubt(guess)
    yield f"kind = {text(guess.roles.kind)}{doubt}"
    if profile.header is not None:
        yield f"header = {texts(profile.header)}  # {CHECK}: the file has no header; give these columns names"
    yield from text_form(guess)
    yield f"{key} = {number(horizon)}  # what comes later after hour 0 is outside the stay"
    if guess.windows:
        yield f"windows = true  # {CHECK}: records are very long; each is cut into parts of that length"
    yield f"negatives = {str(guess.negatives).lower()}  # whether a value below 0 is a value; if not, it means missing"


def _source_doubt(guess: Guess) -> str:
    skipped = guess.profile.skipped
    if not skipped:
        return ""
    named = ", ".join(skipped[:NAMED_FILES]) + (", ..." if len(skipped) > NAMED_FILES else "")
    return f"  # {CHECK}: a source is one file, or files of the same columns; not looked at: {named}"


def text_form(guess: Guess) -> Iterator[str]:
    """How a text is written, where that is not the usual."""
    found = guess.profile.text
    keys = {
        "delimiter": (found.form.delimiter, "separates fields, though not in all rows"),
        "decimal": (None if found.decimal == "." else found.decimal, "not in all numbers"),
        "encoding": (
            None if found.form.encoding == "utf-8" else found.form.encoding,
            "are letters with accents right?",
        ),
    }
    if found.form.skip:
        doubt = f"; {CHECK}: by their number of fields" if "skip_lines" in found.doubts else ""
        yield f"skip_lines = {found.form.skip}  # above the header{doubt}"
    for name, (value, doubt) in keys.items():
        if value is not None:
            yield f"{name} = {text(value)}" + (f"  # {CHECK}: {doubt}" if name in found.doubts else "")
    if guess.profile.doubtful:
        count = guess.profile.doubtful
        rows = f"{count:,} row{' has' if count == 1 else 's have'} a quoted field that may hold rows of its own"
        yield f"# {CHECK}: {rows}; quote = false if quotes are characters like any other, quote = true if it may"


def _columns(guess: Guess) -> Iterator[str]:
    yield from columns(guess)
    yield from clock(guess)
    yield f"origin = {text(guess.origin)}  # {_origin_said(guess)}"
    yield from hour_zero(guess)


def columns(guess: Guess) -> Iterator[str]:
    """Which column holds what."""
    roles = guess.roles
    doubt, time_doubt = ("" if sure else f"  # {CHECK}" for sure in (roles.sure_record, roles.sure_time))
    yield "\n[columns]"
    said = f"  # {'' if roles.sure_record else CHECK + ': '}a record is a file" if roles.record == FILE else doubt
    yield f"record = {text(roles.record)}{said}"
    if roles.subject is not None and roles.subject != roles.record:
        yield f"subject = {text(roles.subject)}  # patients with several records are kept together in training"
    yield f"time = {text(roles.time)}{time_doubt}"
    if roles.variable is not None:
        yield f"variable = {text(roles.variable)}" + (
            f"  # {CHECK}: says whose value a column holds" if roles.kind == "wide" else ""
        )
    if roles.value is not None:
        yield f"value = {text(roles.value)}"
    if roles.value_unit is not None:
        yield f"unit = {text(roles.value_unit)}  # a rule with units takes values of these units alone"


def clock(guess: Guess) -> Iterator[str]:
    """What the times are."""
    roles = guess.roles
    yield "\n[time]"
    unit = text(roles.unit) if isinstance(roles.unit, str) else number(roles.unit)
    yield f"unit = {unit}" + _unit_doubt(guess)
    unread = unread_form(guess.profile.columns[roles.time], roles.unit, roles.format)
    if unread is not None:
        yield f"# {CHECK}: most times are in no form that is known; set format, as of Python's strptime, for those like"
        yield f"#   {text(unread)}, where 0 stands for a digit and a for a letter"
    if roles.format is not None:
        doubt = (
            f"  # {CHECK}: which is the day, which the month" if "/" in roles.format or "-%m" in roles.format else ""
        )
        yield f"format = {text(roles.format)}" + doubt
    if guess.mixes_zones:
        yield f"# {CHECK}: some times say a zone and others do not; say the zone of the latter, for instance"
        yield '# zone = "Europe/Berlin"'


def hour_zero(guess: Guess) -> Iterator[str]:
    """What says hour 0, where something does."""
    roles = guess.roles
    if guess.origin == "column":
        yield f"column = {text(roles.start or '')}" + ("" if roles.sure_start else f"  # {CHECK}")
    if guess.code is not None:
        yield f"code = {text(guess.code)}"


def _unit_doubt(guess: Guess) -> str:
    if isinstance(guess.roles.unit, float):
        return f"  # seconds; {CHECK}"
    return "" if guess.roles.unit == TIMESTAMP else f"  # {CHECK}"


def _origin_said(guess: Guess) -> str:
    said = {
        "admission": "times count from it already",
        "first": "a record's first mapped reading that is plausible",
        "column": "a column of admission times",
        "code": "the first event of this code",
    }[guess.origin]
    doubt = f"{CHECK}, for no column of admission times was found: " if guess.origin == "first" else ""
    return f"{doubt}where hour 0 is: {said}"


def _static(guess: Guess, folder: Path) -> Iterator[str]:
    found = static_facts(guess)
    if found is not None:
        yield "\n[static]  # another table, of a row a record, with these descriptors"
        yield f"source = {text(os.path.relpath(found[0], folder))}"
        yield f"record = {text(guess.roles.record)}"
        yield from facts(guess, found[1])


def facts(guess: Guess, found: Dict[str, list[Entry]]) -> Iterator[str]:
    """Descriptors, and what stands for each."""
    for name, entries in found.items():
        yield f"\n[descriptors.{key(name)}]"
        yield from _entry(guess, "", entries[0])
        if name == "gender":
            yield from _sexes([s for entry in entries for s in entry.seen])
        for entry in entries[1:]:
            yield f"[[descriptors.{key(name)}.also]]"
            yield from _entry(guess, "", entry)


def _sexes(seen: list[Seen]) -> Iterator[str]:
    """Texts, or ends of codes, that say a sex."""
    said = {word: SEXES[word.lower()] for s in seen for word in s.texts if word.lower() in SEXES}
    said |= {s.code: SEXES[end] for s in seen if (end := s.code.rsplit("/", 1)[-1].lower()) in SEXES}
    if said:
        yield "values = { " + ", ".join(f"{text(word)} = {number(sex)}" for word, sex in said.items()) + " }"
    elif any(s.texts for s in seen):
        yield f"# {CHECK}: 0 stands for female, 1 for male; for texts: values = {{ F = 0, M = 1 }}"


def _variables(guess: Guess) -> Iterator[str]:
    for name, entries in guess.variables.items():
        yield f"\n[variables.{key(name)}]  # {_counted(entries[0])}"
        if name in guess.doubts:
            yield f"# {CHECK}: {guess.doubts[name]}"
        yield from _entry(guess, name, entries[0])
        yield from defined(guess, name, entries)
        yield from _also(guess, name, entries)


def defined(guess: Guess, name: str, entries: list[Entry]) -> Iterator[str]:
    """What a variable is: its unit, its meaning and its plausible range."""
    known = KNOWN.get(name)
    low, high, repair = range_of(name)
    described = next((d for e in entries for s in e.seen if (d := guess.described.get(s.code))), name)
    yield from _unit(name, entries[0])
    yield f"meaning = {text(known.meaning if known else described)}"
    if low is not None and high is not None:
        yield f"low = {number(low)}"
        yield f"high = {number(high)}{_range_doubt(entries, low, high)}"
    if repair is not None:
        parts = (f"{part} = {number(getattr(repair, part))}" for part in ("low", "high", "factor"))
        yield f"repair = {{ {', '.join(parts)} }}"


def read_as(guess: Guess, name: str, entries: list[Entry]) -> Iterator[str]:
    """What stands for a variable in one table of several."""
    yield f"\n[variables.{key(name)}]  # {_counted(entries[0])}"
    yield from _entry(guess, name, entries[0])
    yield from _also(guess, name, entries)


def _also(guess: Guess, name: str, entries: list[Entry]) -> Iterator[str]:
    for entry in entries[1:]:
        yield f"[[variables.{key(name)}.also]]  # {_counted(entry)}"
        yield from _entry(guess, name, entry)


def _unit(name: str, entry: Entry) -> Iterator[str]:
    known = KNOWN.get(name)
    if entry.strange:
        said = "no factor from this unit is known; set the one you want, and a factor and offset that lead there"
        yield f"unit = {text(entry.unit)}  # {CHECK}: {said}"
    elif known is not None and held_in(name, known.unit) != known.unit:
        held = held_in(name, known.unit)
        said = f"the label of PhysioNet 2012 and of its models; their values, and so these, are in {held}"
        yield f"unit = {text(known.unit)}  # {said}"
    else:
        yield f"unit = {text(known.unit if known else entry.unit)}" + ("" if known or entry.told else f"  # {CHECK}")


def _entry(guess: Guess, name: str, entry: Entry) -> Iterator[str]:
    codes = list(dict.fromkeys(s.code for s in entry.seen))
    if codes != [name]:
        yield f"{_codes_key(guess)} = {texts(map(literal, codes))}"
    if entry.units is not None:
        doubt = f"  # {CHECK}: under these codes other values say a unit" if entry.units == ("",) else ""
        yield f"units = {texts(entry.units)}{doubt}"
    if entry.way is not None:
        way = f"{entry.way.other} to {entry.way.unit}"
        seems = (
            f"from {way}" if entry.told else f"{CHECK}: values look like {entry.way.other}; this makes {entry.way.unit}"
        )
        yield f"factor = {number(entry.way.factor)}  # {seems}"
        if entry.way.offset:
            yield f"offset = {number(entry.way.offset)}"
    if entry.mixed is not None:
        mixed = entry.mixed
        parts = ", ".join(f"{part} = {number(getattr(mixed, part))}" for part in ("low", "high", "factor", "offset"))
        yield f"mixed = {{ {parts} }}  # {CHECK}: some values can only be in {mixed.other}; this converts them"
    if entry.odd:
        yield f"# {CHECK} the unit: this median is unusual; if need be set factor and offset{_looks_like(entry)}"


def _looks_like(entry: Entry) -> str:
    if entry.maybe is None:
        return ""
    return f"; too few values to tell, but they look like {entry.maybe.other}: factor = {number(entry.maybe.factor)}"


def _counted(entry: Entry) -> str:
    quantiles = ", ".join(f"{q:.4g}" for q in entry.seen[0].quantiles())
    return f"{sum(s.numeric for s in entry.seen):,} values; at 5, 50 and 95 %: {quantiles}"


def _range_doubt(entries: list[Entry], low: float, high: float) -> str:
    way = entries[0].way
    factor, offset = (1.0, 0.0) if way is None else (way.factor, way.offset)
    q5, _, q95 = (q * factor + offset for q in entries[0].seen[0].quantiles())
    return f"  # {CHECK}: values lie outside" if 0 <= q5 < low or q95 > high else ""


def rest(guess: Guess) -> Iterator[str]:
    """What is ignored, and what stays unmapped."""
    if guess.ignored:
        yield "\n[ignore]"
        yield f"{_codes_key(guess)} = {texts(guess.ignored)}"
    if guess.left:
        values = sum(s.count for s in guess.left)
        yield f"\n# Not mapped, and so counted as unknown: {values:,} values of {len(guess.left):,} code(s)"
        for seen in guess.left[:NAMED_LEFT]:
            called = seen.code if seen.unit is None else in_unit(seen.code, seen.unit)
            yield f"#   {text(called)}  {seen.count:,} values, {seen.numeric:,} of them numbers"
        if len(guess.left) > NAMED_LEFT:
            yield f"#   and {len(guess.left) - NAMED_LEFT:,} more"
        if len(guess.variables) >= MOST_VARIABLES:
            yield f"# Beyond {MOST_VARIABLES} variables only codes known by name are mapped: add others that you need."


def _codes_key(guess: Guess) -> str:
    return "columns" if guess.roles.kind == "wide" and guess.roles.variable is None else "codes"


# TOML ---------------------------------------------------------------------------------------------------------------


def text(value: str) -> str:
    """A basic string, which no terminal obeys."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def texts(values: object) -> str:
    """An array of strings."""
    return "[" + ", ".join(text(v) for v in values) + "]"  # type: ignore[attr-defined]


def key(name: str) -> str:
    """A bare key, or a quoted one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def number(value: float) -> str:
    """An integer where it is one; else all digits that a float has."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
