"""Reader of PhysioNet-2012 record files: every line ends as a reading, a descriptor, or in a named reject class.

Files are read in batches of a few megabytes, on a few threads, so memory is bounded by what is kept.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import RecordError
from levyscreen.records.archives import RecordFile
from levyscreen.records.grammar import FINE, body_of
from levyscreen.records.lines import Lines, read_lines
from levyscreen.records.unknown import Met
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, VariableSet

BATCH_BYTES = 6 << 20
USUAL_LINE = 16  # bytes; a batch of shorter lines holds fewer bytes, since each line costs memory
MAX_LINES = 200_000  # each minute of 48 hours and each of 36 variables makes 103,716
EXAMPLES = 3  # rejects listed for each file and class
MAX_ID = 2**53  # beyond it a float does not hold every integer


@dataclass(frozen=True)
class Known:
    """What a reader of tables knows of its F records, which their names do not say."""

    record_ids: list[int]
    subjects: list[int | None]
    origins: list[int | None]  # when hour 0 was, microseconds since 1970
    reject_names: list[str]  # (M,) the file that each reject stands in


@dataclass(frozen=True)
class Part:
    """What a batch of F files holds: their lines sorted by file, time, variable, value."""

    names: list[str]
    paths: list[str]
    digests: list[bytes]
    problems: list[str | None]
    descriptors: NDArray[np.float64]  # (F, 6) in the order of DESCRIPTORS; NaN: missing
    counts: NDArray[np.int32]  # (F, classes)
    file: NDArray[np.int32]  # (N,) file of each line
    hours: NDArray[np.float32]  # (N,)
    variable: NDArray[np.int16]  # (N,)
    value: NDArray[np.float64]  # (N,)
    line_class: NDArray[np.uint8]  # (N,)
    reject_file: NDArray[np.int32]  # (M,)
    reject_line: NDArray[np.int32]  # (M,)
    reject_class: NDArray[np.uint8]  # (M,)
    known: Known | None = None
    unknown: Met = field(default_factory=dict)  # parameters that are not known


def read_parts(files: Iterable[RecordFile], variables: VariableSet) -> Iterator[Part]:
    """Parse record files batch by batch, on a few threads, in the order they come and in bounded memory."""
    workers = min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        yield from _map_bounded(pool, lambda batch: parse_batch(batch, variables), _batches(files), workers + 1)


def _map_bounded(
    pool: ThreadPoolExecutor, work: Callable[[Any], Part], items: Iterable[Any], ahead: int
) -> Iterator[Part]:
    waiting: deque[Future[Part]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _batches(files: Iterable[RecordFile]) -> Iterator[list[RecordFile]]:
    batch: list[RecordFile] = []
    size = 0
    for file in map(_checked_length, files):
        batch.append(file)
        size += max(len(file.data), USUAL_LINE * _count_lines(file)) + 256  # an empty file costs something too
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _count_lines(file: RecordFile) -> int:
    return max(file.data.count(b"\n"), file.data.count(b"\r"))


def _checked_length(file: RecordFile) -> RecordFile:
    too_many = len(file.data) > MAX_LINES and _count_lines(file) > MAX_LINES
    return replace(file, data=b"", problem=f"more than {MAX_LINES:,} lines, no record has") if too_many else file


def parse_batch(files: Sequence[RecordFile], variables: VariableSet) -> Part:
    """Read a batch of record files; whatever they hold, this raises nothing."""
    bodies, problems = _bodies(files)
    lines = read_lines(bodies, variables)
    classes = classify(lines, variables)
    descriptors, conflicts = _descriptors(lines, classes, len(files), len(variables))
    for file in conflicts:
        problems[file] = "its RecordID lines name different records"
    fine = np.array([p is None for p in problems], dtype=bool)[lines.file]
    keep = np.flatnonzero(fine & (lines.refusal == FINE) & (lines.code < len(variables)))
    keep = keep[_order(lines, keep)]
    rejects = _examples(lines, classes, fine)
    return Part(
        names=[f.name for f in files],
        paths=[f.path for f in files],
        digests=[hashlib.blake2b(f.data, digest_size=16).digest() for f in files],
        problems=problems,
        descriptors=descriptors,
        counts=_count(lines.file[fine], classes[fine], len(files)),
        file=lines.file[keep],
        hours=(lines.minutes[keep] / 60).astype(np.float32),
        variable=lines.code[keep],
        value=lines.value[keep],
        line_class=classes[keep],
        reject_file=lines.file[rejects],
        reject_line=lines.number[rejects],
        reject_class=classes[rejects],
        unknown=lines.unknown,
    )


def _bodies(files: Sequence[RecordFile]) -> tuple[list[bytes], list[str | None]]:
    bodies, problems = [b""] * len(files), [f.problem for f in files]
    for i, file in enumerate(files):
        if file.problem is None:
            try:
                bodies[i] = body_of(file.data)
            except RecordError as error:
                problems[i] = str(error)
    return bodies, problems


# From lines to rows -------------------------------------------------------------------------------------------------


def classify(lines: Lines, variables: VariableSet) -> NDArray[np.uint8]:
    """LineClass of each line: its refusal, or what the variable set says of its value, or DESCRIPTOR."""
    is_descriptor = lines.code >= len(variables)
    classes, _ = variables.judge(np.where(is_descriptor, 0, lines.code), lines.value)
    classes[is_descriptor] = LineClass.DESCRIPTOR
    classes[is_descriptor & (lines.value < 0)] = LineClass.NEGATIVE  # a missing height is written -1
    return np.where(lines.refusal == FINE, classes, lines.refusal)


def _descriptors(
    lines: Lines, classes: NDArray[np.uint8], n_files: int, n_variables: int
) -> tuple[NDArray[np.float64], list[int]]:
    """First valid value of each descriptor, (F, 6), and the files whose RecordID lines disagree.

    First in time and then by value, not by line: the order of lines must change nothing.
    """
    found = np.full((n_files, len(DESCRIPTORS)), np.nan)
    rows = np.flatnonzero(classes == LineClass.DESCRIPTOR)
    is_id = lines.code[rows] == n_variables + DESCRIPTORS.index("RecordID")
    rows = rows[~is_id | ((lines.value[rows] % 1 == 0) & (lines.value[rows] < MAX_ID))]
    rows = rows[np.lexsort((lines.value[rows], lines.minutes[rows]))][::-1]
    which = lines.code[rows] - n_variables
    found[lines.file[rows], which] = lines.value[rows]  # the last assignment, the first in time, stays
    ids = rows[which == DESCRIPTORS.index("RecordID")]
    conflicts = lines.file[ids][lines.value[ids] != found[lines.file[ids], DESCRIPTORS.index("RecordID")]]
    return found, sorted({int(file) for file in conflicts})


def _order(lines: Lines, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order of some rows by file, time, variable, value; they are nearly sorted as they come."""
    file, seconds = lines.file[rows].astype(np.int64), np.rint(60 * lines.minutes[rows]).astype(np.int64)
    key = file << 38 | seconds << 16 | lines.code[rows]  # seconds are below 1,000 hours, which need 22 bits
    order = np.argsort(key, kind="stable")
    key = key[order]
    tied = np.zeros(len(rows), dtype=bool)
    tied[1:] = key[1:] == key[:-1]
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    order[places] = order[places][np.lexsort((lines.value[rows[order[places]]], key[places]))]
    return order


def _count(file: NDArray[np.int32], classes: NDArray[np.uint8], n_files: int) -> NDArray[np.int32]:
    width = len(LineClass)
    flat = np.bincount(file * width + classes, minlength=n_files * width)
    return flat.reshape(n_files, width).astype(np.int32)


def _examples(lines: Lines, classes: NDArray[np.uint8], fine: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first few lines of each file and class that are not plain readings, by file and line."""
    rows = np.flatnonzero(fine & (classes != LineClass.READING) & (classes != LineClass.DESCRIPTOR))
    rows = rows[np.lexsort((lines.number[rows], classes[rows], lines.file[rows]))]
    group = lines.file[rows] * len(LineClass) + classes[rows]
    rank = np.arange(len(rows)) - np.searchsorted(group, group)
    rows = rows[rank < EXAMPLES]
    return rows[np.lexsort((lines.number[rows], lines.file[rows]))]
