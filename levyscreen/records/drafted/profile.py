"""A first look at an unknown source: its columns, and what is under each code, from a bounded number of rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from levyscreen.errors import CohortError
from levyscreen.records.drafted.sniff import Sniffed, sniff
from levyscreen.records.grammar import FINE
from levyscreen.records.mapped.cells import EMPTY, Numbers, Words, can_be_numbers, judge, numbers, pointed, words
from levyscreen.records.mapped.tables import DELIMITERS, TableFile, TableReader, table_files
from levyscreen.records.mapped.text import Form
from levyscreen.records.units import canonical
from levyscreen.types import LineClass

MOST_ROWS = 1_000_000
MOST_SIZE = 1 << 29  # bytes of these rows
MOST_FILES = 200  # of a folder of many; evenly spaced
MOST_VALUES = 5_000  # of a code, for its quantiles
MOST_TEXTS = 20
_DIGITS = re.compile(r"[0-9]+")
DYNAMIC = "dyn.parquet"  # of ricu and YAIB: the table of readings, beside those of facts and outcomes


@dataclass
class Seen:
    """What was seen under one code."""

    code: str
    unit: str | None = None  # that a column says; None where there is no such column
    fixed: str | None = None  # unit that the documents of the data set state
    count: int = 0  # values that are there
    numeric: int = 0  # of these
    texts: Counter[str] = field(default_factory=Counter)
    values: list[np.ndarray] = field(default_factory=list)
    records: set[str] = field(default_factory=set)

    def quantiles(self) -> tuple[float, float, float]:
        """At 5, 50 and 95 %; NaN where nothing is a number."""
        values = np.concatenate([*self.values, np.empty(0)])
        if not len(values):
            return (np.nan,) * 3
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
        return low, middle, high

    def negative(self) -> float:
        """Fraction of the values that are below 0 and not -1, which often stands for "missing"."""
        values = np.concatenate([*self.values, np.empty(0)])
        return float(((values < 0) & (values != -1)).mean()) if len(values) else 0.0


@dataclass(frozen=True)
class Profile:
    """Columns of a source and its first rows, as arrays of one length."""

    source: Path
    kind: str | None  # "meds" where the layout says so
    files: int
    text: Sniffed  # how it is written; a header is made up where there is none
    skipped: tuple[str, ...]  # files of other columns than the first
    doubtful: int  # rows with a quoted field that may hold rows of its own
    columns: dict[str, pa.Array]  # (N,)
    file: Words  # of each row
    whole: bool  # whether these are all the rows
    data_set: str | None = None  # that the user says it is of, or the names of a folder's tables

    @property
    def header(self) -> tuple[str, ...] | None:
        """Names for the columns of a text that has none."""
        return self.text.form.header


def look(source: Path, kind: str | None, share: int = 1) -> Profile:
    """The first rows of a source. Raises CohortError where it cannot be read, or has no rows.

    Of one of `share` tables that are looked at together, that part of the rows. Of a folder of ricu or YAIB that is the
    table of readings; of a folder of different tables the first one.
    """
    source = source / DYNAMIC if (source / DYNAMIC).is_file() else source
    files = table_files(source, kind or "")
    text = sniff(files[0])
    form = replace(text.form, header=_made_up_header(files[0], text))
    chosen = files[:: max(1, len(files) // MOST_FILES)]
    columns = {file: TableReader(file, form).columns for file in chosen}
    alike = [file for file in chosen if _is_alike(file, chosen[0], columns)]
    names = dict.fromkeys(name for file in alike if _is_chunk(file, chosen[0]) for name in columns[file])
    parts, of, readers, whole = _first_rows(alike, form, [name for name in names if name], share)
    if not of:
        raise CohortError(f"{source}: has no rows to guess a mapping from" + _why_none(readers))
    words_of_files = Words(np.array(of, dtype=np.int64), [Path(file.name).stem for file in alike])
    found = {name: _one([part[name] for part in parts]) for name in parts[0]}
    return Profile(
        source=files[0].path if len(alike) == 1 < len(chosen) and kind is None else source,
        kind=kind,
        files=len(alike) if len(alike) < len(chosen) else len(files),
        text=replace(text, form=form),
        skipped=tuple(file.name for file in chosen if file not in alike),
        doubtful=sum(len(reader.doubtful) for reader in readers),
        columns={name: pointed(column) for name, column in found.items()} if text.decimal == "," else found,
        file=words_of_files,
        whole=whole and len(chosen) == len(files),
    )


def _is_alike(file: TableFile, first: TableFile, columns: dict[TableFile, list[str]]) -> bool:
    """Whether two files are of one table: one has all columns of the first, or is called as a chunk beside it."""
    mine, known = set(columns[file]), set(columns[first])
    return mine >= known or (_is_chunk(file, first) and 2 * len(mine & known) >= len(known))


def _is_chunk(file: TableFile, first: TableFile) -> bool:
    """Whether names of files differ in digits alone, or the files are the parts of one table by their folders."""
    called = {_DIGITS.sub("0", each.name) for each in (file, first)}
    return len(called) == 1 or (bool(file.partition) and bool(first.partition))


def _first_rows(
    files: Sequence[TableFile], form: Form, names: list[str], share: int
) -> tuple[list[dict[str, pa.Array]], list[int], list[TableReader], bool]:
    """Blocks of the files' rows, MOST_ROWS or a few more; the file of each; who read them; whether these are all."""
    parts: list[dict[str, pa.Array]] = []
    of: list[int] = []
    readers = [TableReader(file, form) for file in files]
    size = 0
    for number, reader in enumerate(readers):
        lacking = [name for name in names if name not in reader.places]
        for block in reader.blocks([name for name in names if name in reader.places]):
            nothing = dict.fromkeys(lacking, pa.nulls(len(block.row)))
            parts.append({name: (block.columns | nothing)[name] for name in names})
            of += [number] * len(block.row)
            size += sum(column.nbytes for column in block.columns.values())
            if len(of) >= MOST_ROWS // share or size >= MOST_SIZE // share:
                return parts, of, readers, False
    return parts, of, readers, True


