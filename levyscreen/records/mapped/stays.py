"""From the gathered rows of records to stays: hour 0, hours since, classes, and so a Part for each bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import CohortError
from levyscreen.names import printable
from levyscreen.records.mapped.buckets import Buckets
from levyscreen.records.mapped.fit import Fits
from levyscreen.records.mapped.mapping import TIMESTAMP, Mapping
from levyscreen.records.mapped.register import NONE_YET, REFUSED, Register, number_of
from levyscreen.records.physionet2012 import EXAMPLES, Known, Part
from levyscreen.types import LineClass
from levyscreen.variables import DESCRIPTORS, FACTS

HOUR = 3_600_000_000  # microseconds
NOWHEN = -1.0  # hour 0 of a record without a reading, where the first reading is hour 0: a microsecond no clock says
EDGE = 1e-9  # of a window: what is as near to its end begins the next, for it may be a rounding before it
WINDOWS = 1_000_000  # of one record at most; what lies after them is outside its stay

_NO_START = "no row says when it began (origin under [time])"
_STARTS = "its rows say different times for hour 0"
_SUBJECTS = "its rows name different subjects"


def parts_of(
    mapping: Mapping, register: Register, buckets: Buckets, scale: tuple[float, float], fit: Fits
) -> Iterator[Part]:
    """A Part for each bucket, all of its records in it. Raises CohortError where two records have one number."""
    known = _Records(mapping, register, scale, fit)
    seen: set[int] = set()
    for records, rows in buckets.each(len(register.labels)):
        part = known.part(records, rows)
        assert part.known is not None
        numbers = part.known.record_ids
        seen.update(numbers)
        known.count += len(numbers)
        if len(seen) < known.count:
            raise CohortError(
                f"{mapping.source}: two ids of {mapping.columns.record!r} stand for one number (7 and 007, or by rare "
                "chance two texts); rename one of them"
            )
        yield part


@dataclass(frozen=True)
class _Stays:
    """Rows with the stay each is of, S stays in all; (N,) or (S,)."""

    rows: NDArray[np.void]  # (N,)
    stay: NDArray[np.int64]  # (N,)
    hours: NDArray[np.float64]  # (N,) since hour 0 of the stay
    classes: NDArray[np.uint8]  # (N,) LineClass
    record: NDArray[np.int64]  # (S,) number of the record in the register; a record's stays are neighbours
    window: NDArray[np.int64]  # (S,) which part of the record
    origin: NDArray[np.float64]  # (S,) hour 0 of the record
    problems: list[str | None]  # (S,) why it cannot be read


class _Records:
    """What the register knows, made ready to be looked up by record."""

    def __init__(self, mapping: Mapping, register: Register, scale: tuple[float, float], fit: Fits) -> None:
        self.mapping, self.register, self.scale, self.fit = mapping, register, scale, fit
        self.count = 0
        self.refused, self.examples = register.counts(), register.examples()
        self.subject, self.other_subject = register.subjects()
        self.origin, self.last_origin = register.origins()
        self.fact = [DESCRIPTORS.index(FACTS[name]) for name in mapping.facts]

    def part(self, records: NDArray[np.int64], rows: NDArray[np.void]) -> Part:
        """Records (R,) with all their rows."""
        place = np.searchsorted(records, rows["record"])
        origin = self._origins(records, place, rows)
        hours = (rows["time"] - origin[place]) * self.scale[0] / self.scale[1]
        read = (rows["target"] < len(self.mapping.variables)) & np.isfinite(hours)
        self.fit.see(hours[read], rows["file"][read])
        stay, of, window = self._cut(len(records), place, hours, rows)
        since = hours - window[stay] * self.mapping.variables.horizon_hours
        hours = np.where(window[stay] > 0, np.maximum(since, 0), since)  # a rounding leads none out of its window
        problems = [self._problem(int(record), origin[i]) for i, record in enumerate(records)]
        return self._made(
            _Stays(
                rows=rows,
                stay=stay,
                hours=hours,
                classes=self._classes(hours, rows),
                record=records[of],
                window=window,
                origin=origin[of],
                problems=[problems[i] for i in of],
            )
        )

    def _origins(
        self, records: NDArray[np.int64], place: NDArray[np.int64], rows: NDArray[np.void]
    ) -> NDArray[np.float64]:
        """Hour 0 of each record, (R,); NaN where nothing says it."""
        how = self.mapping.time.origin
        if how == "admission":
            return np.zeros(len(records))
        if how == "first":
            first, kept = np.full((2, len(records)), np.inf)
            read = rows["target"] < len(self.mapping.variables)
            np.minimum.at(first, place[read], rows["time"][read])
            classes, _ = self.mapping.variables.judge(np.where(read, rows["target"], 0), rows["value"])
            read &= np.isin(classes, (LineClass.READING, LineClass.REPAIRED))  # -1 for "missing" begins no stay
            np.minimum.at(kept, place[read], rows["time"][read])
            first = np.where(np.isinf(kept), first, kept)
            return np.where(np.isinf(first), NOWHEN, first)  # a record without a reading: empty, whenever it began
        found = self.origin[records]
        return np.where(np.isinf(found), np.nan, found)

    def _problem(self, record: int, origin: float) -> str | None:
        if origin != origin:
            return _NO_START
        if self.mapping.time.origin == "column" and self.last_origin[record] != self.origin[record]:
            return _STARTS
        if self.subject[record] < self.other_subject[record]:
            return _SUBJECTS
        return None

    def _cut(
        self, records: int, place: NDArray[np.int64], hours: NDArray[np.float64], rows: NDArray[np.void]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The stay of each row (N,), and of each stay (S,) the record, by its position, and the window.

        A stay a record or, with windows, one for each horizon of it that has a reading.
        """
        whole = np.arange(records)
        if not self.mapping.windows:
            return place, whole, np.zeros(records, np.int64)
        read = rows["target"] < len(self.mapping.variables)
        passed = np.floor(np.nan_to_num(hours) / self.mapping.variables.horizon_hours + EDGE)
        window = np.minimum(np.where(read & (hours >= 0), passed, 0), WINDOWS - 1).astype(np.int64)
        first = np.full(records, NONE_YET.max)
        np.minimum.at(first, place[read], window[read])
        first[first == NONE_YET.max] = 0
        window = np.where(read, window, first[place])  # facts are of the first one
        keys, stay = np.unique(np.r_[place, whole] * WINDOWS + np.r_[window, first], return_inverse=True)
        return stay[: len(rows)], keys // WINDOWS, keys % WINDOWS

    def _classes(self, hours: NDArray[np.float64], rows: NDArray[np.void]) -> NDArray[np.uint8]:
        """LineClass of each row, (N,)."""
        variables = self.mapping.variables
        is_fact = rows["target"] >= len(variables)
        classes, _ = variables.judge(np.where(is_fact, 0, rows["target"]), rows["value"])
        classes[is_fact] = np.where(rows["value"][is_fact] < 0, LineClass.NEGATIVE, LineClass.DESCRIPTOR)
        classes[~is_fact & ~((hours >= 0) & (hours <= variables.horizon_hours))] = LineClass.OUTSIDE_STAY
        return classes

    def _made(self, stays: _Stays) -> Part:
        rows, count, width = stays.rows, len(stays.record), len(LineClass)
        fine = np.array([problem is None for problem in stays.problems], bool)
        first = np.flatnonzero(np.diff(stays.record, prepend=-1))  # the refused rows of a record are its first stay's
        counts = np.bincount(stays.stay * width + stays.classes, minlength=count * width).reshape(count, width)
        counts[first] += self.refused[stays.record[first]]
        counts[~fine] = 0
        kept = np.flatnonzero(
            fine[stays.stay] & (stays.classes <= LineClass.REPAIRED) & (rows["target"] < len(self.mapping.variables))
        )
        hours = _short(stays.hours[kept], self.mapping.variables.horizon_hours)
        order = np.lexsort((rows["value"][kept], rows["target"][kept], hours, stays.stay[kept]))
        kept, hours = kept[order], hours[order]
        names = [self._label(r, w) for r, w in zip(stays.record.tolist(), stays.window.tolist(), strict=True)]
        rejects = self._rejects(stays, first)
        part = Part(
            names=[printable(name) for name in names],
            paths=names,
            digests=[],
            problems=stays.problems,
            descriptors=self._facts(stays),
            counts=counts.astype(np.int32),
            file=stays.stay[kept].astype(np.int32),
            hours=hours,
            variable=rows["target"][kept].astype(np.int16),
            value=np.ascontiguousarray(rows["value"][kept]),
            line_class=stays.classes[kept],
            reject_file=rejects["record"].astype(np.int32),
            reject_line=rejects["row"].astype(np.int32),
            reject_class=rejects["line_class"],
            known=Known(
                record_ids=[number_of(name) for name in names],
                subjects=self._subjects(stays.record),
                origins=self._starts(stays),
                reject_names=[self.register.files[i] for i in rejects["file"]],
            ),
        )
        part.digests.extend(_digests(part))
        return part

    def _label(self, record: int, window: int) -> str:
        label = self.register.labels[record]
        return f"{label}#{window}" if self.mapping.windows else label

    def _facts(self, stays: _Stays) -> NDArray[np.float64]:
        """First valid value of each descriptor, (S, 6): those without a time, then the first in time and value."""
        rows = stays.rows
        found = np.full((len(stays.record), len(DESCRIPTORS)), np.nan)
        facts = np.flatnonzero(stays.classes == LineClass.DESCRIPTOR)
        time = np.where(np.isnan(rows["time"][facts]), -np.inf, rows["time"][facts])
        facts = facts[np.lexsort((rows["value"][facts], time))][::-1]
        which = np.array(self.fact, dtype=np.int64)[rows["target"][facts] - len(self.mapping.variables)]
        found[stays.stay[facts], which] = rows["value"][facts]  # the last assignment, the first in time, stays
        first = np.maximum.accumulate(np.where(np.diff(stays.record, prepend=-1) != 0, np.arange(len(found)), 0))
        return found[first]  # what is known of a record holds for each of its windows

    def _rejects(self, stays: _Stays, first: NDArray[np.int64]) -> NDArray[np.void]:
        """REFUSED, `record` being the stay: the first few rows of each stay and class that are not plain readings."""
        rows, classes = stays.rows, stays.classes
        odd = np.flatnonzero((classes != LineClass.READING) & (classes != LineClass.DESCRIPTOR))
        judged = np.empty(len(odd), REFUSED)
        judged["record"], judged["file"] = stays.stay[odd], rows["file"][odd]
        judged["row"], judged["line_class"] = rows["row"][odd], classes[odd]
        records = stays.record[first]
        mine = self.examples[np.isin(self.examples["record"], records)]
        mine["record"] = first[np.searchsorted(records, mine["record"])]
        found = np.concatenate([judged, mine])
        found = found[np.lexsort((found["row"], found["file"], found["line_class"], found["record"]))]
        group = found["record"].astype(np.int64) * len(LineClass) + found["line_class"]
        found = found[np.arange(len(found)) - np.searchsorted(group, group) < EXAMPLES]
        return found[np.lexsort((found["row"], found["file"], found["record"]))]

    def _subjects(self, records: NDArray[np.int64]) -> list[int | None]:
        found: list[int | None] = self.subject[records].tolist()
        for i in np.flatnonzero(self.subject[records] > self.other_subject[records]).tolist():  # none was said
            found[i] = self._own(self.register.labels[records[i]]) if self.mapping.windows else None
        return found

    def _own(self, label: str) -> int:
        """The subject of a record that names none, for its windows belong together: no other record's."""
        return number_of(label if self.mapping.columns.subject is None else f"record {label}")

    def _starts(self, stays: _Stays) -> list[int | None]:
        """When hour 0 of each stay was, in microseconds; None where times are no timestamps."""
        if self.mapping.time.unit != TIMESTAMP:
            return [None] * len(stays.record)
        horizon = self.mapping.variables.horizon_hours * HOUR
        starts = stays.origin + stays.window * horizon
        empty = np.isnan(starts) | (stays.origin == NOWHEN)
        return [None if none else round(start) for start, none in zip(starts.tolist(), empty, strict=True)]


def _short(hours: NDArray[np.float64], horizon: float) -> NDArray[np.float32]:
    """Hours as they are kept; a rounding leads none of them out of the stay."""
    limit = np.float32(horizon)
    if float(limit) > horizon:
        limit = np.nextafter(limit, np.float32(0))
    return np.minimum(hours.astype(np.float32), limit)


def _digests(part: Part) -> Iterator[bytes]:
    """Of what is read of each record, in the order in which it is kept: the order of rows and files has no say."""
    bounds = np.searchsorted(part.file, np.arange(len(part.names) + 1))
    columns = (part.hours, part.variable, part.value)
    assert part.known is not None
    for i, (start, stop) in enumerate(pairwise(bounds)):
        digest = hashlib.blake2b(part.counts[i].tobytes() + part.descriptors[i].tobytes(), digest_size=16)
        if (subject := part.known.subjects[i]) is not None:  # by whom records are split
            digest.update(np.int64(subject).tobytes())
        for column in columns:
            digest.update(column[start:stop].tobytes())
        yield digest.digest()
