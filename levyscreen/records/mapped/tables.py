"""The files of a mapped source, and their rows a block at a time: CSV and its kin, packed or not, and Parquet.

Nothing here knows what a column means; it is read as it is, and every row keeps its number.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.archives import Stamp

DELIMITERS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".psv": "|"}
PARQUET = ".parquet"
PACKED = ".gz"
BLOCK_BYTES = 4 << 20
BLOCK_ROWS = 1 << 16
MEDS_DATA = "data"


@dataclass(frozen=True)
class TableFile:
    """One file of a source."""

    path: Path
    name: str  # within the source, made printable
    ending: str  # a key of DELIMITERS, or PARQUET


@dataclass(frozen=True)
class Block:
    """Some rows of one file."""

    row: NDArray[np.int64]  # (N,) number of each: 1 is the header or, where there is none, the first row
    columns: dict[str, pa.Array]  # (N,) each

    def like(self, other: Block) -> bool:
        """Whether the two have the same columns of the same types."""
        return {n: c.type for n, c in self.columns.items()} == {n: c.type for n, c in other.columns.items()}


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks that are like each other as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = {name: pa.concat_arrays([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    return Block(np.concatenate([block.row for block in blocks]), columns)


def ending_of(name: str) -> str | None:
    """The ending by which a file is known as a table, without that of packing; None where it is no table."""
    plain = name.lower().removesuffix(PACKED)
    found = next((e for e in DELIMITERS if plain.endswith(e)), None)
    return found or (PARQUET if name.lower().endswith(PARQUET) else None)


def is_table(path: Path) -> bool:
    """Whether a path names a table, or a folder of tables, rather than record files or an archive of them."""
    if not path.is_dir():
        return (ending_of(path.name) or ".txt") != ".txt" and path.is_file()
    if (path / MEDS_DATA).is_dir():
        return any((path / MEDS_DATA).rglob(f"*{PARQUET}"))
    names = [name for name in os.listdir(path) if not name.startswith(".")]
    return not any(name.endswith(".txt") for name in names) and any(map(ending_of, names))


def table_files(source: Path, kind: str) -> list[TableFile]:
    """The tables of a file, a folder, or below the data folder of MEDS; by name.

    Raises CohortError where there is none, or a folder holds tables of more than one kind.
    """
    if not source.exists():
        raise CohortError(
            f"{source}: no such file or folder; set source in the mapping, relative to the mapping's folder"
        )
    if source.is_file():
        found = [(source, source.name)]
    else:
        root = source / MEDS_DATA if kind == "meds" else source
        paths = root.rglob(f"*{PARQUET}") if kind == "meds" else root.iterdir()
        found = [(path, str(path.relative_to(source))) for path in paths if path.is_file()]
    files = [
        TableFile(path, printable(name), ending_of(name) or "") for path, name in sorted(found, key=lambda f: f[1])
    ]
    files = [file for file in files if file.ending and not Path(file.name).name.startswith(".")]
    if not files:
        wanted = (
            f"a folder {MEDS_DATA} with {PARQUET} files" if kind == "meds" else f"{', '.join(DELIMITERS)} or {PARQUET}"
        )
        raise CohortError(f"{source}: no table there; a source is {wanted}")
    endings = sorted({file.ending for file in files})
    if len(endings) > 1:
        raise CohortError(
            f"{source}: holds {' and '.join(endings)} files: put the tables of one kind into their own folder"
        )
    return files


def stamps(files: Sequence[TableFile]) -> tuple[Stamp, ...]:
    """What changes whenever a file is edited. Raises CohortError for one that is gone."""
    found = []
    for file in files:
        try:
            of_file = os.stat(file.path)
        except OSError as error:
            raise CohortError(f"{file.path}: cannot be opened: {error.strerror}") from error
        found.append(Stamp(file.name, of_file.st_size, of_file.st_mtime_ns, of_file.st_ctime_ns, None))
    return tuple(found)


class TableReader:
    """Reads the blocks of one file; counts the rows that cannot be told apart into fields."""

    def __init__(self, file: TableFile, header: Sequence[str] | None = None, delimiter: str | None = None) -> None:
        self.file = file
        self.malformed: list[int] = []  # their numbers
        self.within_fields = 0  # lines of a text that are no rows, but go on in a quoted field
        self._header = header
        self._delimiter = delimiter or DELIMITERS.get(file.ending, ",")
        self.columns = self._columns()

    def _columns(self) -> list[str]:
        if self.file.ending == PARQUET:
            return list(self._parquet().schema_arrow.names)
        found = self.first_row if self._header is None else list(self._header)
        twice = sorted({name for name in found if found.count(name) > 1 and name})
        if twice:
            raise CohortError(f"{self.file.path}: has the column {twice[0]!r} twice: rename one of them")
        return found

    @property
    def first_row(self) -> list[str]:
        """The fields of a text's first row, blanks around them cut off."""
        return [field.strip() for field in self._first_fields()]

    def require(self, names: Sequence[str]) -> None:
        """Raises CohortError, with the nearest name there is, where a column is missing."""
        for name in names:
            if name not in self.columns:
                near = difflib.get_close_matches(name, self.columns, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(self.columns[:12])}"
                raise CohortError(f"{self.file.path}: has no column {name!r}{hint}")

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """The rows in order, with some of the columns. Raises CohortError where the file is damaged."""
        self.require(names)
        read = self._parquet_blocks if self.file.ending == PARQUET else self._csv_blocks
        try:
            yield from read(list(names))
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> CohortError:
        return CohortError(f"{self.file.path}: cannot be read as a {self.file.ending} table: {_first_line(error)}")

    # Parquet

    def _parquet(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.file.path)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _parquet_blocks(self, names: list[str]) -> Iterator[Block]:
        start = 1
        for batch in self._parquet().iter_batches(BLOCK_ROWS, columns=names):
            rows = np.arange(start, start + batch.num_rows)
            yield Block(rows, {name: batch.column(batch.schema.get_field_index(name)) for name in names})
            start += batch.num_rows

    # Text

    def _first_fields(self) -> list[str]:
        try:
            with self._opened() as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
                first = next(csv.reader(text, delimiter=self._delimiter), None)
        except (OSError, EOFError, zlib.error, ValueError, csv.Error) as error:
            raise self._unreadable(error) from error
        if not first:
            raise CohortError(f"{self.file.path}: is empty; a table has a header, or the mapping gives one")
        return first

    def _opened(self) -> BinaryIO:
        packed = self.file.path.name.lower().endswith(PACKED)
        return cast(BinaryIO, gzip.open(self.file.path, "rb") if packed else open(self.file.path, "rb"))

    def _csv_blocks(self, names: list[str]) -> Iterator[Block]:
        skipped: list[int] = []

        def skip(row: pa.csv.InvalidRow) -> str:
            skipped.append(row.number)
            return "skip"

        head = 0 if self._header is not None else 1
        with self._opened() as raw:
            if not _has_more_than(raw, head):
                return
            lines = _Lines(raw)
            reader = pyarrow.csv.open_csv(
                lines,
                pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=BLOCK_BYTES, column_names=self.columns, skip_rows=head
                ),
                pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip),
                pyarrow.csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
            start = 0
            for batch in reader:
                yield Block(
                    _numbers(start, batch.num_rows, skipped, head),
                    {name: batch.column(batch.schema.get_field_index(name)) for name in names},
                )
                start += batch.num_rows
        self.malformed = skipped
        self.within_fields = lines.count - start - len(skipped) - head


