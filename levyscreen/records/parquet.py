"""A cohort on disk: readings, records and rejects as Parquet, and a list of their checksums.

Parquet's own page checksums do not cover its footers, where the schema, the variable table and the fingerprint stand.
B2SUMS covers every byte, and `b2sum -c B2SUMS` checks it without levyscreen.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from levyscreen.errors import CohortError, LevyscreenError, UsageError
from levyscreen.names import expanded, file_name
from levyscreen.records.assemble import rejudge
from levyscreen.records.checks import LineCheck, check_records
from levyscreen.records.cohort import COLUMNS, Cohort, LineStore, NumericLines, records_of
from levyscreen.records.spill import MEMORY_LINES
from levyscreen.schema import READINGS, RECORDS, REJECTS
from levyscreen.temporaries import file_mode, folder_beside, private_folder, sweep
from levyscreen.variables import PHYSIONET2012, VariableSet

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FORMAT_VERSION = 2  # 2: records know their subject and the time of hour 0
FILES = {"readings.parquet": READINGS, "records.parquet": RECORDS, "rejects.parquet": REJECTS}
CHECKSUMS = "B2SUMS"
FOOTER_KEY = b"levyscreen"
ROW_GROUP_ROWS = 1 << 18
# What comes of bytes or facts that this module did not write.
_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, pa.ArrowException)
PLAIN = ("record", "time_hours", "line_class")  # sorted or nearly constant: smaller and faster than by dictionary


def is_parquet_cohort(path: Path) -> bool:
    """Whether a folder holds the tables of a cohort that `write_cohort` wrote."""
    return all(os.path.isfile(path / name) for name in FILES)


def write_cohort(cohort: Cohort, folder: str | os.PathLike[str]) -> None:
    """Write a cohort to a new or empty folder that `read_cohort` opens; the folder appears whole or not at all.

    Raises UsageError if the folder exists and is not empty, LevyscreenError if it cannot be written.
    """
    target = expanded(folder)
    if target.exists() and not (target.is_dir() and not os.listdir(target)):
        raise UsageError(f"{target}: exists already; name a new folder")
    try:
        private_folder(target.parent)
        sweep(target.parent)
        with folder_beside(target) as temporary:
            write_files(cohort, temporary)
            os.replace(temporary, target)
    except OSError as error:
        raise LevyscreenError(f"{target}: cannot be written: {error.strerror or error}") from error


def write_files(cohort: Cohort, folder: Path) -> None:
    """Write a cohort's files into a folder, readable by their owner alone; holds a row group of its lines at a time."""
    footer = {FOOTER_KEY: json.dumps(_facts(cohort), sort_keys=True).encode()}
    contents = (_readings(cohort), [cohort.records], [cohort.rejects])
    sums = []
    for (name, schema), tables in zip(FILES.items(), contents, strict=True):
        digest = _write_tables(folder / name, tables, schema.with_metadata(footer))
        sums.append(f"{digest}  {name}\n")
    with _Summed(folder / CHECKSUMS) as stream:
        stream.write("".join(sums).encode())


def _facts(cohort: Cohort) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "name": cohort.name,
        "fingerprint": cohort.fingerprint,
        "variables": cohort.variables.to_json(),
        "unread": cohort.unread,
        "notes": list(cohort.notes),
    }


def _readings(cohort: Cohort) -> Iterator[pa.Table]:
    """The lines as tables of READINGS, a row group each."""
    count = int(cohort.offsets[-1])
    for start in range(0, count, ROW_GROUP_ROWS):
        stop = min(start + ROW_GROUP_ROWS, count)
        first, lengths = records_of(cohort.offsets, start, stop)
        record = np.repeat(np.arange(first, first + len(lengths), dtype=np.int32), lengths)
        lines = cohort.lines.read(start, stop)
        yield pa.table([record, *(getattr(lines, name) for name in READINGS.names[1:])], schema=READINGS)


class _Summed(io.BufferedWriter):
    """A new file, readable by its owner alone unless all are shared, that sums up what is written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file_mode()), "wb"))
        self.digest = hashlib.blake2b()

    def write(self, data: ReadableBuffer, /) -> int:
        self.digest.update(data)
        return super().write(data)


def _write_tables(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> str:
    """Write tables one after the other; gives the checksum of the file."""
    options = {
        "compression": "zstd",
        "compression_level": 1,  # 3 saves 4 % of the bytes and takes longer
        "use_dictionary": [name for name in schema.names if name not in PLAIN],
        "write_page_checksum": True,
    }
    with _Summed(path) as stream:
        with pq.ParquetWriter(stream, schema, **options) as writer:
            for table in tables:
                writer.write_table(table, ROW_GROUP_ROWS)
        return stream.digest.hexdigest()


def read_parquet(folder: Path, variables: VariableSet | None) -> Cohort:
    """Open what `write_files` wrote, judged by `variables`; by default by its own, or PHYSIONET2012 if they are its.

    Raises CohortError if any byte of it has changed, if its tables do not hold together, or if it has other variables
    or another horizon.
    """
    try:
        cohort = _decode(folder)
    except (OSError, *_NOT_OURS) as error:
        raise _damaged(folder) from error
    if variables is None:
        variables = PHYSIONET2012 if _measures(cohort.variables) == _measures(PHYSIONET2012) else cohort.variables
    if cohort.variables == variables:
        return cohort
    if (cohort.variables.names, cohort.variables.horizon_hours) != (variables.names, variables.horizon_hours):
        raise CohortError(f"{folder}: its variables are those of {cohort.variables.name}, not of {variables.name}")
    return rejudge(cohort, variables)


def _measures(variables: VariableSet) -> tuple[object, ...]:
    """What is measured, in which units: a mapping of one's own may have the name of our table and other units."""
    return variables.name, variables.horizon_hours, [(v.name, v.unit) for v in variables.variables]


