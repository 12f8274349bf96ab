"""Data to SVG paths in whole units, a few kilobytes a picture.

A page has a picture for each flagged patient, some four hundred for 4,000 records: at that number matplotlib's fifth
of a second and thirty kilobytes for each would make the page slow to write and too large to send. What stands around
the paths is in templates, how they look in the page's sheet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten


@dataclass(frozen=True)
class Frame:
    """A rectangle of a picture, in the picture's units, and the range of the data that it shows."""

    left: int
    top: int
    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]  # upwards

    def places(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Whole units (N, 2) of the points that are finite; what lies outside stands at the edge."""
        points = np.stack([np.asarray(v, dtype=np.float64) for v in (x, y)], axis=1)
        points = points[np.isfinite(points).all(axis=1)]
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        share = np.clip((points - [x0, y0]) / [x1 - x0, y1 - y0], 0, 1)
        corner, size = np.array([self.left, self.top + self.height]), np.array([self.width, -self.height])
        return np.asarray(np.rint(corner + share * size), dtype=np.int64)

    def line(self, x: ArrayLike, y: ArrayLike) -> str:
        """Path through the points."""
        return _path(self.places(x, y))

    def band(self, x: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> str:
        """Path around what lies between two lines; empty where one of them is nowhere finite."""
        above, below = self.places(x, upper), self.places(x, lower)
        if not len(above) or not len(below):
            return ""
        return _path(np.concatenate([above, below[::-1]])) + "z"

    def dots(self, x: ArrayLike, y: ArrayLike) -> str:
        """Path of strokes without length, whose round ends are what is seen."""
        return "".join(f"M{left} {top}h0" for left, top in self.places(x, y).tolist())

    def x_ticks(self, most: int = 6) -> list[tuple[int, str]]:
        """Place and label of each tick below."""
        found = ticks(*self.x_range, most)
        places = self.places([v for v, _ in found], [self.y_range[0]] * len(found))
        return [(left, label) for left, (_, label) in zip(places[:, 0].tolist(), found, strict=True)]

    def y_ticks(self, most: int = 4) -> list[tuple[int, str]]:
        """Place and label of each tick on the left."""
        found = ticks(*self.y_range, most)
        places = self.places([self.x_range[0]] * len(found), [v for v, _ in found])
        return [(top, label) for top, (_, label) in zip(places[:, 1].tolist(), found, strict=True)]


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most `most` + 1 round numbers from `low` to `high`, each with its label."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(s for s in STEPS if s * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + (step / power == 2.5))
    return [(i * step, f"{i * step + 0.0:,.{digits}f}") for i in range(first, last + 1)]


def span(*values: Any) -> tuple[float, float]:
    """The range of all finite values with a little room, never empty."""
    every = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
    every = every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _path(places: NDArray[np.int64]) -> str:
    """Relative steps, which are shorter than places."""
    if not len(places):
        return ""
    (left, top), steps = places[0].tolist(), np.diff(places, axis=0).tolist()
    return f"M{left} {top}" + ("l" + " ".join(f"{dx} {dy}" for dx, dy in steps)).replace(" -", "-")
