"""Dropout whose random numbers are cheap on a CPU; elsewhere the library's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 2**16
_own = threading.local()


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Dropout on a CPU draws from `generator` meanwhile, in this thread alone; None: from torch.manual_seed's."""
    before = getattr(_own, "generator", None)
    _own.generator = generator
    try:
        yield
    finally:
        _own.generator = before


class Dropout(nn.Module):
    """Inverted dropout at a probability rounded to 1 / 65,536.

    On a CPU a Bernoulli draw an element costs more than the matrix product before it: the generator gives one number at
    a time. One 64-bit number decides four elements here, an eighth of the time. Follows torch.manual_seed, or on a CPU
    `drawing_from`.
    """

    def __init__(self, probability: float):
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """`x` of any shape, zeroed with the probability, the rest scaled by 1 / (1 - probability); in eval mode `x`."""
        if not self.training or self.probability == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.probability, training=True)
        dropped = 2 * round(self.probability * _LEVELS / 2)
        keep = (_random_int16(x.numel()) >= dropped - _LEVELS // 2).view(x.shape)
        return x * keep.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))


def _random_int16(n: int) -> Tensor:
    # random_() leaves the sign bit 0. Shifted by one, three fields of four are uniform, the last uniform over the even
    # numbers; with an even threshold all four keep with the same probability.
    words = torch.empty((n + 3) // 4, dtype=torch.int64).random_(generator=getattr(_own, "generator", None))
    return words.bitwise_left_shift_(1).view(torch.int16)[:n]