def _damaged(folder: Path) -> CohortError:
    return CohortError(f"{folder}: damaged, or of another version; make it again from the record files")


def name_of(folder: Path) -> str | None:
    """Name of the cohort in a folder, from its footer; None if that cannot be read."""
    try:
        return str(_footer(pq.read_schema(folder / "records.parquet"))["name"])
    except (OSError, *_NOT_OURS):
        return None


def _decode(folder: Path) -> Cohort:
    """The cohort in a folder, every byte of which has been verified; a large one keeps its lines there."""
    sums = _sums((folder / CHECKSUMS).read_text())
    files = {name: _verified(folder / name, sums[name], schema) for name, schema in FILES.items()}
    readings, records = files["readings.parquet"], files["records.parquet"].read()
    facts = _footer(readings.schema_arrow)
    variables = VariableSet.from_json(facts["variables"])
    offsets, lines = _checked_lines(folder, readings, records, variables)
    return Cohort(
        name=_plain(facts["name"]),
        fingerprint=str(facts["fingerprint"]),
        variables=variables,
        records=records.replace_schema_metadata(None),
        offsets=offsets,
        lines=lines,
        rejects=files["rejects.parquet"].read().replace_schema_metadata(None),
        unread=int(facts.get("unread", 0)),
        notes=tuple(map(str, facts["notes"])),
    )


def _plain(name: str) -> str:
    """A cohort's name, which names the folder of its results. Raises ValueError if that would lie elsewhere."""
    if name != file_name(name):
        raise ValueError("a name that leads away")
    return name


def _sums(text: str) -> dict[str, str]:
    return {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}


def _verified(path: Path, digest: str, schema: pa.Schema) -> pq.ParquetFile:
    """A Parquet file whose bytes have this checksum; it stays open, so that another process may delete it."""
    stream = pa.OSFile(os.fspath(path))
    if hashlib.file_digest(stream, hashlib.blake2b).hexdigest() != digest:
        raise ValueError(path.name)
    return _opened(stream, schema)


def _opened(stream: pa.NativeFile, schema: pa.Schema) -> pq.ParquetFile:
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    if not file.schema_arrow.equals(schema):
        raise ValueError("another schema")
    return file


def _checked_lines(
    folder: Path, readings: pq.ParquetFile, records: pa.Table, variables: VariableSet
) -> tuple[NDArray[np.int64], LineStore]:
    """(R + 1,) offsets of R records and the lines, those of a large cohort being left where they are.

    Offsets are of the lines alone: a count of negatives in RECORDS has descriptors in it. Raises ValueError unless the
    tables hold what a reader may rely on.
    """
    check, small = LineCheck(variables, len(records)), readings.metadata.num_rows <= MEMORY_LINES
    whole = NumericLines.empty(readings.metadata.num_rows if small else 0)
    filled = 0
    for group in range(readings.num_row_groups):
        lines = check.add(readings.read_row_group(group))
        if small:
            whole.fill(filled, lines)
        filled += len(lines)
    check_records(records, check.counts)
    offsets = np.concatenate([[0], np.cumsum(check.counts.sum(axis=1))])
    return offsets, whole if small else StoredLines(folder, readings)


class StoredLines:
    """The lines of a Parquet cohort, a row group in memory at a time; one thread may read them."""

    def __init__(self, folder: Path, readings: pq.ParquetFile) -> None:
        self._folder, self._readings = folder, readings
        groups = [readings.metadata.row_group(i).num_rows for i in range(readings.num_row_groups)]
        self._bounds = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])  # of the lines of each row group
        self._last = -1, NumericLines.empty(0)

    def read(self, start: int, stop: int) -> NumericLines:
        """Lines start:stop. Raises CohortError if they have changed since the cohort was opened."""
        found = NumericLines.empty(stop - start)
        first, lengths = records_of(self._bounds, start, stop)
        filled = 0
        for group, count in enumerate(lengths.tolist(), first):
            skip = start + filled - int(self._bounds[group])
            found.fill(filled, self._group(group).read(skip, skip + count))
            filled += count
        return found

    def _group(self, group: int) -> NumericLines:
        """A row group, kept until another is asked for: neighbouring windows share one."""
        last, lines = self._last
        if last != group:
            try:
                table = self._readings.read_row_group(group, columns=list(COLUMNS))
            except (OSError, pa.ArrowException) as error:
                raise _damaged(self._folder) from error
            lines = NumericLines(*(table.column(name).to_numpy() for name in COLUMNS))
            self._last = group, lines
        return lines


def _footer(schema: pa.Schema) -> dict[str, Any]:
    facts = json.loads((schema.metadata or {})[FOOTER_KEY])
    if facts["format_version"] != FORMAT_VERSION:
        raise ValueError("another version")
    return dict(facts)
