"""Who is who in somebody's tables: each record's number, subject and hour 0, and what was refused of its rows."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.records.mapped.cells import Words
from levyscreen.records.physionet2012 import EXAMPLES
from levyscreen.types import LineClass

_WHOLE = re.compile(r"[0-9]{1,18}")
HASH_DIGITS = 15  # what commands that name a record take
NONE_YET = np.iinfo(np.int64)
REFUSED = np.dtype([("record", "i4"), ("file", "i4"), ("row", "i4"), ("line_class", "u1")])


def number_of(label: str) -> int:
    """A record's number: a whole number is itself, any other id gets one that depends on it alone."""
    if _WHOLE.fullmatch(label):
        return int(label)
    return (
        int.from_bytes(hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        % 10**HASH_DIGITS
    )


def subject_of(label: str) -> int:
    """A subject's number, which others know it by: any whole number that 64 bits hold is itself."""
    if re.fullmatch(r"-?[0-9]{1,19}", label) and NONE_YET.min <= int(label) <= NONE_YET.max:
        return int(label)
    return number_of(label)


class Register:
    """What is known of each record while its rows are read; records count from 0 as they are first seen."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.files: list[str] = []
        self._place: dict[str, int] = {}
        self._called: dict[int, str] = {}  # each subject's number
        self._subject = _Range(np.int64, NONE_YET.max, NONE_YET.min)
        self._origin = _Range(np.float64, np.inf, -np.inf)
        self._counts = np.zeros((0, len(LineClass)), dtype=np.int64)
        self._examples: list[NDArray[np.void]] = []

    def file(self, name: str) -> int:
        """Position of a further file."""
        self.files.append(name)
        return len(self.files) - 1

    def record(self, label: str) -> int:
        """Position of the record of this label, a new one where it was not seen before."""
        place = self._place.setdefault(label, len(self.labels))
        if place == len(self.labels):
            self.labels.append(label)
        return place

    def known(self, label: str) -> int:
        """Position of the record of this label; -1 where it was not seen before."""
        return self._place.get(label, -1)

    def see_subjects(self, record: NDArray[np.int64], subject: Words) -> None:
        """The subject of each row's record, (N,) both; rows of no record have -1.

        Raises CohortError where two subjects have one number.
        """
        numbers = np.array([subject_of(word) for word in subject.words], dtype=np.int64)
        for number, word in zip(numbers.tolist(), subject.words, strict=True):
            if word and self._called.setdefault(number, word) != word:
                raise CohortError(
                    "two subjects stand for one number (7 and 007, or by rare chance two texts); rename one of them"
                )
        there = (record >= 0) & np.array([bool(w) for w in subject.words])[subject.which]
        self._subject.take(record[there], numbers[subject.which][there], len(self.labels))

    def of_subjects(self, subject: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of these subjects, (N,), once for each record of the subject: row and record, (M,) both.

        A row whose subject has no record is there once, with record -1; a record of two subjects is of neither.
        """
        low, high = self.subjects()
        whose = np.flatnonzero(low == high)
        whose = whose[np.argsort(low[whose], kind="stable")]
        numbers = np.array([subject_of(word) for word in subject.words], dtype=np.int64)
        there = [bool(w) and self._called.get(n) == w for n, w in zip(numbers.tolist(), subject.words, strict=True)]
        start, stop = (np.searchsorted(low[whose], numbers, side) for side in ("left", "right"))
        count = np.where(there, stop - start, 0)[subject.which]
        row = np.repeat(np.arange(len(count)), np.maximum(count, 1))
        within = np.arange(len(row)) - np.repeat(
            np.cumsum(np.maximum(count, 1)) - np.maximum(count, 1), np.maximum(count, 1)
        )
        place = np.minimum(start[subject.which][row] + within, max(0, len(whose) - 1))
        return row, np.where(count[row] > 0, whose[place] if len(whose) else -1, -1)

    def see_origins(self, record: NDArray[np.int64], time: NDArray[np.float64]) -> None:
        """Times of hour 0 that rows say, (N,) both; NaN says nothing."""
        there = (record >= 0) & ~np.isnan(time)
        self._origin.take(record[there], time[there], len(self.labels))

    def refuse(
        self, file: NDArray[np.int64], record: NDArray[np.int64], row: NDArray[np.int64], classes: NDArray[np.uint8]
    ) -> None:
        """Rows that are no readings, (N,) each, counted; the first few of each record and class are kept."""
        if not len(record):
            return
        self._counts = grown(self._counts, len(self.labels), 0)
        group = record * len(LineClass) + classes
        order = np.argsort(group, kind="stable")
        rank = np.arange(len(order)) - np.searchsorted(group[order], group[order])
        early = order[rank + self._counts.reshape(-1)[group[order]] < EXAMPLES]
        found = np.empty(len(early), REFUSED)
        found["file"], found["record"], found["row"] = file[early], record[early], row[early]
        found["line_class"] = classes[early]
        self._examples.append(found)
        groups, counts = np.unique(group, return_counts=True)
        self._counts.reshape(-1)[groups] += counts

    # When all rows have been seen

    def counts(self) -> NDArray[np.int64]:
        """Refused rows of each record by class, (R, classes)."""
        return grown(self._counts, len(self.labels), 0)[: len(self.labels)]

    def examples(self) -> NDArray[np.void]:
        """REFUSED, as the rows came."""
        return np.concatenate([*self._examples, np.empty(0, REFUSED)])

    def subjects(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lowest and highest subject number that the rows of each record say, (R,) both; the former is the higher one
        where none does.
        """
        return self._subject.whole(len(self.labels))

    def origins(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """First and last hour 0 that the rows of each record say, (R,) both; infinite where none does."""
        return self._origin.whole(len(self.labels))


class _Range:
    """The least and the greatest value seen of each record."""

    def __init__(self, dtype: type, most: float, least: float) -> None:
        self._most, self._least = most, least
        self._low: NDArray[Any] = np.zeros(0, dtype)
        self._high: NDArray[Any] = np.zeros(0, dtype)

    def take(self, record: NDArray[np.int64], value: NDArray[Any], records: int) -> None:
        self._low, self._high = grown(self._low, records, self._most), grown(self._high, records, self._least)
        np.minimum.at(self._low, record, value)
        np.maximum.at(self._high, record, value)

    def whole(self, records: int) -> tuple[NDArray[Any], NDArray[Any]]:
        whole = grown(self._low, records, self._most), grown(self._high, records, self._least)
        return whole[0][:records], whole[1][:records]


def grown(array: NDArray[Any], count: int, fill: float) -> NDArray[Any]:
    """The same array with room for `count` records or more: it doubles, or a million records would copy it as often."""
    if len(array) >= count:
        return array
    more = np.full((max(count, 2 * len(array)) - len(array), *array.shape[1:]), fill, dtype=array.dtype)
    return np.concatenate([array, more])
