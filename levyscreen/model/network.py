"""The whole network: embed, encode, decode, head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import repeat

import torch
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.errors import ModelError
from levyscreen.model.decode import CosineDecode, Decode, LevyDecode, SoftmaxDecode
from levyscreen.model.embed import Embedding
from levyscreen.model.encoder import Encoder
from levyscreen.model.fused import FusedHead
from levyscreen.model.heads import Beside, Head, Mixture
from levyscreen.model.neighbours import Neighbours, Timetable, nearby
from levyscreen.model.tnp import TransformerDecode, Unencoded
from levyscreen.operator import Field, Lattice, LatticeReader, LatticeReading, Reading, deviation, read, read_beam
from levyscreen.types import Batch, Signals

# Of a record's queries with its keys, at once: 64 MB. No batch of usual records has as many; all the 525 million of a
# record of 50,000 readings would take gigabytes.
INTENSITIES = 2**24
DECODES = {"levy": LevyDecode, "softmax": SoftmaxDecode, "cosine": CosineDecode, "tnp-d": TransformerDecode}


@dataclass(frozen=True)
class Prediction:
    """One pass over a batch: z-scored predictions (R, m) and what the pass says about them."""

    mean: Tensor
    signals: Signals
    mixed: Tensor | None = None  # (R, m, MIXED) of config.py, from a network with neighbours
    nearby: Tensor | None = None  # (R, m, NEARBY) of config.py, where they were looked up


class Network(nn.Module):
    """About 0.7 M parameters at the defaults: 687,365 with 36 variables."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        decode: type[Decode] = DECODES[config.decode]
        self.embed = Embedding(config)
        self.encode = Unencoded() if decode.encodes else Encoder(config)
        self.decode = decode(config)
        self.head = Head(config)
        self.neighbours = None if config.neighbours == "none" else Neighbours(config)

    def tokens(self, batch: Batch) -> Tensor:
        """Encoded readings (R, n, width); embedded ones where the decode layer encodes them."""
        encoded: Tensor = self.encode(self.embed.token(batch.time, batch.variable, batch.value), batch.mask)
        return encoded

    def features(self, batch: Batch, tokens: Tensor | None = None) -> Tensor:
        """Layer output after its projection, (R, m, width). `tokens`, where they are known."""
        query = self.embed.query(batch.query_time, batch.query_variable)
        tokens = self.tokens(batch) if tokens is None else tokens
        projected: Tensor = self.decode.out(self.decode(query, tokens, batch.time, batch.mask))
        return projected

    def beside(self, batch: Batch) -> Beside | None:
        """What the head reads next to `features`; None for a network without neighbours."""
        if self.neighbours is None:
            return None
        with torch.autocast(batch.time.device.type, enabled=False):  # values themselves: 8 bits would not do
            found: Beside = self.neighbours(self.timetable(batch), batch.query_variable, batch.query_time)
        return found

    def timetable(self, batch: Batch) -> Timetable:
        """A batch's readings, for lookups of neighbours."""
        return Timetable.of(batch.time, batch.variable, batch.value, batch.mask, self.config.variables)

    def forward(self, batch: Batch, tokens: Tensor | None = None) -> Tensor:
        """z-scored predictions (R, m), on the mean path. `tokens`, where they are known."""
        mean: Tensor = self.head(self.features(batch, tokens), self.beside(batch))
        return mean

    def mean_and_scale(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean and scale (R, m) each, of a head trained by likelihood."""
        found: tuple[Tensor, Tensor] = self.head.mean_and_scale(self.features(batch), self.beside(batch))
        return found

    def read_out(self, layer_output: Tensor, batch: Batch) -> Tensor:
        """Concatenated heads a (..., R, m, width) -> predictions (..., R, m) for the queries of `batch`."""
        mean: Tensor = self.head(self.decode.out(layer_output), self.beside(batch))
        return mean

    def levy(self) -> LevyDecode:
        """The decode layer, or ModelError where it is another one and so has no signals."""
        if not isinstance(self.decode, LevyDecode):
            raise ModelError(
                f"this model decodes by {self.config.decode}, which emits no evidence, disagreement or deviation; "
                "levyscreen study scores such controls"
            )
        return self.decode

    def record_side(self, batch: Batch) -> Field:
        """Encode a batch's readings and build its field, all that queries read from."""
        return self.levy().field(self.tokens(batch), batch.time, batch.mask)

    def fused_head(self) -> FusedHead:
        """`read_out` for inference, queries last."""
        return FusedHead.of(self.levy(), self.head, self.neighbours)

    def ask(self, field: Field, query: Tensor, with_deviation: bool, beside: Beside | None = None) -> Prediction:
        """Answer queries (R or 1, H, m, d) from a field: predictions and signals, (R, m) each.

        `beside` is what the fused head reads of their neighbours. The deviation needs the beam and the gradient of the
        head as well.
        """
        decode, head = self.levy(), self.fused_head()
        if not with_deviation:
            reading = read(query, field, decode.rate)
            return _prediction(*head.read(_queries_last(reading.mean), beside), _head_means(reading, None))
        beam = read_beam(query, field, decode.rate)
        mean, gradient, mixture = head.with_gradient(_queries_last(beam.reading.mean), beside)
        spread = deviation(beam, field, gradient.unflatten(1, (decode.heads, -1)).transpose(2, 3))
        return _prediction(mean, mixture, _head_means(beam.reading, spread))

    def lattice(self, variable: Tensor, time: Tensor) -> Lattice:
        """Queries for every pair of `variable` (V,) and `time` (T,), projected once for all records."""
        of_variable, of_time = self.levy().project_parts(*self.embed.query_parts(time, variable))
        return Lattice.of(of_variable, of_time, self.levy().sharpness.g)

    def ask_lattice(
        self, reader: LatticeReader, head: FusedHead, variables: slice, beside: Beside | None = None
    ) -> Prediction:
        """One record's predictions and signals, (V, T) each, for some variables of a lattice at all its times.

        `head` is around the centre of the record's field, and `beside` what it reads of neighbours.
        With the deviation if the reader has the timestamps.
        """
        reading = reader.read(variables)
        layer_output = reading.moments.flatten(1, 2)
        if reading.intensity is None:
            return _prediction(*head.read(layer_output, beside), _head_means(reading, None))
        mean, gradient, mixture = head.with_gradient(layer_output, beside)
        spread = reader.deviation(reading, gradient.unflatten(1, (self.config.heads, -1)))
        return _prediction(mean, mixture, _head_means(reading, spread))

    def predict(self, batch: Batch, with_deviation: bool = True) -> Prediction:
        """One deterministic pass over a batch's queries, as many at once as memory should be spent on."""
        query = self.levy().project_query(self.embed.query(batch.query_time, batch.query_variable))  # (R, H, m, d)
        field, timetable = self.record_side(batch), self.timetable(batch)
        step = max(1, INTENSITIES // (query.shape[0] * query.shape[1] * batch.time.shape[1]))
        beside = self._beside(batch, timetable, step)
        found = _joined([self.ask(field, part, with_deviation, next(beside)) for part in query.split(step, dim=2)])
        return replace(found, nearby=nearby(timetable, batch.query_variable, batch.query_time))

    def _beside(self, batch: Batch, timetable: Timetable, step: int) -> Iterator[Beside | None]:
        """What the fused head reads of neighbours, `step` queries at a time."""
        weights = self.fused_head().neighbours
        if weights is None:
            yield from repeat(None)
            return
        for variable, time in zip(batch.query_variable.split(step, 1), batch.query_time.split(step, 1), strict=True):
            yield weights.of_queries(timetable, variable, time)


def _joined(parts: list[Prediction]) -> Prediction:
    """Answers to consecutive queries of the same records in one."""
    if len(parts) == 1:
        return parts[0]
    found = ([getattr(part.signals, field.name) for part in parts] for field in fields(Signals))
    signals = Signals(*(None if each[0] is None else torch.cat(each, dim=1) for each in found))  # type: ignore[arg-type]
    mixed = [part.mixed for part in parts if part.mixed is not None]
    return Prediction(torch.cat([part.mean for part in parts], 1), signals, torch.cat(mixed, 1) if mixed else None)


def _prediction(mean: Tensor, mixture: Mixture | None, signals: Signals) -> Prediction:
    return Prediction(mean, signals, None if mixture is None else mixture.columns)


def _queries_last(mean: Tensor) -> Tensor:
    """(R, H, m, d) -> (R, width, m)."""
    return mean.transpose(2, 3).flatten(1, 2)


def _head_means(reading: Reading | LatticeReading, spread: Tensor | None) -> Signals:
    """Signals are reported as head means (sec:disc)."""
    return Signals(reading.evidence.mean(1), reading.disagreement.mean(1), reading.sigma_hat.mean(1), spread)


def build(config: ModelConfig, seed: int) -> Network:
    """A freshly initialised network, the same for the same seed; global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        return Network(config)
