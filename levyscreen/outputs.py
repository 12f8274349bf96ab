"""Writing results: whole files or none, and each says where it came from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from levyscreen.errors import LevyscreenError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; renamed to it on success, removed on any failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LevyscreenError(f"folder {path.parent} could not be made: {error.strerror or error}") from error
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise LevyscreenError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Writes strict JSON, indented."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def with_provenance(table: pa.Table, provenance: dict[str, Any]) -> pa.Table:
    """The table with its provenance in the footer, where pandas finds it again as `df.attrs`."""
    return table.replace_schema_metadata((table.schema.metadata or {}) | footer(provenance))


def footer(provenance: dict[str, Any]) -> dict[bytes, bytes]:
    """Footer metadata: under our own name, and under the one that pandas reads attrs from."""
    text = json.dumps(provenance, sort_keys=True).encode()
    return {b"levyscreen": text, b"PANDAS_ATTRS": text}


def write_parquet(path: Path, table: pa.Table, provenance: dict[str, Any]) -> None:
    """Writes one zstd Parquet file."""
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(with_provenance(table, provenance), temporary, compression="zstd", write_page_checksum=True)


def digest(path: Path) -> str:
    """blake2b-128 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
