"""From parsed batches to a cohort: who is who, which file counts, and in which order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from levyscreen.records.cohort import JUDGED, WINDOW_RECORDS, Cohort, Judged, NumericLines
from levyscreen.records.physionet2012 import MAX_ID, Part
from levyscreen.records.spill import Spill
from levyscreen.records.unknown import Unknown
from levyscreen.schema import COUNTED_CLASSES, RECORDS, REJECTS, count_column
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, FACTS, VariableSet

READER_VERSION = 1  # changes with any change of what the reader makes of a file
NAMED_IN_A_NOTE = 3  # files; the rest is counted

_STEM_ID = re.compile(r"[0-9]{1,15}")
_NAMELESS = "no RecordID line, and no number in the file's name"
_TAKEN = "its RecordID is that of another file, whose name comes first"

# What is known of each file until all of them are read: its row of RECORDS, and what only the assembly needs.
_FILES = pa.schema(
    [
        *RECORDS,
        pa.field("n_kept", pa.int32()),  # its lines in the spill
        pa.field("path", pa.binary()),  # within its archive
        pa.field("digest", pa.binary(16)),  # of its bytes
        pa.field("unlike", pa.bool_()),  # whether the RecordID line differs from the name
    ]
)
# An example of a reject: file in the order of reading, line, LineClass.
_REJECT = np.dtype([("file", "i4"), ("line", "i4"), ("line_class", "u1")])


def assemble(parts: Iterable[Part], name: str, variables: VariableSet) -> Cohort:
    """One cohort of all parts; the order in which their files came changes nothing.

    Of each file a row of _FILES is in memory until the end; the lines go to a Spill. Raises LevyscreenError if they
    find no room there.
    """
    spill, tables, rejects = Spill(), [], []
    reject_names: list[str] = []
    count = 0
    unknown = Unknown((*variables.names, *DESCRIPTORS))
    for part in parts:
        unknown.see(part.unknown, part.names, count)
        spill.add(_lines(part))
        tables.append(_identified(part))
        rejects.append(_examples(part, count))
        reject_names += [part.names[i] for i in part.reject_file] if part.known is None else part.known.reject_names
        count += len(part.names)
    files = pa.concat_tables(tables)
    order = _order(files)
    n_kept = files.column("n_kept").to_numpy().astype(np.int64)
    starts = (np.cumsum(n_kept) - n_kept)[order]
    digest = _source_digest(files)
    files = _without_what_does_not_count(_mark_duplicates(files.drop_columns(["path", "digest"]).take(order)))
    offsets = np.concatenate([[0], np.cumsum(files.column("n_kept").to_numpy(), dtype=np.int64)])
    records = files.select(RECORDS.names).combine_chunks()
    return Cohort(
        name=name,
        fingerprint=f"{digest}-{table_digest(variables)}",
        variables=variables,
        records=records,
        offsets=offsets,
        lines=spill.in_order(starts, offsets),
        rejects=_rejects(np.concatenate(rejects), reject_names, records, order),
        notes=(*_notes(files), *unknown.notes(files.column("problem").is_valid().to_numpy()[np.argsort(order)])),
    )


def table_digest(variables: VariableSet) -> str:
    """16 hexadecimal digits that change with the variable table and with the reader."""
    text = json.dumps([READER_VERSION, variables.to_json()], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def rejudge(cohort: Cohort, variables: VariableSet) -> Cohort:
    """The same lines under other ranges; `variables` must have the cohort's names and horizon.

    Lines on disk are judged whenever they are read. Of what `rejects` names, those of classes that no line has any more
    are left out. Raises CohortError if lines cannot be read any more.
    """
    shift = np.zeros((len(cohort), len(JUDGED)), dtype=np.int64)
    for start, part in cohort.windows(WINDOW_RECORDS):
        anew, _ = variables.judge(part.variable, part.value)
        shift[start : start + len(part)] = _by_record(part, anew) - _by_record(part, part.line_class)
    records = cohort.records
    for judged in JUDGED:
        column = records.schema.get_field_index(count_column(judged))
        counts = (records.column(column).to_numpy() + shift[:, judged]).astype(np.int32)
        records = records.set_column(column, records.schema.field(column), pa.array(counts))
    lines = Judged(cohort.lines, variables)
    left = pa.array([c.name.lower() for c in LineClass if pc.sum(records.column(count_column(c))).as_py()], pa.string())
    return replace(
        cohort,
        fingerprint=f"{cohort.fingerprint.split('-')[0]}-{table_digest(variables)}",
        variables=variables,
        records=records,
        lines=lines.read(0, len(cohort.lines)) if isinstance(cohort.lines, NumericLines) else lines,
        rejects=cohort.rejects.filter(pc.is_in(cohort.rejects.column("line_class"), left)),
    )


def _by_record(part: Cohort, classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Lines of each class that a numeric line can have, (R, 4)."""
    record = np.repeat(np.arange(len(part)), np.diff(part.offsets))
    width = len(JUDGED)
    return np.bincount(record * width + classes, minlength=len(part) * width).reshape(-1, width)


# What is kept of a part ----------------------------------------------------------------------------------------------


def _lines(part: Part) -> NumericLines:
    return NumericLines(part.hours, part.variable, part.value, part.line_class)


