"""`study continuum`: what the dense timeline costs by each way (tab:cohort, lower block)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import torch

from levyscreen import machine
from levyscreen.estimators.dropout import PASSES, MonteCarloDropout, spread
from levyscreen.model.dropout import drawing_from
from levyscreen.operator import LatticeReader, RandomMeasure, Timestamps
from levyscreen.parallel import each
from levyscreen.questions import TOKENS
from levyscreen.records.batches import Batcher, by_tokens
from levyscreen.study.datasets import read
from levyscreen.study.networks import MissingNetwork
from levyscreen.study.stage import SCREENED
from levyscreen.timeline import Asker, ContinuumSettings, timelines
from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.model.heads import Beside
    from levyscreen.model.neighbours import Timetable
    from levyscreen.operator import Field
    from levyscreen.records.readings import Readings
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Stage

RECORDS = 64  # of the cohort, evenly chosen; each way asks the same ones
DRAWS = 50
AT_ONCE = 6  # variables whose beam is held for the draws


def time_all(stage: Stage, results: Results, say: Callable[[str], None] = lambda line: None) -> None:
    """Times each way on some records of the cohort that no training saw; one after the other, each after a warm-up."""
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    model = stage.networks.model()
    readings = _some(stage)
    asker, full = (Asker(model, ContinuumSettings(with_deviation=flag)) for flag in (False, True))
    members = cache(partial(_members, stage))  # loaded as the way is warmed up
    ways: dict[str, Callable[[Readings], object]] = {
        "free": lambda of: list(timelines(asker, [of])),
        "with-deviation": lambda of: list(timelines(full, [of])),
        "ensemble": lambda of: [list(timelines(member, [of])) for member in members()],
        "draws": lambda of: drawn_spread(full, of, DRAWS),
        "dropout": lambda of: dropped_spread(asker, of),
    }
    one_pass = None  # timed in every call, since machines differ from hour to hour
    for name, way in ways.items():
        reads = "ensemble" if name == "ensemble" else "levy"
        if results.has(dataset, seed, name, stage.networks.weights(reads)):
            continue
        one_pass = one_pass or _timed(ways["free"], readings)
        try:
            seconds = one_pass if name == "free" else _timed(way, readings)
        except MissingNetwork as missing:
            say(f"{name} left out: {missing}")
            continue
        say(f"{name}: {seconds:.1f} s for {len(readings)} records, {seconds / one_pass:.1f} times one pass")
        times = {"seconds": seconds, "seconds_of_one_pass": one_pass, "times": seconds / one_pass}
        queries = len(readings) * len(asker.variable) * len(asker.time_hours)
        found = times | {"records": len(readings), "queries": queries, "machine": machine.describe(asker.device)}
        results.write(dataset, seed, name, found, stage.networks.weights(reads))


def drawn_spread(asker: Asker, readings: Readings, draws: int) -> list[torch.Tensor]:
    """Standard deviation of K drawn predictions for every query of the lattice, (V, T) a record; asks the beam."""

    @torch.no_grad()
    def of_batch(rows: NDArray[np.int64]) -> list[torch.Tensor]:
        part = readings.take(rows)
        batch = _whole(part).to(asker.device)
        field = asker.model.network.record_side(batch)
        timetable = asker.model.network.timetable(batch)
        each_one = zip(part.lengths.tolist(), part.record_id.tolist(), strict=True)
        return [
            _drawn_spread(asker, field.record(row, n), timetable.record(row, n), batch.time[row, :n], draws, record_id)
            for row, (n, record_id) in enumerate(each_one)
        ]

    return [spread for batch in each(of_batch, by_tokens(readings.lengths, TOKENS), asker.device) for spread in batch]


def _drawn_spread(
    asker: Asker, field: Field, timetable: Timetable, time: torch.Tensor, draws: int, record_id: int
) -> torch.Tensor:
    decode = asker.model.network.levy()
    reader = LatticeReader(asker.lattice, field, decode.rate, Timestamps.of(time, field, decode.grid))
    head = asker.head.around(field.centre[0, :, 0])
    parts = [reader.read(slice(first, first + AT_ONCE)) for first in range(0, len(asker.variable), AT_ONCE)]
    highest = torch.stack([p.intensity.amax((0, 3)) for p in parts if p.intensity is not None]).amax(0)
    measure = RandomMeasure(decode.rate * highest, draws, 0, record_id)
    samples = (sample.flatten(0, 1)[None] for part in parts for sample in reader.draw(part, measure))
    beside = asker.beside(timetable)
    each_beside = repeat(None) if beside is None else beside.repeated(draws)
    spreads = [head(sample, b).view(-1, draws).std(-1) for sample, b in zip(samples, each_beside, strict=False)]
    return torch.stack(spreads)


def dropped_spread(asker: Asker, readings: Readings, passes: int = PASSES) -> list[torch.Tensor]:
    """Standard deviation of the dropout passes for every query of the lattice, (R, V, T) a batch.

    With all the help that the single pass has: the lattice, the merged head, one encoding up to the first dropout.
    """
    network = asker.model.network

    @torch.no_grad()
    def of_batch(rows: NDArray[np.int64]) -> torch.Tensor:
        part = readings.take(rows)
        batch = _whole(part).to(asker.device)
        embedded = network.embed.token(batch.time, batch.variable, batch.value)
        attended = network.encode.begin(embedded, batch.mask)
        timetable, lengths = network.timetable(batch), part.lengths.tolist()
        beside = [asker.beside(timetable.record(row, n)) for row, n in enumerate(lengths)]

        def one_pass() -> torch.Tensor:
            field = network.levy().field(network.encode.finish(embedded, attended, batch.mask), batch.time, batch.mask)
            return torch.stack([_dropped(asker, field.record(row, n), beside[row]) for row, n in enumerate(lengths)])

        with drawing_from(MonteCarloDropout({"levy": [network]}).generator(batch)):
            return spread(one_pass() for _ in range(passes))[1]

    return list(each(of_batch, by_tokens(readings.lengths, TOKENS), asker.device))


def _dropped(asker: Asker, field: Field, beside: Beside | None) -> torch.Tensor:
    """One record's predictions (V, T) in one pass, with dropout where the head has it: after its GELU."""
    network, head = asker.model.network, asker.head.around(field.centre[0, :, 0])
    reading = LatticeReader(asker.lattice, field, network.levy().rate).read(slice(None))
    return head(reading.moments.flatten(1, 2), beside, network.head.layers[2])


def _whole(readings: Readings) -> Batch:
    """All readings as context."""
    return Batcher(readings, np.zeros(len(readings.time), dtype=bool)).batch(np.arange(len(readings)))


def _members(stage: Stage) -> list[Asker]:
    model = stage.networks.model()
    networks = stage.networks.networks("ensemble")
    return [Asker(replace(model, network=network), ContinuumSettings()) for network in networks]


def _some(stage: Stage) -> Readings:
    dataset = stage.networks.dataset
    readings = stage.networks.model().preprocessor.apply(read(dataset, stage.data, dataset.screening))
    few, many = SCREENED
    rows = np.flatnonzero((readings.lengths >= few) & (readings.lengths <= many))
    return readings.take(rows[:: max(1, len(rows) // RECORDS)][:RECORDS])


def _timed(way: Callable[[Readings], object], readings: Readings) -> float:
    way(readings.take(np.arange(2)))
    machine.settle()
    start = time.perf_counter()
    way(readings)
    machine.settle()
    return time.perf_counter() - start