class _Lines(io.RawIOBase):
    """A stream that counts the lines with something in them, as rows of a text would be."""

    def __init__(self, stream: BinaryIO) -> None:
        self.count = 0
        self._stream, self._last = stream, b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        byte = np.frombuffer(self._last + data, np.uint8)
        ends = (byte == 10) | (byte == 13)
        self.count += int((ends[:-1] & ~ends[1:]).sum())  # a line begins
        self._last = data[-1:] or self._last
        return len(data)


def _has_more_than(stream: BinaryIO, head: int) -> bool:
    """Whether rows follow the header, which Arrow takes for an error where there are none; rewinds the stream."""
    lines = [line for _, line in zip(range(head + 1), iter(stream.readline, b""), strict=False)]
    stream.seek(0)
    return len(lines) > head


def _numbers(start: int, count: int, skipped: Sequence[int], head: int) -> NDArray[np.int64]:
    """Numbers of the valid rows start:start + count, those that were skipped having numbers too."""
    place = np.arange(start, start + count) + head + 1
    before = np.array(skipped, dtype=np.int64) - np.arange(len(skipped))  # valid rows before each, and the header
    return place + np.searchsorted(before, place, "right")


def _first_line(error: Exception) -> str:
    return printable((str(error).splitlines() or [type(error).__name__])[0][:200])
