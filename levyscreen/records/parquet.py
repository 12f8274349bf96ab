"""A cohort on disk: readings, records and rejects as Parquet, and a list of their checksums.

Parquet's own page checksums do not cover its footers, where the schema, the variable table and the fingerprint stand.
B2SUMS covers every byte, and `b2sum -c B2SUMS` checks it without levyscreen.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from levyscreen.errors import CohortError, LevyscreenError, UsageError
from levyscreen.records.assemble import rejudge
from levyscreen.records.cohort import Cohort
from levyscreen.schema import READINGS, RECORDS, REJECTS
from levyscreen.variables import VariableSet

FORMAT_VERSION = 1
FILES = {"readings.parquet": READINGS, "records.parquet": RECORDS, "rejects.parquet": REJECTS}
CHECKSUMS = "B2SUMS"
FOOTER_KEY = b"levyscreen"
ROW_GROUP_ROWS = 1 << 18
PLAIN = ("record", "time_hours", "line_class")  # sorted or nearly constant: smaller and faster than by dictionary


def is_parquet_cohort(path: Path) -> bool:
    """Whether a folder holds the tables of a cohort that `write_cohort` wrote."""
    return all(os.path.isfile(path / name) for name in FILES)


def write_cohort(cohort: Cohort, folder: str | os.PathLike[str]) -> None:
    """Write a cohort to a new or empty folder that `read_cohort` opens; the folder appears whole or not at all.

    Raises UsageError if the folder exists and is not empty, LevyscreenError if it cannot be written.
    """
    target = Path(folder).expanduser()
    if target.exists() and not (target.is_dir() and not os.listdir(target)):
        raise UsageError(f"{target}: exists already; name a new folder")
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=".tmp-", dir=target.parent)
        write_files(cohort, Path(temporary))
        os.replace(temporary, target)
    except OSError as error:
        raise LevyscreenError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def write_files(cohort: Cohort, folder: Path) -> None:
    """Write a cohort's files into a folder, readable by their owner alone."""
    footer = {FOOTER_KEY: json.dumps(_facts(cohort), sort_keys=True).encode()}
    tables = (_readings(cohort), cohort.records, cohort.rejects)
    sums = []
    for name, table in zip(FILES, tables, strict=True):
        data = _encode(table.replace_schema_metadata(footer))
        sums.append(f"{hashlib.blake2b(data).hexdigest()}  {name}\n")
        _write_private(folder / name, data)
    _write_private(folder / CHECKSUMS, "".join(sums).encode())


def _facts(cohort: Cohort) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "name": cohort.name,
        "fingerprint": cohort.fingerprint,
        "variables": cohort.variables.to_json(),
        "notes": list(cohort.notes),
    }


def _readings(cohort: Cohort) -> pa.Table:
    record = np.repeat(np.arange(len(cohort), dtype=np.int32), np.diff(cohort.offsets))
    return pa.table([record, cohort.time_hours, cohort.variable, cohort.value, cohort.line_class], schema=READINGS)


def _encode(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,  # 3 saves 4 % of the bytes and takes longer
        use_dictionary=[name for name in table.column_names if name not in PLAIN],
        row_group_size=ROW_GROUP_ROWS,
        write_page_checksum=True,
    )
    return sink.getvalue()


def _write_private(path: Path, data: pa.Buffer | bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)


def read_parquet(folder: Path, variables: VariableSet) -> Cohort:
    """Open what `write_files` wrote, judged by `variables`.

    Raises CohortError if any byte of it has changed, or if it has other variables or another horizon.
    """
    try:
        cohort = _decode(folder)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise CohortError(f"{folder}: damaged, or of another version; make it again from the record files") from error
    if cohort.variables == variables:
        return cohort
    if (cohort.variables.names, cohort.variables.horizon_hours) != (variables.names, variables.horizon_hours):
        raise CohortError(f"{folder}: its variables are those of {cohort.variables.name}, not of {variables.name}")
    return rejudge(cohort, variables)


def name_of(folder: Path) -> str | None:
    """Name of the cohort in a folder, from its footer; None if that cannot be read."""
    try:
        return str(_footer(pq.read_schema(folder / "records.parquet"))["name"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _decode(folder: Path) -> Cohort:
    data = {name: (folder / name).read_bytes() for name in FILES}
    _verify(data, (folder / CHECKSUMS).read_text())
    tables = {name: _table(data[name], schema) for name, schema in FILES.items()}
    readings, records = tables["readings.parquet"], tables["records.parquet"]
    facts = _footer(readings.schema)
    lengths = np.bincount(readings.column("record").to_numpy(), minlength=records.num_rows)
    return Cohort(
        name=facts["name"],
        fingerprint=facts["fingerprint"],
        variables=VariableSet.from_json(facts["variables"]),
        records=records.replace_schema_metadata(None),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        time_hours=_owned(readings.column("time_hours")),
        variable=_owned(readings.column("variable")),
        value=_owned(readings.column("value")),
        line_class=_owned(readings.column("line_class")),
        rejects=tables["rejects.parquet"].replace_schema_metadata(None),
        notes=tuple(facts["notes"]),
    )


def _verify(data: dict[str, bytes], sums: str) -> None:
    said = {name: digest for digest, _, name in (line.partition("  ") for line in sums.splitlines())}
    for name, content in data.items():
        if said[name] != hashlib.blake2b(content).hexdigest():
            raise ValueError(name)


def _table(data: bytes, schema: pa.Schema) -> pa.Table:
    table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    if not table.schema.equals(schema):
        raise ValueError("another schema")
    return table


def _footer(schema: pa.Schema) -> dict[str, Any]:
    facts = json.loads((schema.metadata or {})[FOOTER_KEY])
    if facts["format_version"] != FORMAT_VERSION:
        raise ValueError("another version")
    return dict(facts)


def _owned(column: pa.ChunkedArray) -> NDArray[Any]:
    """The column as an array that may be written to: torch warns about one that may not."""
    array = column.to_numpy()
    return array if array.flags.writeable else array.copy()
