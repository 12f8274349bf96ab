"""A model with a grid's queries projected, asked about records: (variable, time) answers in physical units.

Queries are the same for all records, so they are projected once. Records are encoded in small batches of similar length
and then read one at a time, without padding, several batches side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from levyscreen import schema
from levyscreen.errors import UsageError
from levyscreen.memory import halving
from levyscreen.model.neighbours import nearby
from levyscreen.operator import LatticeReader, Timestamps
from levyscreen.parallel import each
from levyscreen.records.batches import Batcher, by_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.model.heads import Beside
    from levyscreen.model.neighbours import Timetable
    from levyscreen.model.network import Prediction
    from levyscreen.operator import Field
    from levyscreen.records.readings import Readings
    from levyscreen.store import Model

WINDOW = 128  # records answered, then written as one row group
ANSWERS = WINDOW * 36 * 288  # of a window: on a denser grid it has fewer records
MOST_TIMES = 20_000  # of a grid; one in ten seconds of 48 hours is 17,280
TOKENS = 2_048  # padded readings an encoder batch
QUERIES = 10_368  # of a record at once, in whole variables: bounds memory whatever the grid


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
        if self.grid > MOST_TIMES:
            raise UsageError(f"the grid has {MOST_TIMES:,} times at most, got {self.grid:,}: ask fewer of it")


@dataclass(frozen=True)
class _Emitted:
    """What a calibration reads: of one record, (V, T) each, z units of the prediction."""

    prediction: NDArray[np.float32]
    variable: NDArray[np.int64]  # (V, 1)
    evidence: NDArray[np.float32]
    disagreement: NDArray[np.float32]
    sigma_hat: NDArray[np.float32]
    deviation: NDArray[np.float32] | None = None
    surroundings: NDArray[np.float32] | None = None  # (V, T, .)


@dataclass(frozen=True)
class Timeline:
    """Answers for a few records over the grid, physical units; (R, V, T) float32 each."""

    record_id: NDArray[np.int64]  # (R,)
    variable: NDArray[np.int64]  # (V,) index into the model's variables
    time_hours: NDArray[np.float32]  # (T,)
    columns: dict[str, NDArray[np.float32]]


class Asker:
    """A model with the grid's queries projected, ready to be asked about any record."""

    def __init__(self, model: Model, settings: ContinuumSettings):
        self.model, self.settings, self.device = model, settings, model.device
        variables = model.preprocessor.variables
        self.variable = _chosen(variables.names, settings.variables)
        horizon = np.float32(variables.horizon_hours)
        self.time_hours = (np.arange(settings.grid) * (variables.horizon_hours / settings.grid)).astype(np.float32)
        variable, time = torch.from_numpy(self.variable), torch.from_numpy(self.time_hours / horizon)
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            self.queries = variable.to(self.device), time.to(self.device)
            self.lattice = model.network.lattice(*self.queries)
            self.head = model.network.fused_head()
        self.calibration = model.timeline_calibration(settings.with_deviation)
        self.calibration.level_index(settings.level)  # an unknown level is refused before anything is computed
        self.with_deviation = settings.with_deviation or self.calibration.needs_deviation

    @property
    def window(self) -> int:
        """How many records are answered at once: as many as memory bears, whatever grid and variables."""
        return max(1, min(WINDOW, ANSWERS // max(1, len(self.variable) * len(self.time_hours))))

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
            timetable = self.model.network.timetable(batch)
            answers = [
                self._answer(field.record(row, n), timetable.record(row, n), batch.time[row, :n])
                for row, n in enumerate(lengths)
            ]
        columns = {name: np.stack([answer[name] for answer in answers]) for name in self.names}
        return Timeline(readings.record_id, self.variable, self.time_hours, columns)

    def _answer(self, field: Field, timetable: Timetable, time: Tensor) -> dict[str, NDArray[np.float32]]:
        """Columns for one record, (V, T) each."""
        decode = self.model.network.levy()
        timestamps = Timestamps.of(time, field, decode.grid) if self.with_deviation else None
        reader = LatticeReader(self.lattice, field, decode.rate, timestamps)
        head = self.head.around(field.centre[0, :, 0])
        step = max(1, QUERIES // len(self.time_hours))
        parts = []
        for first in range(0, len(self.variable), step):
            chosen = slice(first, first + step)
            parts.append(self.model.network.ask_lattice(reader, head, chosen, self.beside(timetable, chosen)))
        signals = {
            name: _joined([getattr(p.signals, name) for p in parts])
            for name in ("evidence", "disagreement", "sigma_hat", *(["deviation"] if self.with_deviation else []))
        }
        mean = torch.cat([p.mean for p in parts])
        return self._in_units(mean.cpu().numpy(), signals, self._surroundings(timetable, parts))

    def _surroundings(self, timetable: Timetable, parts: list[Prediction]) -> NDArray[np.float32] | None:
        """What the calibration reads besides signals, if it does, of a record: (V, T, .)."""
        if not self.calibration.needs_surroundings:
            return None
        variable, time = self.queries
        pairs = variable.repeat_interleave(len(time))[None], time.repeat(len(variable))[None]
        found = nearby(timetable, *pairs).view(len(variable), len(time), -1)
        mixed = [part.mixed for part in parts if part.mixed is not None]
        whole: NDArray[np.float32] = torch.cat([found, torch.cat(mixed)] if mixed else [found], -1).cpu().numpy()
        return whole

    def beside(self, timetable: Timetable, chosen: slice = slice(None)) -> Beside | None:
        """What the head reads of the neighbours of some variables at all times."""
        weights = self.head.neighbours
        return None if weights is None else weights.of_lattice(timetable, self.queries[0][chosen], self.queries[1])

    def _in_units(
        self,
        mean: NDArray[np.float32],
        signals: dict[str, NDArray[np.float32]],
        surroundings: NDArray[np.float32] | None,
    ) -> dict[str, Any]:
        preprocessor, variable = self.model.preprocessor, self.variable[:, None]
        scale = self.calibration.scale_of(_Emitted(mean, variable, **signals, surroundings=surroundings))
        half = self.calibration.half_width(scale, variable, self.settings.level)
        return {
            "prediction": preprocessor.to_units(variable, mean),
            "lower": preprocessor.to_units(variable, mean - half),
            "upper": preprocessor.to_units(variable, mean + half),
            **signals,
        }


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
