"""From parsed batches to a cohort: who is who, which file counts, and in which order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from levyscreen.records.cohort import Cohort
from levyscreen.records.physionet2012 import MAX_ID, Part
from levyscreen.schema import COUNTED_CLASSES, RECORDS, REJECTS, count_column
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, VariableSet

READER_VERSION = 1  # changes with any change of what the reader makes of a file
NAMED_IN_A_NOTE = 3  # files; the rest is counted

_STEM_ID = re.compile(r"[0-9]{1,15}")
_TAKEN = "its RecordID is that of another file, whose name comes first"


@dataclass(frozen=True)
class Files:
    """A row for each of F files, in the order of RECORDS once `sort_files` has run."""

    name: list[str]
    path: list[str]
    problem: list[str | None]
    record_id: list[int | None]
    unlike: list[bool]  # whether the RecordID line differs from the name
    position: list[int]  # in the order in which the parts came


def assemble(parts: Iterable[Part], name: str, variables: VariableSet) -> Cohort:
    """One cohort of all parts; the order in which their files came changes nothing."""
    parts = list(parts)
    files = mark_duplicates(sort_files(identify(parts)))
    order = np.array(files.position, dtype=np.int64)
    counted = np.array([p is None for p in files.problem], dtype=bool)
    rows, offsets = _gather(_lengths(parts), order, counted)
    counts = np.concatenate([p.counts for p in parts])[order] * counted[:, None]
    return Cohort(
        name=name,
        fingerprint=f"{_source_digest(parts)}-{table_digest(variables)}",
        variables=variables,
        records=_records(files, np.concatenate([p.descriptors for p in parts])[order], counts.astype(np.int32)),
        offsets=offsets,
        time_hours=_take([(p.minutes / 60).astype(np.float32) for p in parts], rows),
        variable=_take([p.variable for p in parts], rows),
        value=_take([p.value for p in parts], rows),
        line_class=_take([p.line_class for p in parts], rows),
        rejects=_rejects(parts, files, order, counted),
        notes=_notes(files),
    )


def table_digest(variables: VariableSet) -> str:
    """16 hexadecimal digits that change with the variable table and with the reader."""
    text = json.dumps([READER_VERSION, variables.to_json()], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def rejudge(cohort: Cohort, variables: VariableSet) -> Cohort:
    """The same lines under other ranges; `variables` must have the cohort's names and horizon."""
    line_class, _ = variables.judge(cohort.variable, cohort.value)
    record = np.repeat(np.arange(len(cohort)), np.diff(cohort.offsets))
    records = cohort.records
    for judged in (LineClass.READING, LineClass.NEGATIVE, LineClass.IMPLAUSIBLE, LineClass.REPAIRED):
        shift = [np.bincount(record[c == judged], minlength=len(cohort)) for c in (cohort.line_class, line_class)]
        column = records.schema.get_field_index(count_column(judged))
        counts = (records.column(column).to_numpy() - shift[0] + shift[1]).astype(np.int32)
        records = records.set_column(column, records.schema.field(column), pa.array(counts))
    fingerprint = f"{cohort.fingerprint.split('-')[0]}-{table_digest(variables)}"
    return replace(cohort, fingerprint=fingerprint, variables=variables, records=records, line_class=line_class)


# Who is who ---------------------------------------------------------------------------------------------------------


def identify(parts: Sequence[Part]) -> Files:
    """Each file's record id: what its RecordID line says, else the number it is named by, else a problem."""
    names, problems = list(chain(*(p.names for p in parts))), list(chain(*(p.problems for p in parts)))
    said = [None if np.isnan(v) else int(v) for p in parts for v in p.descriptors[:, DESCRIPTORS.index("RecordID")]]
    stems = [_stem_id(name) for name in names]
    # A file whose RecordID lines disagree is known by its name alone.
    said = [None if problem else line for line, problem in zip(said, problems, strict=True)]
    ids = [stem if line is None else line for line, stem in zip(said, stems, strict=True)]
    nameless = "no RecordID line, and no number in the file's name"
    problems = [nameless if i is None and p is None else p for i, p in zip(ids, problems, strict=True)]
    unlike = [line is not None and line != stem for line, stem in zip(said, stems, strict=True)]
    return Files(names, list(chain(*(p.paths for p in parts))), problems, ids, unlike, list(range(len(names))))


def _stem_id(name: str) -> int | None:
    stem = name.removesuffix(".txt")
    return int(stem) if _STEM_ID.fullmatch(stem) and int(stem) < MAX_ID else None


