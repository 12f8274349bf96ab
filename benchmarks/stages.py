"""The stages of a screening, of a continuum and of a training, against what a user would run instead."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks import work
from benchmarks.ceilings import Ceilings
from benchmarks.clock import in_turn, median, seconds
from benchmarks.table import Row
from benchmarks.work import Work
from levyscreen.compare import ENSEMBLE, PASSES, Comparison
from levyscreen.config import TrainingConfig
from levyscreen.continuum import WINDOW, ContinuumSettings, continuum
from levyscreen.learn.losses import summed_loss
from levyscreen.model.network import Network, build
from levyscreen.parallel import each
from levyscreen.questions import TOKENS, ask
from levyscreen.records.batches import Batcher, by_tokens
from levyscreen.records.hiding import hide
from levyscreen.store import Model, load_members
from levyscreen.study.continuum import drawn_spread
from levyscreen.timeline import Asker, timelines
from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort
    from levyscreen.records.readings import Readings

RUNS = 3
DRAWS = 50


def screening(model: Model, readings: Readings, device: torch.device, limits: Ceilings) -> list[Row]:
    """Encoder alone, the whole pass, and the rivals on the same batches."""
    network, config = model.network, model.network.config
    hidden = hide(readings, model.preprocessor.protocol.hide, seed=0)
    batcher = Batcher(readings, hidden)
    lengths, asked = batcher.context_lengths, np.diff(batcher.query_offsets)

    def single() -> list[tuple[Batch, object]]:
        return list(ask(network, readings, hidden, device))

    @torch.no_grad()
    def tokens(rows: NDArray[np.int64]) -> None:
        network.tokens(batcher.batch(rows).to(device))

    def encode() -> None:
        for _ in each(tokens, by_tokens(lengths, TOKENS), device):
            pass

    @torch.no_grad()
    def without_deviation(rows: NDArray[np.int64]) -> None:
        network.predict(batcher.batch(rows).to(device), with_deviation=False)

    def plain() -> None:
        for _ in each(without_deviation, by_tokens(lengths, TOKENS), device):
            pass

    least = limits.seconds(work.encoder(lengths, config))
    whole = limits.seconds(work.screening(asked, lengths, config))
    mean_path = work.encoder(lengths, config) + work.levy_mean(asked, lengths, config)
    signals = work.encoder(lengths, config) + work.levy_signals(asked, lengths, config) + work.head(asked, config)
    rival = limits.seconds(mean_path + work.head(asked, config, merged=False))
    times, ratios = in_turn([encode, single, plain], 2 * RUNS + 1)
    found = [
        Row("encoder of the screening", times[0], ceiling=least),
        Row("screening pass, deviation included", times[1], "encoder", ratios[1], whole),
        Row("screening pass", times[1], "encoder's ceiling", times[1] / least),
        Row("screening pass without the deviation", times[2], "encoder", ratios[2], limits.seconds(signals)),
    ]
    shorter = times[2] / times[1]
    members: list[Network] = load_members(model)
    missing = [build(config, seed).to(device).eval() for seed in range(len(members) + 1, ENSEMBLE)]  # as long a pass
    comparison = Comparison(network, [*members, *missing], len(readings))
    runs = []
    for _ in range(RUNS):
        comparison.dropout.seconds = 0.0
        assert comparison.ensemble is not None
        comparison.ensemble.seconds = 0.0
        first = seconds(single)
        comparison.beside(list(ask(network, readings, hidden, device)))
        between = (first + seconds(single)) / 2
        runs.append((comparison.dropout.seconds, comparison.ensemble.seconds, between))
    dropout, ensemble, _ = np.median(runs, axis=0)
    by_dropout, by_ensemble = np.median([(d / s, e / s) for d, e, s in runs], axis=0)
    return [
        *found,
        Row(f"{PASSES} dropout passes", dropout, "screening pass", by_dropout, PASSES * rival),
        Row(f"{PASSES} dropout passes", dropout, "pass without deviation", by_dropout / shorter),
        Row(f"ensemble of {ENSEMBLE}", ensemble, "screening pass", by_ensemble, ENSEMBLE * rival),
        Row(f"ensemble of {ENSEMBLE}", ensemble, "pass without deviation", by_ensemble / shorter),
    ]


def timeline(model: Model, cohort: Cohort, readings: Readings, device: torch.device, limits: Ceilings) -> list[Row]:
    """Compute, with the deviation, with K draws, and on disk."""
    config = model.network.config
    plain, full = (Asker(model, ContinuumSettings(with_deviation=flag)) for flag in (False, True))
    windows = [readings.take(rows) for rows in np.split(np.arange(len(readings)), range(WINDOW, len(readings), WINDOW))]
    few = readings.take(np.arange(0, len(readings), max(1, len(readings) // 8)))

    def compute(asker: Asker, of: list[Readings]) -> None:
        for _ in timelines(asker, of):
            pass

    written = []

    def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ids = readings.record_id.tolist()
            written.append(continuum(cohort, model, Path(folder) / "continuum", records=ids).timing)

    queries = len(plain.variable) * len(plain.time_hours)
    lengths, few_lengths = readings.lengths, few.lengths
    encoding = work.encoder(lengths, config)
    least = encoding + work.lattice(lengths, queries, config)
    least_deviation = encoding + work.lattice_deviation(lengths, _times(readings), queries, config)
    times, ratios = in_turn([lambda: compute(plain, windows), lambda: compute(full, windows), write], RUNS)
    writing, size = (float(np.median([t[name] for t in written])) for name in ("write_s", "bytes"))
    drawing = (
        work.encoder(few_lengths, config)
        + work.lattice_deviation(few_lengths, _times(few), queries, config)
        + work.draws(len(few), queries, DRAWS, config)
    )
    draw_times, draw_ratios = in_turn([lambda: compute(plain, [few]), lambda: drawn_spread(full, few, DRAWS)], RUNS)
    return [
        Row(f"continuum of {len(readings)} records, compute", times[0], ceiling=limits.seconds(least)),
        Row("continuum with deviation", times[1], "continuum", ratios[1], limits.seconds(least_deviation)),
        Row("continuum on disk", times[2], "continuum", ratios[2]),
        Row("its writing, beside the computing", writing, "continuum", writing / times[0], size / limits.written),
        Row(
            f"{DRAWS} draws of {len(few)} records",
            draw_times[1],
            "continuum of these",
            draw_ratios[1],
            limits.seconds(drawing),
        ),
    ]


def _times(readings: Readings) -> list[int]:
    """How many different times each record has readings at."""
    return [len(np.unique(part)) for part in np.split(readings.time, readings.offsets[1:-1])]


def training(model: Model, readings: Readings, device: torch.device, limits: Ceilings) -> list[Row]:
    """One step of 32 records, forward and backward three times the products of a forward pass."""
    config, settings = model.network.config, TrainingConfig()
    rows = np.argsort(readings.lengths, kind="stable")[len(readings) // 2 :][: settings.batch_records]
    part = readings.take(rows)
    protocol = model.preprocessor.protocol
    batcher = Batcher(part, hide(part, protocol.hide, 0, protocol.max_targets))
    batch = batcher.batch(np.arange(len(part))).to(device)
    network = build(config, 0).to(device).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.peak_rate, fused=True)

    def step() -> None:
        loss = summed_loss(network, batch, settings) / int(batch.query_mask.sum())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
        optimiser.step()

    lengths, asked = batcher.context_lengths, np.diff(batcher.query_offsets)
    forward = work.encoder(lengths, config) + work.levy_mean(asked, lengths, config)
    forward += work.head(asked, config, merged=False)
    least = limits.seconds(Work(3 * forward.products, forward.exponentials))
    return [Row(f"training step of {len(part)} records", median(step, 2 * RUNS + 1), ceiling=least)]
