"""What a screening left in its output folder, and the note by which its cohort and model are found again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from levyscreen import outputs, schema
from levyscreen.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

NOTE = "screening.json"
COMPARISON = "comparison.csv"
WRITTEN = ("scores.parquet", "rejects.parquet", "meds.parquet", "queries.parquet", COMPARISON, "timing.json")


@dataclass(frozen=True)
class Screened:
    """An output folder, read."""

    folder: Path
    scores: pd.DataFrame  # schema.SCORES
    rejects: pd.DataFrame  # schema.REJECTS
    comparison: pd.DataFrame | None  # where that screening ran the comparison
    timing: dict[str, Any]
    provenance: dict[str, Any]
    cohort: str  # path
    model: str  # name of a shipped one, or path
    protocol: str | None
    command: tuple[str, ...]  # as typed, without the program's name

    @property
    def most_readings(self) -> int | None:
        """Of a record that was scored; None for no limit."""
        return 512 if self.protocol == "paper" else None


def note(
    folder: Path, cohort: Path, model: str, protocol: str | None, command: list[str], files: Mapping[str, str]
) -> None:
    """Writes into an output folder, last, what its screening was asked, and the digest of each file that it wrote."""
    facts = {"cohort": str(cohort.resolve()), "model": model, "protocol": protocol, "command": command}
    outputs.write_json(folder / NOTE, outputs.sealed(facts | {"files": dict(files)}), shared=False)


def require_one_run(folder: Path) -> dict[str, Any]:
    """The note in an output folder. Raises UsageError, naming a file, unless its files are all of that one screening.

    A run that was killed, or a second one into the same folder at once, leaves files of two.
    """
    found = _json(folder / NOTE)
    if not outputs.is_whole(found) or not {"cohort", "model", "protocol", "command", "files"} <= set(found):
        raise UsageError(_again(folder / NOTE, "is damaged"))
    for name in WRITTEN:
        path, digest = folder / name, found["files"].get(name)
        if digest is not None and not path.exists():
            raise UsageError(_again(path, "is missing"))
        if path.exists() and (digest is None or outputs.digest(path) != digest):
            raise UsageError(_again(path, f"is damaged, or of another screening than {NOTE}"))
    return found


def read_screened(folder: Path) -> Screened:
    """Reads an output folder. Raises UsageError, saying which of its files is missing or damaged."""
    _json(folder / NOTE)
    scores, provenance = _table(folder / "scores.parquet", schema.SCORES)
    rejects, _ = _table(folder / "rejects.parquet", schema.REJECTS)
    timing = _json(folder / "timing.json")
    found = require_one_run(folder)  # last: an error that says what is wrong is the better one
    return Screened(
        folder,
        scores,
        rejects,
        _comparison(folder / COMPARISON) if COMPARISON in found["files"] else None,
        timing,
        provenance,
        found["cohort"],
        found["model"],
        found["protocol"],
        tuple(found["command"]),
    )


def _table(path: Path, columns: pa.Schema) -> tuple[pd.DataFrame, dict[str, Any]]:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, page_checksum_verification=True)
        provenance = json.loads((table.schema.metadata or {})[b"levyscreen"])
    except FileNotFoundError:
        raise UsageError(_again(path, "is missing")) from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise UsageError(_again(path, f"is damaged ({type(error).__name__})")) from error
    if not table.schema.remove_metadata().equals(columns):
        raise UsageError(_again(path, "has other columns than this version writes"))
    return table.to_pandas(), provenance


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(outputs.read_text(path))
    except FileNotFoundError:
        raise UsageError(_again(path, "is missing")) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(_again(path, f"is damaged ({type(error).__name__})")) from error
    if not isinstance(found, dict):
        raise UsageError(_again(path, "is damaged"))
    return found


def _comparison(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UsageError(_again(path, f"cannot be read ({type(error).__name__})")) from error


def _again(path: Path, what: str) -> str:
    return f"{path} {what}: name a folder that levyscreen screen wrote, or screen the cohort again"