def _identified(part: Part) -> pa.Table:
    """A row of _FILES for each file: its record is what its RecordID line says, else the number it is named by."""
    ids, problems, unlike = _identities(part)
    columns = {
        "record_id": ids,
        "file": part.names,
        "problem": problems,
        "subject_id": [None] * len(ids) if part.known is None else part.known.subjects,
        "origin": [None] * len(ids) if part.known is None else part.known.origins,
        "n_lines": part.counts.sum(axis=1),
        **{count_column(c): part.counts[:, c] for c in COUNTED_CLASSES},
        **{fact: _missing_nan(part.descriptors[:, DESCRIPTORS.index(d)]) for fact, d in FACTS.items()},
        "n_kept": np.bincount(part.file, minlength=len(part.names)),
        # Python compares names by code point, and Arrow these bytes in the same order.
        "path": [path.encode("utf-8", "surrogatepass") for path in part.paths],
        "digest": part.digests,
        "unlike": unlike,
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in _FILES}, schema=_FILES)


def _identities(part: Part) -> tuple[Sequence[int | None], list[str | None], list[bool]]:
    """Id and problem of each file, and whether its RecordID line differs from the name."""
    if part.known is not None:
        return part.known.record_ids, part.problems, [False] * len(part.names)
    said = part.descriptors[:, DESCRIPTORS.index("RecordID")].tolist()
    ids: list[int | None] = []
    problems, unlike = [], []
    for name, problem, line in zip(part.names, part.problems, said, strict=True):
        stem = _stem_id(name)
        # A file whose RecordID lines disagree is known by its name alone.
        record_id = stem if problem is not None or line != line else int(line)
        ids.append(record_id)
        problems.append(_NAMELESS if record_id is None and problem is None else problem)
        unlike.append(record_id != stem)
    return ids, problems, unlike


def _missing_nan(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _stem_id(name: str) -> int | None:
    stem = name.removesuffix(".txt")
    return int(stem) if _STEM_ID.fullmatch(stem) and int(stem) < MAX_ID else None


def _examples(part: Part, files_before: int) -> NDArray[np.void]:
    found = np.empty(len(part.reject_line), _REJECT)
    found["file"] = part.reject_file + files_before
    found["line"], found["line_class"] = part.reject_line, part.reject_class
    return found


# Who is who ---------------------------------------------------------------------------------------------------------


def _order(files: pa.Table) -> NDArray[np.int64]:
    """The files by record id, then name; those without an id at the end."""
    keys = [(key, "ascending") for key in ("record_id", "file", "path")]
    return pc.sort_indices(files, sort_keys=keys).to_numpy().astype(np.int64)


def _source_digest(files: pa.Table) -> str:
    """Of every file's name and bytes: not of the folder, the archive, the order or the time of them."""
    digest = hashlib.blake2b(digest_size=16)
    pairs = files.select(["file", "digest"])
    order = pc.sort_indices(pairs, sort_keys=[("file", "ascending"), ("digest", "ascending")])
    for batch in pairs.take(order).to_batches(max_chunksize=4096):
        pairs_of_batch = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        digest.update(b"".join(name.encode() + b"\0" + of_file for name, of_file in pairs_of_batch))
    return digest.hexdigest()


def _mark_duplicates(files: pa.Table) -> pa.Table:
    """Of the readable files of one record the first counts; the others get a problem."""
    readable = files.column("problem").is_null()
    ids = files.column("record_id").filter(readable).to_numpy()
    taken = np.zeros(len(files), dtype=bool)
    taken[np.flatnonzero(readable)[1:]] = ids[1:] == ids[:-1]
    return _with_column(files, "problem", pc.if_else(pa.array(taken), _TAKEN, files.column("problem")))


def _without_what_does_not_count(files: pa.Table) -> pa.Table:
    """The files with nothing counted, and no fact known, of one that has a problem."""
    counts = files.column("problem").is_null()
    for name in files.column_names:
        if name.startswith("n_") or name in FACTS:
            nothing = pa.scalar(None if name in FACTS else 0, files.schema.field(name).type)
            files = _with_column(files, name, pc.if_else(counts, files.column(name), nothing))
    return files


def _with_column(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), column)


def _notes(files: pa.Table) -> tuple[str, ...]:
    problem = files.column("problem")
    taken = files.column("file").filter(pc.equal(problem, _TAKEN)).to_pylist()
    unlike = files.column("file").filter(pc.and_(files.column("unlike"), problem.is_null())).to_pylist()
    others = files.select(["file", "problem"]).filter(pc.not_equal(problem, _TAKEN)).to_pylist()
    broken = [f"{f['file']} ({f['problem']})" for f in others]
    said = (
        (taken, "not counted, a file whose name comes first has the same RecordID"),
        (unlike, "with a name unlike the RecordID line, which counts"),
        (broken, "not readable as a record"),
    )
    return tuple(f"{_some_files(len(names))} {what}: {_listed(names)}" for names, what in said if names)


def _some_files(count: int) -> str:
    return f"{count:,} file{'s' if count != 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_IN_A_NOTE
    return ", ".join(names[:NAMED_IN_A_NOTE]) + (f" and {more:,} more" if more > 0 else "")


def _rejects(found: NDArray[np.void], names: list[str], records: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """REJECTS in the order of the records, without those of files that have a problem; `names` (M,) of the files."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    record = place[found["file"]]
    rows = np.lexsort((found["line"], record))
    rows = rows[records.column("problem").is_null().to_numpy()[record[rows]]]
    words = pa.array([c.name.lower() for c in LineClass])
    columns = [
        pa.array(names, pa.string()).take(pa.array(rows)),
        pa.array(found["line"][rows]),
        words.take(pa.array(found["line_class"][rows])),
    ]
    return pa.table(columns, schema=REJECTS)