def sort_files(files: Files) -> Files:
    """The files by record id, then name; those without an id at the end."""

    def key(i: int) -> tuple[bool, int, str, str]:
        record_id = files.record_id[i]
        return record_id is None, record_id or 0, files.name[i], files.path[i]

    order = sorted(range(len(files.name)), key=key)
    columns = (files.name, files.path, files.problem, files.record_id, files.unlike, files.position)
    return Files(*([column[i] for i in order] for column in columns))  # type: ignore[arg-type]


def mark_duplicates(files: Files) -> Files:
    """Of the readable files of one record the first counts; the others get a problem."""
    seen: set[int | None] = set()
    problems = list(files.problem)
    for i, record_id in enumerate(files.record_id):
        if problems[i] is None:
            problems[i] = _TAKEN if record_id in seen else None
            seen.add(record_id)
    return replace(files, problem=problems)


def _notes(files: Files) -> tuple[str, ...]:
    taken = [n for n, p in zip(files.name, files.problem, strict=True) if p == _TAKEN]
    unlike = [n for n, u, p in zip(files.name, files.unlike, files.problem, strict=True) if u and p is None]
    broken = [f"{n} ({p})" for n, p in zip(files.name, files.problem, strict=True) if p not in (None, _TAKEN)]
    said = (
        (taken, "not counted, a file whose name comes first has the same RecordID"),
        (unlike, "with a name unlike the RecordID line, which counts"),
        (broken, "not readable as a record"),
    )
    return tuple(f"{_files(len(names))} {what}: {_listed(names)}" for names, what in said if names)


def _files(count: int) -> str:
    return f"{count:,} file{'s' if count != 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_IN_A_NOTE
    return ", ".join(names[:NAMED_IN_A_NOTE]) + (f" and {more:,} more" if more > 0 else "")


def _source_digest(parts: Sequence[Part]) -> str:
    """Of every file's name and bytes: not of the folder, the archive, the order or the time of them."""
    files = sorted(pair for p in parts for pair in zip(p.names, p.digests, strict=True))
    text = b"".join(name.encode() + b"\0" + digest for name, digest in files)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


# In which order -----------------------------------------------------------------------------------------------------


def _lengths(parts: Sequence[Part]) -> NDArray[np.int64]:
    return np.concatenate([np.bincount(p.file, minlength=len(p.names)) for p in parts])


def _gather(
    lengths: NDArray[np.int64], order: NDArray[np.int64], counted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Rows of the concatenated parts in the order of the records, None for "as they are"; and (R + 1,) offsets."""
    starts = (np.cumsum(lengths) - lengths)[order]
    kept = lengths[order] * counted
    offsets = np.concatenate([[0], np.cumsum(kept)])
    rows = np.repeat(starts - offsets[:-1], kept) + np.arange(offsets[-1])
    same = len(rows) == lengths.sum() and bool((order[1:] > order[:-1]).all())
    return None if same else rows, offsets


def _take(columns: Sequence[NDArray[Any]], rows: NDArray[np.int64] | None) -> NDArray[Any]:
    whole = np.concatenate(columns)
    return whole if rows is None else whole[rows]


def _records(files: Files, descriptors: NDArray[np.float64], counts: NDArray[np.int32]) -> pa.Table:
    columns = {
        "record_id": files.record_id,
        "file": files.name,
        "problem": files.problem,
        "n_lines": counts.sum(axis=1),
        **{count_column(c): counts[:, c] for c in COUNTED_CLASSES},
    }
    facts = {"age": "Age", "gender": "Gender", "height": "Height", "icu_type": "ICUType", "weight": "Weight"}
    for column, descriptor in facts.items():
        values = descriptors[:, DESCRIPTORS.index(descriptor)]
        columns[column] = pa.array(values, mask=np.isnan(values) | (counts.sum(axis=1) == 0))
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in RECORDS}, schema=RECORDS)


def _rejects(parts: Sequence[Part], files: Files, order: NDArray[np.int64], counted: NDArray[np.bool_]) -> pa.Table:
    shift = np.cumsum([0, *(len(p.names) for p in parts)])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    record = place[np.concatenate([p.reject_file + s for p, s in zip(parts, shift, strict=False)])]
    line = np.concatenate([p.reject_line for p in parts])
    rows = np.lexsort((line, record))
    rows = rows[counted[record[rows]]]
    words = pa.array([c.name.lower() for c in LineClass])
    classes = np.concatenate([p.reject_class for p in parts])[rows]
    names = pa.array(files.name, pa.string()).take(pa.array(record[rows]))
    return pa.table([names, pa.array(line[rows]), words.take(pa.array(classes))], schema=REJECTS)
