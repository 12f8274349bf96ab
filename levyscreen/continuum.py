"""The dense timeline: every record asked for every variable at every time of a grid, streamed to Parquet.

Queries are the same for all records, so they are projected once. Records are encoded in small batches of similar length
and then read one at a time, without padding, several batches side by side; each window of records is written, in order,
while the next is computed.
"""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from levyscreen import machine, outputs, schema
from levyscreen.errors import LevyscreenError, UsageError
from levyscreen.memory import halving
from levyscreen.operator import LatticeReader, Timestamps
from levyscreen.parallel import each
from levyscreen.pending import undoing
from levyscreen.records.batches import Batcher, by_tokens
from levyscreen.records.cohort import WINDOW_RECORDS
from levyscreen.temporaries import folder_beside, sweep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.operator import Field
    from levyscreen.records.cohort import Cohort
    from levyscreen.records.preprocessor import Readings
    from levyscreen.store import Model

WINDOW = 128  # records computed, then written as one row group
TOKENS = 2_048  # padded readings an encoder batch
QUERIES = 10_368  # of a record at once, in whole variables: bounds memory whatever the grid
RECORDS_A_FILE = 1_024


@dataclass(frozen=True)
class ContinuumSettings:
    """What is asked of each record."""

    grid: int = 288  # times, evenly spaced from 0 over the stay
    variables: tuple[str, ...] | None = None  # None for all of the model's
    level: float = 0.9
    with_deviation: bool = False
    half: bool = False  # float16 values

    def __post_init__(self) -> None:
        if self.grid < 1:
            raise UsageError(f"the grid needs 1 time at least, got {self.grid}")


@dataclass(frozen=True)
class _Emitted:
    """What a calibration reads: of one record, (V, T) each, z units of the prediction."""

    prediction: NDArray[np.float32]
    variable: NDArray[np.int64]  # (V, 1)
    evidence: NDArray[np.float32]
    disagreement: NDArray[np.float32]
    sigma_hat: NDArray[np.float32]
    deviation: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Timeline:
    """Answers for a few records over the grid, physical units; (R, V, T) float32 each."""

    record_id: NDArray[np.int64]  # (R,)
    variable: NDArray[np.int64]  # (V,) index into the model's variables
    time_hours: NDArray[np.float32]  # (T,)
    columns: dict[str, NDArray[np.float32]]


