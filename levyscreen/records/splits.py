"""Train, validation and test records: by patient, 70/15/15, redrawn with the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Split:
    """Rows of the cohort; no record stands in two of them."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def split(
    record_id: NDArray[np.int64], eligible: NDArray[np.bool_], seed: int, subject: NDArray[np.int64] | None = None
) -> Split:
    """Splits the eligible rows. Depends on the ids and the seed, not on the order of the rows.

    Where several records may be of one patient, `subject` (R,) says whose each is, and patients are split instead.
    """
    if subject is not None:
        return _by_subject(subject, eligible, seed)
    rows = np.flatnonzero(eligible)
    rows = rows[np.argsort(record_id[rows], kind="stable")]
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    train, validation = round(0.7 * len(rows)), round(0.85 * len(rows))
    return Split(*(np.sort(part) for part in np.split(rows, [train, validation])))


def _by_subject(subject: NDArray[np.int64], eligible: NDArray[np.bool_], seed: int) -> Split:
    patients = np.unique(subject[eligible])
    of_patients = split(patients, np.ones(len(patients), dtype=bool), seed)
    parts = (of_patients.train, of_patients.validation, of_patients.test)
    return Split(*(np.flatnonzero(eligible & np.isin(subject, patients[part])) for part in parts))
