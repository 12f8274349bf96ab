"""What a screening left in its output folder, and the note by which its cohort and model are found again."""

from __future__ import annotations

import json
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
    folder: Path, cohort: Path, model: str, protocol: str | None, command: list[str], comparison: bool = False
) -> None:
    """Writes into an output folder what its screening was asked; `comparison` says whether it ran one."""
    facts = {"cohort": str(cohort.resolve()), "model": model, "protocol": protocol, "command": command}
    outputs.write_json(folder / NOTE, outputs.sealed(facts | {"comparison": comparison}))


def read_screened(folder: Path) -> Screened:
    """Reads an output folder. Raises UsageError, saying which of its files is missing or damaged."""
    found = _json(folder / NOTE)
    if not outputs.is_whole(found) or not {"cohort", "model", "protocol", "command", "comparison"} <= set(found):
        raise UsageError(_again(folder / NOTE, "is damaged"))
    scores, provenance = _table(folder / "scores.parquet", schema.SCORES)
    rejects, _ = _table(folder / "rejects.parquet", schema.REJECTS)
    return Screened(
        folder,
        scores,
        rejects,
        _comparison(folder / COMPARISON) if found["comparison"] else None,
        _json(folder / "timing.json"),
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
        found = json.loads(path.read_text(encoding="utf-8"))
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