class Asker:
    """A model with the grid's queries projected, ready to be asked about any record."""

    def __init__(self, model: Model, settings: ContinuumSettings, device: torch.device):
        self.model, self.settings, self.device = model, settings, device
        variables = model.preprocessor.variables
        self.variable = _chosen(variables.names, settings.variables)
        horizon = np.float32(variables.horizon_hours)
        self.time_hours = (np.arange(settings.grid) * (variables.horizon_hours / settings.grid)).astype(np.float32)
        variable, time = torch.from_numpy(self.variable), torch.from_numpy(self.time_hours / horizon)
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self.lattice = model.network.lattice(variable.to(device), time.to(device))
            self.head = model.network.fused_head()
        self.calibration = model.timeline_calibration(settings.with_deviation)
        self.calibration.level_index(settings.level)  # an unknown level is refused before anything is computed
        self.with_deviation = settings.with_deviation or self.calibration.needs_deviation

    @property
    def names(self) -> list[str]:
        """Columns of the answers."""
        fields = [f.name for f in schema.CONTINUUM][3:]
        return fields + ([schema.DEVIATION.name] if self.settings.with_deviation else [])

    @torch.no_grad()
    def ask(self, readings: Readings) -> Timeline:
        """The timeline of some records, in one encoder batch, each with all its readings as context."""
        batch = Batcher(readings, np.zeros(len(readings.time), dtype=bool)).batch(np.arange(len(readings)))
        batch = batch.to(self.device)
        lengths = readings.lengths.tolist()
        with torch.autocast(self.device.type, enabled=False):
            field = self.model.network.record_side(batch)
            answers = [self._answer(field.record(row, n), batch.time[row, :n]) for row, n in enumerate(lengths)]
        columns = {name: np.stack([answer[name] for answer in answers]) for name in self.names}
        return Timeline(readings.record_id, self.variable, self.time_hours, columns)

    def _answer(self, field: Field, time: Tensor) -> dict[str, NDArray[np.float32]]:
        """Columns for one record, (V, T) each."""
        decode = self.model.network.levy()
        timestamps = Timestamps.of(time, field, decode.grid) if self.with_deviation else None
        reader = LatticeReader(self.lattice, field, decode.tau, timestamps)
        head = self.head.around(field.centre[0, :, 0])
        step = max(1, QUERIES // len(self.time_hours))
        parts = [
            self.model.network.ask_lattice(reader, head, slice(first, first + step))
            for first in range(0, len(self.variable), step)
        ]
        signals = {
            name: _joined([getattr(p.signals, name) for p in parts])
            for name in ("evidence", "disagreement", "sigma_hat", *(["deviation"] if self.with_deviation else []))
        }
        return self._in_units(_joined([p.mean for p in parts]), signals)

    def _in_units(self, mean: NDArray[np.float32], signals: dict[str, NDArray[np.float32]]) -> dict[str, Any]:
        preprocessor, variable = self.model.preprocessor, self.variable[:, None]
        scale = self.calibration.scale_of(_Emitted(mean, variable, **signals))
        half = self.calibration.half_width(scale, variable, self.settings.level)
        return {
            "prediction": preprocessor.to_units(variable, mean),
            "lower": preprocessor.to_units(variable, mean - half),
            "upper": preprocessor.to_units(variable, mean + half),
            **signals,
        }


@dataclass(frozen=True)
class Written:
    """What a continuum run wrote."""

    folder: Path
    rows: int
    records: int
    skipped: int  # records with too few readings to be asked
    timing: dict[str, Any]


def continuum(
    cohort: Cohort,
    model: Model,
    folder: Path,
    settings: ContinuumSettings | None = None,
    device: torch.device | str = "cpu",
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
    settings, device = settings or ContinuumSettings(), torch.device(device)
    start = time.perf_counter()
    selection = _Selection(cohort, model, records, most_readings)
    asker = Asker(model, settings, device)
    provenance = {
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "grid": settings.grid,
        "level": settings.level,
        "device": device.type,
        **model.provenance(),
        "interval": asker.calibration.signal,
    }
    computing, writing = _stream(asker, selection.windows(), folder, provenance, done)
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
    return Written(folder, queries, selection.taken, selection.skipped, timing)


def timelines(asker: Asker, windows: Iterable[Readings]) -> Iterator[Timeline]:
    """A timeline for each window of records, in order; their batches are computed side by side."""
    plans = ((readings, by_tokens(readings.lengths, TOKENS)) for readings in windows)
    batches = ((readings, plan, rows) for readings, plan in plans for rows in plan)

    def answer(batch: tuple[Readings, list[NDArray[np.int64]], NDArray[np.int64]]) -> tuple[list[Timeline], Any]:
        readings, plan, rows = batch
        return halving(lambda part: asker.ask(readings.take(part)), rows, readings.lengths), plan

    parts: list[list[Timeline]] = []
    for part, plan in each(answer, batches, asker.device):
        parts.append(part)
        if len(parts) == len(plan):
            yield _ordered([timeline for part in parts for timeline in part], np.argsort(np.concatenate(plan)))
            parts = []


def _ordered(parts: Sequence[Timeline], order: NDArray[np.int64]) -> Timeline:
    columns = {name: np.concatenate([p.columns[name] for p in parts])[order] for name in parts[0].columns}
    record_id = np.concatenate([p.record_id for p in parts])[order]
    return Timeline(record_id, parts[0].variable, parts[0].time_hours, columns)


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
        folder.parent.mkdir(parents=True, exist_ok=True)
        sweep(folder.parent)
        _put_back(folder, aside)
        with folder_beside(folder) as temporary, undoing(lambda: _put_back(folder, aside)):
            writer = _Writer(temporary / folder.name, asker, provenance)
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
        self.skipped = 0  # with too few readings, or more than `most`

    def windows(self) -> Iterator[Readings]:
        """WINDOW records each. Raises UsageError if there is none at all."""
        least = self.model.preprocessor.protocol.min_readings
        for _, part in self.cohort.windows(WINDOW_RECORDS):
            readings = self.model.preprocessor.apply(part)
            enough = (readings.distinct >= least) & (readings.record_id >= 0)
            if self.most is not None:
                enough &= readings.lengths <= self.most
            wanted = True if self.wanted is None else np.isin(readings.record_id, self.wanted)
            rows = np.flatnonzero(wanted & enough)
            self.taken += len(rows)
            self.skipped += int((wanted & ~enough).sum())
            for first in range(0, len(rows), WINDOW):
                yield readings.take(rows[first : first + WINDOW])
        if not self.taken:
            raise UsageError("no record has enough readings to be asked")


def _chosen(names: tuple[str, ...], asked: tuple[str, ...] | None) -> NDArray[np.int64]:
    """Indices of the asked variables, in the model's order. Raises UsageError for one the model does not know."""
    if asked is None:
        return np.arange(len(names))
    if not asked:
        raise UsageError("no variable is named: leave --variables out for all of them")
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise UsageError(f"unknown variable '{unknown[0]}': this model knows {', '.join(names)}")
    return np.array([i for i, name in enumerate(names) if name in asked])


def _joined(parts: list[Tensor]) -> NDArray[np.float32]:
    joined: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
    return joined


class _Writer:
    """Encodes and writes one window in the background while the next is computed; at most one waits."""

    def __init__(self, folder: Path, asker: Asker, provenance: dict[str, Any]):
        self.folder, self.provenance, self.seconds = folder, provenance, 0.0
        self.half = asker.settings.half
        self.dictionary = pa.array(asker.model.preprocessor.variables.names)
        self.schema = _schema(asker.names, self.half).with_metadata(outputs.footer(provenance))
        self.waiting: queue.Queue[Timeline | None] = queue.Queue(maxsize=1)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="continuum-writer")

    def __enter__(self) -> None:
        self.folder.mkdir()
        self.thread.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.waiting.put(None)
        self.thread.join()
        if self.failure is not None and kind is None:
            raise self.failure

    def put(self, timeline: Timeline) -> None:
        """Hands a window over; raises what the writing of an earlier one raised."""
        if self.failure is not None:
            raise self.failure
        self.waiting.put(timeline)

    def _run(self) -> None:
        windows = iter(self.waiting.get, None)
        try:
            while self._write_file(windows):
                pass
        except BaseException as error:  # handed to the computing thread, which raises it
            self.failure = error
            for _ in windows:
                pass

    def _write_file(self, windows: Iterator[Timeline]) -> bool:
        """One part of RECORDS_A_FILE records; False when there was nothing left to write."""
        import pyarrow.parquet as pq

        first = next(windows, None)
        if first is None:
            return False
        path = self.folder / f"part-{len(list(self.folder.glob('part-*'))):05d}.parquet"
        floats = [f.name for f in self.schema if pa.types.is_floating(f.type) and f.name != "time_hours"]
        options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 1,
            "use_dictionary": ["variable", "time_hours", "record_id"],
            "use_byte_stream_split": floats,
            "write_statistics": ["record_id"],
            "write_page_checksum": True,
        }
        with pq.ParquetWriter(path, self.schema, **options) as writer:
            window: Timeline | None = first
            written = 0
            while window is not None:
                start = time.perf_counter()
                writer.write_table(self._table(window), row_group_size=2**31 - 1)
                self.seconds += time.perf_counter() - start
                written += len(window.record_id)
                window = next(windows, None) if written < RECORDS_A_FILE else None
        return True

    def _table(self, timeline: Timeline) -> pa.Table:
        records, variables, times = (len(x) for x in (timeline.record_id, timeline.variable, timeline.time_hours))
        code = np.tile(np.repeat(timeline.variable.astype(np.int16), times), records)
        arrays = [
            pa.array(np.repeat(timeline.record_id, variables * times)),
            pa.DictionaryArray.from_arrays(pa.array(code), self.dictionary),
            pa.array(np.tile(timeline.time_hours, records * variables)),
        ]
        unknown = _unanswered(timeline.columns)
        for values in timeline.columns.values():
            flat = (_halved(values) if self.half else values).reshape(-1)
            arrays.append(pa.array(flat, mask=None if unknown is None else unknown.reshape(-1)))
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _unanswered(columns: dict[str, NDArray[np.float32]]) -> NDArray[np.bool_] | None:
    """Where an answer is not finite, to be null in every column; None where all are. Intervals may be infinite."""
    finite = [np.isfinite(values) for name, values in columns.items() if name not in ("lower", "upper")]
    return None if all(f.all() for f in finite) else ~np.logical_and.reduce(finite)


def _halved(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """As float16; what is too large for it, such as the evidence of a very long record, becomes its largest number."""
    most = np.finfo(np.float16).max
    return np.where(np.isfinite(values), values.clip(-most, most), values).astype(np.float16)


def _schema(names: list[str], half: bool) -> pa.Schema:
    fixed = [schema.CONTINUUM.field(i) for i in range(3)]
    return pa.schema(fixed + [pa.field(name, pa.float16() if half else pa.float32()) for name in names])
