"""Who the patients of a cohort are, in groups: what is known of them besides their readings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

AGES = {"0-49": 50, "50-64": 65, "65-79": 80, "80+": math.inf}  # the first age that a group does not hold
SEX = {0: "female", 1: "male"}
ICU_TYPE = {1: "coronary", 2: "cardiac surgery recovery", 3: "medical", 4: "surgical"}
UNKNOWN = "unknown"


def patients(described: pa.Table) -> NDArray[np.int64] | None:
    """Whose each of R records is, (R,), or None where nothing says that; `described` is schema.RECORDS, R rows.

    A record of no known subject is a patient of its own.
    """
    subject = described.column("subject_id")
    if subject.null_count == len(subject):
        return None
    known = subject.is_valid().to_numpy()
    said = subject.fill_null(0).to_numpy()
    return said if known.all() else np.where(known, said, _unused(said[known], len(subject)))


def _unused(taken: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """So many numbers that are not among those taken, (count,)."""
    lowest = np.iinfo(np.int64).min
    free = lowest + np.arange(count + len(np.unique(taken)), dtype=np.int64)
    return free[~np.isin(free, taken)][:count]


def patients_of(described: pa.Table, record: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whose each target is, (N,), by the row of its record; a record's own where nothing says more."""
    whose = patients(described)
    return record if whose is None else whose[record]


def facts(described: pa.Table) -> dict[str, list[str]]:
    """A label for each of R records by each of what is known of them; `described` is schema.RECORDS, R rows.

    What is known of no patient is left out.
    """
    found = {
        "ICU type": [ICU_TYPE.get(value, UNKNOWN) for value in described.column("icu_type").to_pylist()],
        "sex": [SEX.get(value, UNKNOWN) for value in described.column("gender").to_pylist()],
        "age": [_age_group(value) for value in described.column("age").to_pylist()],
    }
    return {by: labels for by, labels in found.items() if set(labels) - {UNKNOWN}}


def _age_group(age: float | None) -> str:
    if age is None or not age >= 0:
        return UNKNOWN
    return next((name for name, end in AGES.items() if age < end), UNKNOWN)