def _why_none(readers: Sequence[TableReader]) -> str:
    malformed, doubtful = (sum(len(getattr(r, kind)) for r in readers) for kind in ("malformed", "doubtful"))
    if malformed:
        return f": {malformed:,} with another number of fields than the first; is it a table with one header?"
    return f": {doubtful:,} with a quoted field that may hold others; is a closing quote missing?" if doubtful else ""


def _one(parts: Sequence[pa.Array]) -> pa.Array:
    """One array of the parts; as text where they differ in type."""
    kinds = {part.type for part in parts if not pt.is_null(part.type)}
    if len(kinds) > 1:
        parts = [part.cast(pa.string()) for part in parts]
    elif kinds:
        (kind,) = kinds
        parts = [pa.nulls(len(part), kind) if pt.is_null(part.type) else part for part in parts]
    return pa.concat_arrays(parts)


def _made_up_header(file: TableFile, text: Sniffed) -> tuple[str, ...] | None:
    """Names for the columns of a text whose first row holds numbers, and so is no header."""
    if file.ending not in DELIMITERS:
        return None
    first = TableReader(file, replace(text.form, header=())).first_row
    if not any(judge(cell, text.decimal)[1] == FINE for cell in first):
        return None
    return tuple(f"c{i}" for i in range(1, len(first) + 1))


def by_code(
    profile: Profile,
    record: Words,
    code_of: Callable[[str], Words] | None,
    measured: Sequence[str],
    wide: bool,
    unit: Words | None = None,
) -> list[Seen]:
    """What stands under each code; `code_of` gives the codes of a column's rows, by default the column's name.

    With `unit`, (N,), under each code and unit; one that a code has in several spellings is the first of them.
    """
    found: dict[tuple[str, str | None], Seen] = {}
    labels = np.array(record.words, dtype=object)[record.which]
    for name in measured:
        column = profile.columns[name]
        count = len(column)
        code = code_of(name) if code_of else Words(np.zeros(count, np.int64), [name])
        keys, which = _keys(code, unit)
        parsed, text = _parsed(column, name)
        there = ~parsed.empty if wide else np.ones(count, bool)
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(keys) + 1))
        for i, key in enumerate(keys):
            rows = order[bounds[i] : bounds[i + 1]]
            rows = rows[there[rows]]
            if key[0] and len(rows):
                _see(found.setdefault(key, Seen(*key)), rows, parsed, text, labels)
    return list(found.values())


def _keys(code: Words, unit: Words | None) -> tuple[list[tuple[str, str | None]], np.ndarray]:
    """Each distinct code and unit, and which of them each row is of, (N,)."""
    if unit is None:
        return [(word, None) for word in code.words], code.which
    place = {word: i for i, word in enumerate(dict.fromkeys(map(canonical, unit.words)))}
    one = np.array([place[canonical(word)] for word in unit.words])[unit.which]
    _, first, which = np.unique(code.which * len(place) + one, return_index=True, return_inverse=True)
    said = [unit.words[i] for i in unit.which[first]]
    named = [code.words[i] for i in code.which[first]]
    return [(word, uom if canonical(uom) else "") for word, uom in zip(named, said, strict=True)], which


def _see(seen: Seen, rows: np.ndarray, parsed: Numbers, text: Words | None, labels: np.ndarray) -> None:
    fine = parsed.refusal[rows] == FINE
    seen.count += len(rows)
    seen.numeric += int(fine.sum())
    room = MOST_VALUES - sum(map(len, seen.values))
    step = max(1, int(fine.sum()) // max(1, room))  # evenly spaced: a table is often sorted by record
    seen.values.append(parsed.value[rows[fine]][::step][: max(0, room)])
    seen.records.update(labels[rows].tolist())
    if text is not None:
        words_there = Counter(text.words[i] for i in text.which[rows[~fine]][:MOST_VALUES].tolist())
        words_there = Counter({w: n for w, n in words_there.items() if w.lower() not in EMPTY})
        for word, n in words_there.most_common(MOST_TEXTS):
            seen.texts[word] += n


def _parsed(column: pa.Array, name: str) -> tuple[Numbers, Words | None]:
    """Numbers of a column, and its texts where it has any; of a column of neither, nothing that is a number."""
    kind = column.type
    if can_be_numbers(kind):
        texts = pt.is_string(kind) or pt.is_large_string(kind) or pt.is_dictionary(kind)
        return numbers(column, name), words(column) if texts else None
    count, there = len(column), column.is_valid().to_numpy(zero_copy_only=False)
    return Numbers(np.zeros(count), np.full(count, LineClass.NOT_A_NUMBER, np.uint8), ~there), None
