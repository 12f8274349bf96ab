"""Parquet tables in blocks of bounded size, whatever a small file unpacks to.

A Parquet file keeps a text once, in a dictionary, for any number of rows: 4 MB in 60,000 rows are 2 kB on disk and
240 GB as plain text. So texts are read as dictionaries, and made plain where that is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from levyscreen.records.quoting import Bounded

BLOCK_ROWS = 1 << 16
BLOCK_CELLS = 1 << 22
BLOCK_BYTES = 1 << 27
MOST_ROWS = 2**31 - 1  # a row's number is kept in 32 bits
MOST_CHUNK = 1 << 30  # bytes of a column in a row group, unpacked
MOST_WIDTH = 1 << 16  # bytes of each value of a column of fixed width
MOST_PLAIN = BLOCK_BYTES  # of a block's texts, one a row
FEW_ROWS = 1 << 20  # which no file is refused for
ROWS_A_BYTE = 16  # of the file; real tables have fewer than one
PREFIXED = "DELTA_BYTE_ARRAY"  # in which a text costs no more than what differs from the one before


def opened(path: Path) -> pq.ParquetFile:
    """A file, its texts to be read as dictionaries. Raises Arrow's errors, and Bounded for too many rows."""
    plain = pq.ParquetFile(path)
    rows = plain.metadata.num_rows
    if rows > MOST_ROWS or rows > max(FEW_ROWS, ROWS_A_BYTE * path.stat().st_size):
        raise Bounded(f"it says that it has {rows:,} rows, more than a file of its size holds")
    texts = [leaf.path for leaf in _leaves(plain) if leaf.physical_type == "BYTE_ARRAY"]
    coded = [path for path in texts if not _prefixed(plain, path)]
    # Julian days and nanoseconds, 96 bits of both: in milliseconds no such time wraps around.
    return pq.ParquetFile(path, read_dictionary=coded, coerce_int96_timestamp_unit="ms")


def batches(file: pq.ParquetFile, names: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
    """The rows in order, a few columns of them. Raises Bounded where a column is too large to be read in parts."""
    chunks = [chunk for chunk in _chunks(file) if chunk.path_in_schema.partition(".")[0] in set(names)]
    for chunk in chunks:
        if chunk.total_uncompressed_size > MOST_CHUNK:
            raise Bounded(f"a column of one row group has more than {MOST_CHUNK >> 30} GB: write smaller row groups")
    for leaf in _leaves(file):
        if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" and leaf.length > MOST_WIDTH:
            raise Bounded(f"each value of a column has {leaf.length:,} bytes, more than {MOST_WIDTH:,}")
    for batch in file.iter_batches(_rows_at_once(chunks, len(names)), columns=list(names)):
        yield {name: _plain(batch.column(batch.schema.get_field_index(name))) for name in names}


def _leaves(file: pq.ParquetFile) -> list[Any]:
    return [file.schema.column(i) for i in range(len(file.schema))]


def _chunks(file: pq.ParquetFile) -> Iterator[Any]:
    """What the file says of each column of each row group."""
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        yield from (about.column(i) for i in range(about.num_columns))


def _prefixed(file: pq.ParquetFile, path: str) -> bool:
    return any(chunk.path_in_schema == path and PREFIXED in chunk.encodings for chunk in _chunks(file))


def _rows_at_once(chunks: Sequence[Any], columns: int) -> int:
    """As many as make a block of plain texts of bounded size; each may be as long as all of its column on disk."""
    rows = min(BLOCK_ROWS, max(1, BLOCK_CELLS // max(1, columns)))
    longest = max((c.total_uncompressed_size for c in chunks if PREFIXED in c.encodings), default=1)
    return max(1, min(rows, MOST_PLAIN // max(1, longest)))


def _plain(column: pa.Array) -> pa.Array:
    """A column as what it is stored as, its texts one a row, unless that takes too much memory."""
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    if not pt.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return column
    which, used = np.unique(column.indices.drop_null().to_numpy(), return_inverse=True)
    coded = column.dictionary.take(pa.array(which, pa.int64()))
    length = pc.binary_length(coded).to_numpy(zero_copy_only=False)
    if int(length[used].sum()) <= MOST_PLAIN:
        return column.dictionary_decode()
    place = np.zeros(len(column), np.int32)
    place[column.is_valid().to_numpy(zero_copy_only=False)] = used
    indices = pa.array(place, mask=column.is_null().to_numpy(zero_copy_only=False))
    return pa.DictionaryArray.from_arrays(indices, coded)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind))
