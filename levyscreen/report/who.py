"""Who is flagged: the share of each group of patients, and the error that was made on them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import outputs
from levyscreen.errors import UsageError
from levyscreen.records import quoting
from levyscreen.records.described import UNKNOWN, facts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

IDS = ("RecordID", "record_id")
OUTCOMES = ("In-hospital_death", "outcome")
WORDS = {"1": "yes", "0": "no", "": UNKNOWN}


@dataclass(frozen=True)
class Outcomes:
    """What became of patients: "yes" or "no" by record id."""

    name: str
    of_record: dict[int, str]


def read_outcomes(path: Path) -> Outcomes:
    """Reads PhysioNet's Outcomes file, or any CSV with a record_id and a 0/1 column named outcome or the only other.

    Raises UsageError, naming line and column and never a value.
    """
    try:
        reader = csv.DictReader(io.StringIO(outputs.read_text(path, "utf-8-sig"), newline=""))
        name, found = _column(path, reader.fieldnames or []), {}
        for line, record_id, value in _rows(path, reader, *name):
            if record_id in found:
                raise UsageError(f"{path}, line {line}: this record id stood on an earlier line: keep one of them")
            found[record_id] = value
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as CSV text: {quoting.reason(error)}") from error
    return Outcomes(name[1].replace("_", " "), found)


def _column(path: Path, names: Any) -> tuple[str, str]:
    """Names of the columns of ids and of outcomes."""
    ids = [name for name in names if name in IDS]
    outcomes = [name for name in names if name in OUTCOMES]
    if ids and not outcomes and len(names) == 2:
        outcomes = [name for name in names if name not in IDS]
    if len(ids) != 1 or len(outcomes) != 1:
        raise UsageError(
            f"{path} needs one column {' or '.join(IDS)} and one column {' or '.join(OUTCOMES)} "
            f"of 0 and 1; it has {quoting.columns(names, (*IDS, *OUTCOMES)) or 'none'}"
        )
    return ids[0], outcomes[0]


def _rows(path: Path, reader: csv.DictReader[str], ids: str, outcomes: str) -> Iterator[tuple[int, int, str]]:
    """Line, record id and outcome in words; an empty outcome is unknown."""
    for row in reader:
        record_id, value = ((row[name] or "").strip() for name in (ids, outcomes))
        if not (record_id.isascii() and record_id.isdecimal() and len(record_id) <= 18):
            raise UsageError(f"{path}, line {reader.line_num}: column {ids} holds no record id")
        if value not in WORDS:
            raise UsageError(
                f"{path}, line {reader.line_num}: column {_shown(outcomes)} holds neither 0 nor 1 nor nothing"
            )
        yield reader.line_num, int(record_id), WORDS[value]


def _shown(outcomes: str) -> str:
    """The column's name where it is a usual one; another file's may be a value."""
    return outcomes if outcomes in OUTCOMES else "of outcomes"


def groups(scored: pd.DataFrame, described: pa.Table, outcomes: Outcomes | None) -> list[dict[str, Any]]:
    """A row for all scored patients, then one for each group: n, flagged share with interval, mean error of both kinds.

    `described` is schema.RECORDS of the whole cohort. Raises UsageError where no outcome is of a scored patient.
    """
    ids = scored["record_id"].to_numpy(dtype=np.int64, na_value=-1)
    rows = [_row("all", "", scored, np.ones(len(ids), dtype=bool))]
    for by, labels in _labels(ids, described, outcomes).items():
        rows += [_row(by, label, scored, labels == label) for label in _in_order(labels)]
    return rows


def _labels(ids: NDArray[np.int64], described: pa.Table, outcomes: Outcomes | None) -> dict[str, NDArray[Any]]:
    """Labels of the scored patients by each of what is known."""
    readable = described.filter(described.column("problem").is_null())
    row_of = {i: row for row, i in enumerate(readable.column("record_id").fill_null(-1).to_pylist())}
    rows = np.array([row_of[i] for i in ids.tolist()], dtype=np.int64)
    found = {by: np.array(labels, dtype=object)[rows] for by, labels in facts(readable).items()}
    if outcomes is not None:
        said = [outcomes.of_record.get(i, UNKNOWN) for i in ids.tolist()]
        if set(said) == {UNKNOWN}:
            raise UsageError("the outcomes are of no record that was scored here: give the outcomes of this cohort")
        found[f"outcome: {outcomes.name}"] = np.array(said, dtype=object)
    return found


def _in_order(labels: NDArray[Any]) -> list[str]:
    return sorted(set(labels.tolist()), key=lambda label: (label == UNKNOWN, label))


def _row(by: str, label: str, scored: pd.DataFrame, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    from scipy.stats import binomtest

    flagged, error = scored["flagged"].to_numpy(bool)[chosen], scored["mae"].to_numpy(np.float64)[chosen]
    n, k = len(flagged), int(flagged.sum())
    low, high = binomtest(k, n).proportion_ci(0.95, "wilson")
    means = {"error_flagged": error[flagged], "error_others": error[~flagged]}
    return {
        "by": by,
        "group": label,
        "n": n,
        "flagged": k,
        "share": k / n,
        "low": float(low),
        "high": float(high),
        **{name: float(values.mean()) if len(values) else None for name, values in means.items()},
    }
