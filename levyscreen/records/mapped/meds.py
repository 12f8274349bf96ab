"""MEDS 0.4, the Medical Event Data Standard: what a folder of it holds, and scores that its tools can join.

Its files are plain Parquet, so reading and writing need no package; the tests check both against the package's schemas.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from levyscreen.records.mapped.cells import words
from levyscreen.records.mapped.tables import PARQUET, TableFile, TableReader
from levyscreen.schema import MEDS_SCORES, SCORES

if TYPE_CHECKING:
    from levyscreen.records.cohort import Cohort

DATA, CODES = "data", Path("metadata") / "codes.parquet"


def is_meds(folder: Path) -> bool:
    """Whether a folder is laid out as MEDS: Parquet files somewhere below its data folder."""
    return (folder / DATA).is_dir() and next((folder / DATA).rglob("*.parquet"), None) is not None


def descriptions(folder: Path) -> dict[str, str]:
    """What metadata/codes.parquet says of each code; nothing where it is absent or has no such column.

    Raises CohortError where it is there and cannot be read.
    """
    path = folder / CODES
    if not path.is_file():
        return {}
    reader = TableReader(TableFile(path, str(CODES), PARQUET))
    found: dict[str, str] = {}
    for block in reader.blocks(["code", "description"]):
        code, said = words(block.columns["code"]), words(block.columns["description"])
        pairs = np.unique(np.stack([code.which, said.which]), axis=1).T.tolist()
        found |= {code.words[i]: said.words[j] for i, j in pairs if code.words[i] and said.words[j]}
    return found


def has_meds_scores(cohort: Cohort) -> bool:
    """Whether the cohort knows the subject of its records and when their hour 0 was."""
    known = (cohort.records.column(name).null_count < len(cohort) for name in ("subject_id", "origin"))
    return all(known)


def meds_scores(cohort: Cohort, scores: pa.Table) -> pa.Table:
    """A row of MEDS_SCORES for each scored record, by subject and time; `scores` is of SCORES.

    The prediction time is hour 0 plus the horizon: in MEDS it is the last moment up to which data may be used, and all
    of a stay's readings up to the horizon were. Labels that others made for that time can be joined by it as they are.
    """
    records = cohort.records.select(["record_id", "subject_id", "origin"])
    scored = scores.filter(pc.equal(scores.column("status"), "scored"))
    found = scored.join(records, "record_id", join_type="inner")
    found = found.filter(pc.and_(pc.is_valid(found.column("subject_id")), pc.is_valid(found.column("origin"))))
    horizon = pa.scalar(round(cohort.variables.horizon_hours * 3.6e9), pa.duration("us"))
    columns = {
        "prediction_time": pc.add(found.column("origin"), horizon),
        "float_value": found.column("uncertainty"),
        **{name: found.column(name) for name in ("subject_id", *SCORES.names)},
    }
    table = pa.table([columns[field.name].cast(field.type) for field in MEDS_SCORES], schema=MEDS_SCORES)
    order = np.lexsort([table.column(name).cast(pa.int64()).to_numpy() for name in ("prediction_time", "subject_id")])
    return table.take(pa.array(order))
