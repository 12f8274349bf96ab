"""The whole network: embed, encode, decode, head."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.errors import ModelError
from levyscreen.model.decode import CosineDecode, Decode, LevyDecode, SoftmaxDecode
from levyscreen.model.embed import Embedding
from levyscreen.model.encoder import Encoder
from levyscreen.model.fused import FusedHead
from levyscreen.model.heads import Head
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

    def tokens(self, batch: Batch) -> Tensor:
        """Encoded readings (R, n, width); embedded ones where the decode layer encodes them."""
        encoded: Tensor = self.encode(self.embed.token(batch.time, batch.variable, batch.value), batch.mask)
        return encoded

    def features(self, batch: Batch, tokens: Tensor | None = None) -> Tensor:
        """Layer output after its projection, (R, m, width): what the head reads. `tokens`, where they are known."""
        query = self.embed.query(batch.query_time, batch.query_variable)
        tokens = self.tokens(batch) if tokens is None else tokens
        projected: Tensor = self.decode.out(self.decode(query, tokens, batch.time, batch.mask))
        return projected

    def forward(self, batch: Batch) -> Tensor:
        """z-scored predictions (R, m), on the mean path."""
        mean: Tensor = self.head(self.features(batch))
        return mean

    def read_out(self, layer_output: Tensor) -> Tensor:
        """Concatenated heads a (..., width) -> predictions (...,)."""
        mean: Tensor = self.head(self.decode.out(layer_output))
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
        return FusedHead.of(self.levy(), self.head)

    def ask(self, field: Field, query: Tensor, with_deviation: bool) -> Prediction:
        """Answer unit queries (R or 1, H, m, d) from a field: predictions and signals, (R, m) each.

        The deviation needs the beam and the gradient of the head besides.
        """
        decode, head = self.levy(), self.fused_head()
        if not with_deviation:
            reading = read(query, field, decode.tau)
            return Prediction(head(_queries_last(reading.mean)), _head_means(reading, None))
        beam = read_beam(query, field, decode.tau)
        mean, gradient = head.with_gradient(_queries_last(beam.reading.mean))
        spread = deviation(beam, field, gradient.unflatten(1, (decode.heads, -1)).transpose(2, 3))
        return Prediction(mean, _head_means(beam.reading, spread))

    def lattice(self, variable: Tensor, time: Tensor) -> Lattice:
        """Queries for every pair of `variable` (V,) and `time` (T,), projected once for all records."""
        of_variable, of_time = self.levy().project_parts(*self.embed.query_parts(time, variable))
        return Lattice.of(of_variable, of_time)

    def ask_lattice(self, reader: LatticeReader, head: FusedHead, variables: slice) -> Prediction:
        """One record's predictions and signals, (V, T) each, for some variables of a lattice at all its times.

        `head` is around the centre of the record's field. With the deviation if the reader has the timestamps.
        """
        reading = reader.read(variables)
        layer_output = reading.moments.flatten(1, 2)
        if reading.intensity is None:
            return Prediction(head(layer_output), _head_means(reading, None))
        mean, gradient = head.with_gradient(layer_output)
        spread = reader.deviation(reading, gradient.unflatten(1, (self.config.heads, -1)))
        return Prediction(mean, _head_means(reading, spread))

    def predict(self, batch: Batch, with_deviation: bool = True) -> Prediction:
        """One deterministic pass over a batch's queries, as many at once as memory should be spent on."""
        query = self.levy().project_query(self.embed.query(batch.query_time, batch.query_variable))  # (R, H, m, d)
        field = self.record_side(batch)
        step = max(1, INTENSITIES // (query.shape[0] * query.shape[1] * batch.time.shape[1]))
        return _joined([self.ask(field, part, with_deviation) for part in query.split(step, dim=2)])


def _joined(parts: list[Prediction]) -> Prediction:
    """Answers to consecutive queries of the same records in one."""
    if len(parts) == 1:
        return parts[0]
    found = ([getattr(part.signals, field.name) for part in parts] for field in fields(Signals))
    signals = Signals(*(None if each[0] is None else torch.cat(each, dim=1) for each in found))  # type: ignore[arg-type]
    return Prediction(torch.cat([part.mean for part in parts], dim=1), signals)


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
