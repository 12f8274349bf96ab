"""Tokens and queries: a reading is value + time + variable, a query time + variable."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levyscreen.config import ModelConfig


class Embedding(nn.Module):
    """Linear value, Fourier features of time, a learned vector a variable, added (sec:setup)."""

    frequencies: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        ends = math.log(config.lowest_frequency), math.log(config.highest_frequency)
        # Not on "meta", where only shapes are asked for: to compute there loads torch's compiler, which takes seconds.
        frequencies = torch.empty(config.frequencies)
        if not frequencies.is_meta:
            frequencies = 2 * math.pi * torch.logspace(*ends, config.frequencies, base=math.e)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.value = nn.Linear(1, config.width)
        self.values = nn.Embedding(config.variables, config.width) if config.values == "variable" else None
        self.time = nn.Linear(2 * config.frequencies, config.width)
        self.variable = nn.Embedding(config.variables, config.width)

    def query(self, time: Tensor, variable: Tensor) -> Tensor:
        """`time` in [0, 1] and `variable` (...,) give (..., width)."""
        of_variable, of_time = self.query_parts(time, variable)
        return of_time + of_variable

    def query_parts(self, time: Tensor, variable: Tensor) -> tuple[Tensor, Tensor]:
        """The two vectors that `query` adds: of each `variable`, (..., width), and of each `time`, (..., width)."""
        phase = time.unsqueeze(-1) * self.frequencies
        fourier = torch.cat([phase.sin(), phase.cos()], dim=-1)
        return self.variable(variable), self.time(fourier)

    def token(self, time: Tensor, variable: Tensor, value: Tensor) -> Tensor:
        """As `query`, with the z-scored `value` (...,)."""
        embedded: Tensor = self.query(time, variable) + self.value(value.unsqueeze(-1))
        if self.values is not None:
            embedded = embedded + self.values(variable) * value.unsqueeze(-1)
        return embedded
