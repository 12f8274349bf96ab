"""Writing results: whole files or none, and each says where it came from."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from levyscreen.temporaries import replacing

SEAL = "digest"
MOST_TEXT = 64 << 20  # characters of a file that is read as a whole


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """A file's text. Raises OSError also where it is longer than any file of ours."""
    with path.open(encoding=encoding) as file:
        text = file.read(MOST_TEXT + 1)
    if len(text) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"longer than {MOST_TEXT >> 20} MB")
    return text


def write_text(path: Path, text: str, shared: bool = True) -> None:
    """Writes UTF-8 text; `shared` as of `temporaries.replacing`."""
    with replacing(path, shared) as temporary:
        temporary.write_bytes(text.encode())


def write_json(path: Path, data: Any, shared: bool = True) -> None:
    """Writes strict JSON, indented; `shared` as of `temporaries.replacing`."""
    write_text(path, json_bytes(data).decode(), shared)


def json_bytes(data: Any) -> bytes:
    """What `write_json` writes."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with a digest of all else in it, to be written."""
    return data | {SEAL: _digest_of(data)}


def is_whole(data: dict[str, Any]) -> bool:
    """Whether a JSON object that was read is the one that was sealed; one without a seal is taken as it is."""
    return SEAL not in data or data[SEAL] == _digest_of({k: v for k, v in data.items() if k != SEAL})


def _digest_of(data: dict[str, Any]) -> str:
    as_read = json.loads(json.dumps(data))  # whose keys are text
    return hashlib.blake2b(json.dumps(as_read, sort_keys=True).encode(), digest_size=16).hexdigest()


def with_provenance(table: pa.Table, provenance: dict[str, Any]) -> pa.Table:
    """The table with its provenance in the footer, where pandas finds it again as `df.attrs`."""
    return table.replace_schema_metadata((table.schema.metadata or {}) | footer(provenance))


def with_run(provenance: dict[str, Any]) -> dict[str, Any]:
    """The provenance with `run`, which two screenings share that differ in nothing of it."""
    return provenance | {"run": _digest_of(provenance)}


def footer(provenance: dict[str, Any]) -> dict[bytes, bytes]:
    """Footer metadata: under our own name, and under the one that pandas reads attrs from."""
    text = json.dumps(provenance, sort_keys=True).encode()
    return {b"levyscreen": text, b"PANDAS_ATTRS": text}


def read_footer(path: Path) -> dict[str, Any]:
    """What `footer` put there; nothing where the file is none of ours, or cannot be read."""
    import pyarrow.parquet as pq

    try:
        found = json.loads((pq.read_schema(path).metadata or {})[b"levyscreen"])
    except (OSError, ValueError, KeyError):  # pyarrow's errors are ValueErrors
        return {}
    return found if isinstance(found, dict) else {}


def write_parquet(path: Path, table: pa.Table, provenance: dict[str, Any]) -> None:
    """Writes one zstd Parquet file, for its owner alone."""
    import pyarrow.parquet as pq

    with replacing(path, shared=False) as temporary:
        pq.write_table(with_provenance(table, provenance), temporary, compression="zstd", write_page_checksum=True)


def digest(path: Path) -> str:
    """blake2b-128 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
