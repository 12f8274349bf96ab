"""What the stages cannot do without: operations counted from shapes, padding left out.

Counted are products of matrices, exponentials, and for draws the bytes that are looked up; sums, norms and random
numbers are not, so a stage that spends its time on them stands far from its ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from levyscreen.config import ModelConfig


@dataclass(frozen=True)
class Work:
    """Operations of one kind each, a multiplication and an addition being two."""

    products: float = 0.0
    exponentials: float = 0.0
    moved: float = 0.0  # bytes, read or written

    def __add__(self, other: Work) -> Work:
        return Work(self.products + other.products, self.exponentials + other.exponentials, self.moved + other.moved)

    def __mul__(self, times: float) -> Work:
        return Work(times * self.products, times * self.exponentials, times * self.moved)


def _sum(counts: ArrayLike) -> float:
    return float(np.sum(counts, dtype=np.float64))


def encoder(n: ArrayLike, c: ModelConfig) -> Work:
    """Self-attention over `n` readings of each record, and the feed-forward; GELU as one exponential."""
    n = np.asarray(n, dtype=np.float64)
    products = 2 * c.blocks * (n * (4 * c.width**2 + 2 * c.width * c.feed_forward) + 2 * n**2 * c.width)
    return Work(_sum(products), _sum(c.blocks * (c.heads * n**2 + n * c.feed_forward)))


def head(m: ArrayLike, c: ModelConfig, merged: bool = True) -> Work:
    """The read-out of `m` queries, its first layer merged with the decode layer's projection or not."""
    layers = 1 if merged else 2
    return Work(2 * _sum(m) * (layers * c.width**2 + c.width), _sum(m) * c.width)


def softmax(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    """Projections, and attention of `m` queries over `n` keys."""
    return _projections(m, n, c) + _attention(m, n, c, 2 * c.width)


def levy_mean(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    """The same with the keys' values read from the field."""
    return _projections(m, n, c) + _field(n, c, 2) + _attention(m, n, c, 2 * c.width)


def levy_signals(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    """Two columns a head besides: the second moment and the mass."""
    return _projections(m, n, c) + _field(n, c, 2) + _attention(m, n, c, 2 * c.width + 2 * c.heads)


def levy_beam(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    """The intensity of every cell, and the moments over the cells."""
    cells = c.time_cells * c.channel_cells
    over_keys = _attention(m, n, c, c.width + c.heads * cells)
    return _projections(m, n, c) + _field(n, c, 1) + over_keys + Work(2 * _sum(m) * cells * (c.width + 2 * c.heads))


def deviation(m: ArrayLike, c: ModelConfig) -> Work:
    """On top of the beam and the head: the head's gradient, and its product with every cell's value."""
    return Work(2 * _sum(m) * c.width * (c.width + c.time_cells * c.channel_cells))


def screening(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    """One pass with the deviation."""
    return encoder(n, c) + levy_beam(m, n, c) + head(m, c) + deviation(m, c)


def lattice(n: ArrayLike, queries: int, c: ModelConfig) -> Work:
    """Every record asked `queries` that are sums of two parts, so that logits cost no product."""
    n = np.asarray(n, dtype=np.float64)
    rows = c.width + 2 * c.heads
    return Work(2 * queries * _sum(n * rows), queries * _sum(c.heads * n)) + head(queries * len(n), c)


def lattice_deviation(n: ArrayLike, times: ArrayLike, queries: int, c: ModelConfig) -> Work:
    """The same by the beam, summed over the readings of each of a record's `times` first where that is less."""
    n, times = (np.asarray(x, dtype=np.float64) for x in (n, times))
    cells = c.time_cells * c.channel_cells
    intensity = c.heads * np.minimum(n * cells, n * c.channel_cells + times * cells)
    moments = cells * (c.width + 2 * c.heads)
    beam = Work(2 * queries * _sum(intensity + moments), queries * _sum(c.heads * n))
    return beam + head(queries * len(n), c) + deviation(queries * len(n), c)


def draws(records: int, queries: int, count: int, c: ModelConfig) -> Work:
    """On top of the beam: counts looked up, summed over the cells, and `count` predictions a query."""
    cells, asked = c.time_cells * c.channel_cells, records * queries * count
    sums = Work(2 * asked * cells * (c.width + 2 * c.heads), moved=2 * 4 * asked * c.heads * cells)
    return sums + head(asked, c)


def _projections(m: ArrayLike, n: ArrayLike, c: ModelConfig) -> Work:
    return Work(2 * (_sum(m) + 2 * _sum(n)) * c.width**2)


def _field(n: ArrayLike, c: ModelConfig, products: int) -> Work:
    """Weights of every key in every cell, twice: for the field, and for what a key reads of it."""
    cells = c.time_cells * c.channel_cells
    return Work(
        2 * _sum(n) * (products * cells * c.width + c.heads * c.width),
        2 * _sum(n) * (c.time_cells + c.heads * c.channel_cells),
    )


def _attention(m: ArrayLike, n: ArrayLike, c: ModelConfig, columns: int) -> Work:
    pairs = _sum(np.asarray(m, dtype=np.float64) * np.asarray(n, dtype=np.float64))
    return Work(2 * pairs * columns, pairs * c.heads)
