"""The daily climate of USHCN stations, as the irregular-series benchmarks chunk and thin it: one CSV file.

A row is a series at a time, with a value and a mask for each of five variables. The file that the project's results are
of was rebuilt after the published recipe of GRU-ODE-Bayes, whose own sample was drawn without a seed; hence the name.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from levyscreen.config import MOST
from levyscreen.errors import CohortError
from levyscreen.names import expanded
from levyscreen.records import quoting
from levyscreen.records.assemble import table_digest
from levyscreen.records.cohort import Cohort, NumericLines
from levyscreen.records.grammar import FINE, judge_value
from levyscreen.records.mapped.text import LINE_END
from levyscreen.records.physionet2012 import MAX_ID
from levyscreen.schema import COUNTED_CLASSES, RECORDS, REJECTS, count_column
from levyscreen.types import LineClass
from levyscreen.variables import USHCN

NAME = "USHCN, rebuilt"
MAX_BYTES = 256 << 20  # unpacked
COLUMNS = ("ID", "Time", *(f"{kind}_{i}" for kind in ("Value", "Mask") for i in range(len(USHCN))))


def read_ushcn(path: str | os.PathLike[str]) -> Cohort:
    """The series of a USHCN file, .csv or .csv.gz, as a cohort of five variables; a series' ID is its record id.

    Raises CohortError, naming file, line and remedy, where the file is not whole, has other columns, a cell that is not
    a finite number, an ID or a mask of another kind, a time outside [0, 200], or rows out of order or twice.
    """
    where = expanded(path)
    content = _content(where)
    table = _table(where, content)
    series, time = table[:, 0], table[:, 1]
    value, mask = np.split(table[:, 2:], 2, axis=1)
    _refuse_bad_rows(where, series, time, value, mask)
    row, variable = np.nonzero(mask)  # row by row, and so by series, time, variable
    first = np.flatnonzero(np.diff(series, prepend=-1))
    offsets = np.searchsorted(row, np.append(first, len(series))).astype(np.int64)
    return Cohort(
        name=NAME,
        fingerprint=f"{hashlib.blake2b(content, digest_size=16).hexdigest()}-{table_digest(USHCN)}",
        variables=USHCN,
        records=_records(where.name, series[first].astype(np.int64), np.diff(offsets)),
        offsets=offsets,
        lines=_lines(time[row], variable, value[row, variable]),
        rejects=REJECTS.empty_table(),
    )


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            content = (gzip.GzipFile(fileobj=raw) if packed else raw).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CohortError(
            f"{path} cannot be read: {quoting.reason(error)}; give a whole .csv or .csv.gz file"
        ) from error
    if len(content) > MAX_BYTES:
        raise CohortError(f"{path} holds more than {MAX_BYTES >> 20} MiB: give a USHCN file, which has 20")
    return content


def _table(path: Path, content: bytes) -> NDArray[np.float64]:
    """Every cell of the file, (rows, 12), all of them finite."""
    header = LINE_END.split(content, maxsplit=1)[0].decode(errors="replace").strip()
    if header != ",".join(COLUMNS):
        raise CohortError(f"{path}, line 1 must be {','.join(COLUMNS)}, and is not: give a USHCN file")
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(content),
            pyarrow.csv.ReadOptions(use_threads=False),
            pyarrow.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.float64())),
        )
    except pa.ArrowInvalid as error:
        raise _bad_cell(path, content) from error
    cells = np.column_stack([column.to_numpy() for column in table.columns])
    if not len(cells):
        raise CohortError(f"{path} has no rows below its header: give a USHCN file")
    if not np.isfinite(cells).all():
        raise _bad_cell(path, content)
    return cells


def _bad_cell(path: Path, content: bytes) -> CohortError:
    """Which line it was: looked for one by one, once it is known that there is one."""
    for number, line in enumerate(LINE_END.split(content)[1:], 2):
        cells = line.decode(errors="replace").split(",")
        if len(cells) != len(COLUMNS):
            return CohortError(f"{path}, line {number} has {len(cells)} cells, not {len(COLUMNS)}: mend or delete it")
        for column, cell in zip(COLUMNS, cells, strict=True):
            if judge_value(cell)[1] != FINE:
                return CohortError(
                    f"{path}, line {number}: {column} is not a finite number; write what was not observed as "
                    "0 with mask 0"
                )
    return CohortError(f"{path} is not a table of numbers: write it again as plain CSV")


def _refuse_bad_rows(
    path: Path,
    series: NDArray[np.float64],
    time: NDArray[np.float64],
    value: NDArray[np.float64],
    mask: NDArray[np.float64],
) -> None:
    same = series[1:] == series[:-1]
    disordered = np.r_[False, (series[1:] < series[:-1]) | (same & (time[1:] < time[:-1]))]
    twice = np.r_[False, same & (time[1:] == time[:-1])]
    horizon = USHCN.horizon_hours
    for bad, what in (
        (
            (series < 0) | (series % 1 != 0) | (series > MAX_ID),
            "the ID is not a whole number from 0 on; number the series",
        ),
        ((time < 0) | (time > horizon), f"the time is outside [0, {horizon:g}]; scale the times to that"),
        (((mask != 0) & (mask != 1)).any(axis=1), "a mask is neither 0 nor 1; write 1 where the value was observed"),
        (
            (abs(value) > MOST).any(axis=1),
            f"a value is beyond {MOST:g}; write what was not observed as 0 with mask 0",
        ),
        (disordered, "it comes after a later row; sort the rows by ID, then Time"),
        (twice, "ID and Time are those of the line before; merge the two into one row"),
    ):
        if bad.any():
            raise CohortError(f"{path}, line {int(np.argmax(bad)) + 2}: {what}")


def _records(file: str, record_id: NDArray[np.int64], readings: NDArray[np.int64]) -> pa.Table:
    columns = {field.name: pa.nulls(len(record_id), field.type) for field in RECORDS}
    columns |= {count_column(c): pa.array(np.zeros(len(record_id), dtype=np.int32)) for c in COUNTED_CLASSES}
    counts = pa.array(readings.astype(np.int32))
    columns |= {"n_lines": counts, count_column(LineClass.READING): counts}
    columns |= {"record_id": pa.array(record_id), "file": pa.array([file] * len(record_id))}
    return pa.table(columns, schema=RECORDS)


def _lines(time: NDArray[np.float64], variable: NDArray[np.int64], value: NDArray[np.float64]) -> NumericLines:
    classes, _ = USHCN.judge(variable, value)
    return NumericLines(time.astype(np.float32), variable.astype(np.int16), value, classes)
