"""The whole network: embed, encode, decode, head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from levyscreen.config import ModelConfig
from levyscreen.errors import ModelError
from levyscreen.model.decode import DECODES, Decode, LevyDecode
from levyscreen.model.embed import Embedding
from levyscreen.model.encoder import Encoder, join_heads, split_heads
from levyscreen.model.heads import Head
from levyscreen.operator import Field, Reading, deviation, output_gradient, read, read_beam
from levyscreen.types import Batch, Signals


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
        self.embed = Embedding(config)
        self.encode = Encoder(config)
        self.decode: Decode = DECODES[config.decode](config)
        self.head = Head(config)

    def tokens(self, batch: Batch) -> Tensor:
        """Encoded readings (R, n, width)."""
        encoded: Tensor = self.encode(self.embed.token(batch.time, batch.variable, batch.value), batch.mask)
        return encoded

    def features(self, batch: Batch) -> Tensor:
        """Layer output after its projection, (R, m, width): what the head reads."""
        query = self.embed.query(batch.query_time, batch.query_variable)
        attended = self.decode(query, self.tokens(batch), batch.time, batch.mask)
        projected: Tensor = self.decode.out(attended)
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
        """The decode layer, or ModelError where it is the softmax control and so has no signals."""
        if not isinstance(self.decode, LevyDecode):
            raise ModelError("this model decodes by softmax, which emits no evidence, disagreement or deviation")
        return self.decode

    def record_side(self, batch: Batch) -> Field:
        """Encode a batch's readings and build its field, all that queries read from."""
        return self.levy().field(self.tokens(batch), batch.time, batch.mask)

    def ask(
        self, field: Field, query: Tensor, with_deviation: bool, read_out: Callable[[Tensor], Tensor] | None = None
    ) -> Prediction:
        """Answer unit queries (R or 1, H, m, d) from a field: predictions and signals, (R, m) each.

        The deviation needs the beam and one backward of the head, some three times the cost of a mean-path query.
        `read_out` may be a faster form of `self.read_out`.
        """
        decode, read_out = self.levy(), read_out or self.read_out
        if not with_deviation:
            reading = read(query, field, decode.tau)
            return Prediction(read_out(join_heads(reading.mean)), _head_means(reading, None))
        beam = read_beam(query, field, decode.tau)
        mean, gradient = output_gradient(read_out, join_heads(beam.reading.mean))
        spread = deviation(beam, field, split_heads(gradient, decode.heads))
        return Prediction(mean, _head_means(beam.reading, spread))

    def predict(self, batch: Batch, with_deviation: bool = True) -> Prediction:
        """One deterministic pass over a batch's queries."""
        query = self.levy().project_query(self.embed.query(batch.query_time, batch.query_variable))
        return self.ask(self.record_side(batch), query, with_deviation)


def _head_means(reading: Reading, spread: Tensor | None) -> Signals:
    """Signals are reported as head means (sec:disc)."""
    return Signals(reading.evidence.mean(1), reading.disagreement.mean(1), reading.sigma_hat.mean(1), spread)


def build(config: ModelConfig, seed: int) -> Network:
    """A freshly initialised network, the same for the same seed; global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(config)
