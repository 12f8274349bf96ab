"""Hidden readings asked of a model, answered in one pass: the part that calibration, evaluation and screening share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from levyscreen.errors import UsageError
from levyscreen.memory import halving
from levyscreen.parallel import each
from levyscreen.records.batches import Batcher, by_tokens
from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.model.network import Network
    from levyscreen.records.readings import Readings

TOKENS = 2_048  # padded context readings a batch: bounds memory, and keeps a batch within the processor's caches

# What a user may rank by, and the signal behind it; each oriented so that high means distrust.
SIGNALS = {
    "deviation": "deviation",
    "disagreement": "disagreement",
    "sigma": "sigma_hat",
    "evidence": "inverse_evidence",
}


@dataclass(frozen=True)
class Answers:
    """Answers to hidden targets, (N,) each; order of batches, then records, then time."""

    record: NDArray[np.int64]  # row of the readings
    time: NDArray[np.float32]  # in [0, 1]
    variable: NDArray[np.int64]
    truth: NDArray[np.float32]  # z-scored
    prediction: NDArray[np.float32]  # z-scored
    evidence: NDArray[np.float32]
    disagreement: NDArray[np.float32]
    sigma_hat: NDArray[np.float32]
    deviation: NDArray[np.float32]
    surroundings: NDArray[np.float32] | None = None  # (N, .) SURROUNDINGS of config.py, as many as the network has

    @property
    def error(self) -> NDArray[np.float32]:
        """|prediction - truth|."""
        return np.abs(self.prediction - self.truth)

    def signal(self, name: str) -> NDArray[np.float32]:
        """A signal by its calibration's name, high meaning distrust. Raises UsageError for an unknown one."""
        if name == "inverse_evidence":
            return np.asarray(1 / self.evidence, dtype=np.float32)
        if name not in SIGNALS.values():
            raise UsageError(f"unknown signal '{name}': use {', '.join(SIGNALS.values())}")
        values: NDArray[np.float32] = getattr(self, name)
        return values


def answer(network: Network, batch: Batch) -> Answers:
    """One deterministic pass over one batch; padding dropped. In full precision, whatever the caller's autocast."""
    with torch.no_grad(), torch.autocast(batch.time.device.type, enabled=False):
        prediction = network.predict(batch)
    signals, mask = prediction.signals, batch.query_mask
    assert signals.deviation is not None
    assert prediction.nearby is not None
    surroundings = [part for part in (prediction.nearby, prediction.mixed) if part is not None]
    record = batch.record[:, None].expand_as(mask)
    fields = (
        record,
        batch.query_time,
        batch.query_variable,
        batch.target,
        prediction.mean,
        signals.evidence,
        signals.disagreement,
        signals.sigma_hat,
        signals.deviation,
        torch.cat(surroundings, dim=-1),
    )
    return Answers(*(field[mask].cpu().numpy() for field in fields))


def ask(
    network: Network,
    readings: Readings,
    hidden: NDArray[np.bool_],
    device: torch.device,
    tokens: int = TOKENS,
    done: Callable[[int], None] = lambda records: None,
) -> Iterator[tuple[Batch, Answers]]:
    """Every record that has context and targets, batch by batch, longest first; batches are answered side by side.

    A batch that does not fit into memory is halved. Raises LevyscreenError where one record alone does not fit.
    """
    batcher = Batcher(readings, hidden)
    asked = np.flatnonzero((batcher.context_lengths > 0) & (np.diff(batcher.query_offsets) > 0))
    lengths = batcher.context_lengths[asked]

    def of_rows(rows: NDArray[np.int64]) -> tuple[Batch, Answers]:
        batch = batcher.batch(asked[rows]).to(device)
        return batch, answer(network, batch)

    for parts in each(lambda rows: halving(of_rows, rows, lengths), by_tokens(lengths, tokens), device):
        for batch, answers in parts:
            yield batch, answers
            done(len(batch.record))


def joined(parts: Sequence[Answers]) -> Answers:
    """All answers in one, for calibration and evaluation. Raises UsageError where there are none."""
    if not parts:
        raise UsageError("no record has both context and hidden targets")
    columns = ([getattr(part, name) for part in parts] for name in Answers.__dataclass_fields__)
    return Answers(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]
