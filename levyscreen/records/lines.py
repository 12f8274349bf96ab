"""From the bodies of record files to lines, by a fast path and a careful one; both judge a text by `grammar` alone.

The fast path parses a whole batch at once and judges each distinct text once. The careful path reads line by line; it
is taken for files with a line of other than three fields, and it is the fast path's twin in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from levyscreen.records.grammar import (
    BLANKS,
    FINE,
    HEADER,
    judge_parameter,
    judge_time,
    judge_value,
    lines_of,
    parameter_codes,
)
from levyscreen.records.unknown import Met, merged
from levyscreen.types import LineClass
from levyscreen.variables import VariableSet

_THREE_FIELDS = re.compile(rb"(?:[^,\n]*,[^,\n]*,[^,\n]*\n)*")
_TEXT = pa.dictionary(pa.int32(), pa.string())
_COLUMNS = tuple(name.decode() for name in HEADER)
_LINE = np.dtype(
    [("file", "i4"), ("number", "i4"), ("minutes", "f8"), ("code", "i2"), ("value", "f8"), ("refusal", "u1")]
)


@dataclass(frozen=True)
class Lines:
    """Data lines of a batch of files, a row each, in any order of the files."""

    file: NDArray[np.int32]  # position in the batch
    number: NDArray[np.int32]  # 1 is the header
    minutes: NDArray[np.float64]  # since admission
    code: NDArray[np.int16]  # see grammar.parameter_codes
    value: NDArray[np.float64]
    refusal: NDArray[np.uint8]  # LineClass; FINE where every field is
    unknown: Met = field(default_factory=dict)  # parameters that are not known


def read_lines(bodies: Sequence[bytes], variables: VariableSet) -> Lines:
    """Lines of every body: all at once where each line has three fields, the other files line by line."""
    try:
        lines = read_lines_at_once(bodies, variables)
    except pa.ArrowInvalid:
        odd = _odd(bodies)
    else:
        # Arrow gives an empty line, which is no data line, as three empty fields: a bad time.
        odd = _odd(bodies) if (lines.refusal == LineClass.BAD_TIME).any() else {}
    if not odd:
        return lines
    even = read_lines_at_once([b"" if i in odd else body for i, body in enumerate(bodies)], variables)
    return _concatenate([even, read_lines_one_by_one(odd, variables)])


def _odd(bodies: Sequence[bytes]) -> dict[int, bytes]:
    return {i: body for i, body in enumerate(bodies) if not _THREE_FIELDS.fullmatch(body)}


def read_lines_one_by_one(bodies: dict[int, bytes], variables: VariableSet) -> Lines:
    """The careful path: lines of a few bodies, each under its position in the batch."""
    codes = parameter_codes(variables)
    rows = ((i, *line) for i, body in bodies.items() for line in lines_of(body, codes, variables.horizon_hours))
    table = np.fromiter(rows, dtype=_LINE)
    found = Lines(**{name: np.ascontiguousarray(table[name]) for name in _LINE.fields or ()}, unknown={})
    return replace(found, unknown=_unknown_one_by_one(bodies, found))


def _unknown_one_by_one(bodies: dict[int, bytes], lines: Lines) -> Met:
    found: Met = {}
    unknown = lines.refusal == LineClass.UNKNOWN_PARAMETER
    for file in np.unique(lines.file[unknown]).tolist():
        texts = bodies[file].split(b"\n")
        for number in lines.number[unknown & (lines.file == file)].tolist():
            what = file, texts[number - 2].decode().split(",")[1].strip(BLANKS)
            count, first = found.get(what, (0, number))
            found[what] = count + 1, min(first, number)
    return found


def read_lines_at_once(bodies: Sequence[bytes], variables: VariableSet) -> Lines:
    """The fast path: one parse of all bodies, each distinct text judged once.

    Raises pyarrow.ArrowInvalid if a line has other than three fields; no line may be empty.
    """
    counts = np.array([body.count(b"\n") for body in bodies], dtype=np.int64)
    codes, (times, parameters, values) = _split(bodies)
    names = parameter_codes(variables)
    minutes, bad_time = _verdicts([judge_time(t, variables.horizon_hours) for t in times], np.float64)
    code, bad_parameter = _verdicts([judge_parameter(t, names) for t in parameters], np.int16)
    value, bad_value = _verdicts([judge_value(t) for t in values], np.float64)
    refusal = bad_time[codes[0]]
    for bad, column in ((bad_parameter, codes[1]), (bad_value, codes[2])):
        if bad.any():
            refusal = np.where(refusal == FINE, bad[column], refusal)
    starts = np.cumsum(counts) - counts
    file = np.repeat(np.arange(len(bodies), dtype=np.int32), counts)
    number = (np.arange(counts.sum()) - np.repeat(starts, counts) + 2).astype(np.int32)
    return Lines(
        file,
        number,
        minutes[codes[0]],
        code[codes[1]],
        value[codes[2]],
        refusal,
        _unknown(file, number, codes[1], refusal, parameters),
    )


def _unknown(
    file: NDArray[np.int32],
    number: NDArray[np.int32],
    parameter: NDArray[np.int32],
    refusal: NDArray[np.uint8],
    texts: Sequence[str],
) -> Met:
    rows = np.flatnonzero(refusal == LineClass.UNKNOWN_PARAMETER)
    where = np.stack([file[rows], parameter[rows]])
    pairs, first, counts = np.unique(where, axis=1, return_index=True, return_counts=True)
    lines = number[rows[first]].tolist()
    found = (
        {(of, texts[which].strip(BLANKS)): (count, line)}
        for (of, which), count, line in zip(pairs.T.tolist(), counts.tolist(), lines, strict=True)
    )
    return merged(found)


def _split(bodies: Sequence[bytes]) -> tuple[list[NDArray[np.int32]], list[list[str]]]:
    """Index of each field's text, (N,) for each of three columns, and the distinct texts of each."""
    # A header, and not `column_names`: Arrow drops a byte order mark at the start of its input.
    buffer = b"".join([b",".join(HEADER), b"\n", *bodies])
    table = pyarrow.csv.read_csv(
        pa.BufferReader(buffer),
        # One block: a block boundary inside a long line would be an error. The threads are the batches' own.
        pyarrow.csv.ReadOptions(use_threads=False, block_size=len(buffer) + 1),
        pyarrow.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(check_utf8=False, null_values=[], column_types=dict.fromkeys(_COLUMNS, _TEXT)),
    )
    columns = [column.combine_chunks() for column in table.unify_dictionaries().columns]
    columns = [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return [c.indices.to_numpy() for c in columns], [c.dictionary.to_pylist() for c in columns]


def _verdicts(verdicts: list[tuple[Any, LineClass]], dtype: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    parsed, refusals = zip(*verdicts, strict=True) if verdicts else ((), ())
    return np.array(parsed, dtype=dtype), np.array(refusals, dtype=np.uint8)


def _concatenate(parts: Sequence[Lines]) -> Lines:
    fields = ("file", "number", "minutes", "code", "value", "refusal")
    return Lines(
        **{f: np.concatenate([getattr(p, f) for p in parts]) for f in fields}, unknown=merged(p.unknown for p in parts)
    )
