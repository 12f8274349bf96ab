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
    """Dropout is on meanwhile, in this thread alone and whatever the modules' mode, and draws from `generator`.

    `generator` is of the device that computes; None: torch.manual_seed's. Modules are not touched, since other threads
    may be reading the same network without dropout.
    """
    before = _drawing()
    _own.drawing = True, generator
    try:
        yield
    finally:
        _own.drawing = before


def _drawing() -> tuple[bool, torch.Generator | None]:
    """Whether dropout is on in this thread besides in training, and what it draws from."""
    drawing: tuple[bool, torch.Generator | None] = getattr(_own, "drawing", (False, None))
    return drawing


class Dropout(nn.Module):
    """Inverted dropout at a probability rounded to 1 / 65,536.

    On a CPU a Bernoulli draw an element costs more than the matrix product before it: the generator gives one number at
    a time. One 64-bit number decides four elements here, an eighth of the time. Follows torch.manual_seed or
    `drawing_from`.
    """

    def __init__(self, probability: float):
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """`x` of any shape, zeroed with the probability, the rest scaled by 1 / (1 - probability); in eval mode `x`."""
        on, generator = _drawing()
        if not (self.training or on) or self.probability == 0:
            return x
        if x.device.type != "cpu":
            return _elsewhere(x, self.probability, generator)
        dropped = 2 * round(self.probability * _LEVELS / 2)
        random = _random_int16(x.numel(), generator).view(x.shape)
        keep = torch.ge(random, dropped - _LEVELS // 2, out=torch.empty_like(x))  # 0 or 1, not bool: that takes longer
        return x * keep.mul_(_LEVELS / (_LEVELS - dropped))


def _elsewhere(x: Tensor, probability: float, generator: torch.Generator | None) -> Tensor:
    if generator is None:
        return F.dropout(x, probability, training=True)
    keep = torch.empty_like(x).bernoulli_(1 - probability, generator=generator)
    return x * keep.div_(1 - probability)


def _random_int16(n: int, generator: torch.Generator | None) -> Tensor:
    # random_() leaves the sign bit 0. Shifted by one, three fields of four are uniform, the last uniform over the even
    # numbers; with an even threshold all four keep with the same probability.
    words = torch.empty((n + 3) // 4, dtype=torch.int64).random_(generator=generator)
    return words.bitwise_left_shift_(1).view(torch.int16)[:n]
