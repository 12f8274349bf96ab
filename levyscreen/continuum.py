"""The dense timeline: every record asked for every variable at every time of a grid, streamed to Parquet.

Each window of records is written, in order, while the next is computed.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import machine
from levyscreen.errors import LevyscreenError, UsageError
from levyscreen.names import counted
from levyscreen.pending import undoing
from levyscreen.records.cohort import WINDOW_RECORDS
from levyscreen.temporaries import folder_beside, private_folder, sweep
from levyscreen.timeline import Asker, ContinuumSettings, Writer, timelines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort
    from levyscreen.records.readings import Readings
    from levyscreen.store import Model

NOT_WANTED = "not asked for"

__all__ = ["ContinuumSettings", "Written", "continuum"]


@dataclass(frozen=True)
class Written:
    """What a continuum run wrote."""

    folder: Path
    rows: int
    records: int
    left_out: dict[str, int]  # how many records are not in it, by the reason
    timing: dict[str, Any]

    @property
    def skipped(self) -> int:
        """Records that are not in it."""
        return sum(self.left_out.values())


def continuum(
    cohort: Cohort,
    model: Model,
    folder: Path,
    settings: ContinuumSettings | None = None,
    records: Sequence[int] | None = None,
    done: Callable[[int], None] = lambda records: None,
    most_readings: int | None = None,
) -> Written:
    """Writes `folder`/part-*.parquet (schema.CONTINUUM), an older continuum there replaced once the new one is whole.

    `records` limits it to some record ids; records over `most_readings` are left out, as the paper does.
    Memory is that of a few windows of records, whatever the cohort's size. Raises UsageError where `folder` holds
    anything else.
    """
    _refuse_to_replace(folder)
    settings, device = settings or ContinuumSettings(), model.device
    start = time.perf_counter()
    selection = _Selection(cohort, model, records, most_readings)
    asker = Asker(model, settings)
    provenance = {
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "grid": settings.grid,
        "level": settings.level,
        "device": device.type,
        **model.provenance(),
        "interval": asker.calibration.signal,
    }
    computing, writing = _stream(asker, selection.windows(asker.window), folder, provenance, done)
    queries = selection.taken * len(asker.variable) * settings.grid
    timing = {
        "compute_s": computing,
        "write_s": writing,
        "total_s": time.perf_counter() - start,
        "passes": 1,
        "queries": queries,
        "queries_per_s": queries / max(computing, 1e-9),
        "records": selection.taken,
        "bytes": sum(p.stat().st_size for p in folder.glob("part-*.parquet")),
        **machine.describe(device),
    }
    return Written(folder, queries, selection.taken, dict(selection.left_out), timing)


def _stream(
    asker: Asker,
    windows: Iterable[Readings],
    folder: Path,
    provenance: dict[str, Any],
    done: Callable[[int], None],
) -> tuple[float, float]:
    """Computes window by window while the one before is written; seconds of both."""
    aside = folder.with_name(f".{folder.name}.old")  # a known name: what a kill between the two renames left there
    computing = 0.0
    try:
        private_folder(folder.parent)
        sweep(folder.parent)
        _put_back(folder, aside)
        with folder_beside(folder) as temporary, undoing(lambda: _put_back(folder, aside)):
            writer = Writer(temporary / folder.name, asker, provenance)
            with writer:
                began = time.perf_counter()
                for timeline in timelines(asker, windows):
                    computing += time.perf_counter() - began
                    writer.put(timeline)
                    done(len(timeline.record_id))
                    began = time.perf_counter()
            if folder.exists():  # renamed first: deleting takes a while, and a kill in it would leave a part of it
                folder.rename(aside)
            writer.folder.rename(folder)
    except OSError as error:
        raise LevyscreenError(f"{folder} could not be written: {error.strerror or error}") from error
    return computing, writer.seconds


def _refuse_to_replace(folder: Path) -> None:
    """Raises UsageError where `folder` holds anything but an older continuum."""
    others = sorted(p.name for p in folder.glob("*") if not p.match("part-*.parquet"))
    if others or folder.is_file():
        raise UsageError(f"{folder} is no continuum, and would be replaced whole: name a folder of its own")


def _put_back(folder: Path, aside: Path) -> None:
    """After a success, a failure or a kill: a whole continuum by its name, if there ever was one, and none aside."""
    if aside.exists() and not folder.exists():
        aside.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


class _Selection:
    """The records to ask, a few at a time in the order of their ids, and how many they turned out to be."""

    def __init__(self, cohort: Cohort, model: Model, records: Sequence[int] | None, most: int | None):
        """Raises UsageError for a record that is not in the cohort."""
        self.cohort, self.model, self.most = cohort, model, most
        self.wanted = None
        if records is not None:
            self.wanted = np.unique(list(records))
            known = cohort.records.column("record_id").fill_null(-1).to_numpy()
            unknown = np.setdiff1d(self.wanted, known)
            if len(unknown):
                raise UsageError(f"{len(unknown)} of the records asked for are not in the cohort")
        self.taken = 0
        self.left_out: Counter[str] = Counter()

    def windows(self, size: int) -> Iterator[Readings]:
        """`size` records each. Raises UsageError if there is none at all."""
        least = self.model.preprocessor.protocol.min_readings
        for _, part in self.cohort.windows(WINDOW_RECORDS):
            readings = self.model.preprocessor.apply(part)
            left = self._why_not(part, readings, least)
            if self.wanted is not None:
                left[~np.isin(readings.record_id, self.wanted)] = NOT_WANTED
            rows = np.flatnonzero(left == "")
            self.taken += len(rows)
            self.left_out.update(why for why in left.tolist() if why and why != NOT_WANTED)
            for first in range(0, len(rows), size):
                yield readings.take(rows[first : first + size])
        if not self.taken:
            found = ", ".join(f"{counted(count, 'record')} {why}" for why, count in self.left_out.items())
            raise UsageError(f"no record can be asked: {found or 'there is none'}")

    def _why_not(self, part: Cohort, readings: Readings, least: int) -> NDArray[np.object_]:
        """Why each record of a part is not asked, (R,); "" where it is."""
        unreadable = np.asarray(part.records.column("problem").is_valid()) | (readings.record_id < 0)
        most = readings.lengths.max(initial=0) if self.most is None else self.most
        return np.select(
            [unreadable, readings.lengths == 0, readings.lengths < least, readings.lengths > most],
            [
                "not readable as a record",
                "without a reading that the model knows",
                f"with fewer than {least} readings",
                f"with more than {most} readings, the most for the protocol",
            ],
            "",
        ).astype(object)
