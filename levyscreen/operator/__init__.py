"""Levy Attention as pure functions over tensors, in the exact folded form.

Per head: `build_field` once a record, then `read` (mean path and signals) or `read_beam` (and the beam itself) for as
many queries as there are; `deviation` and `draw` work from the beam. `LatticeReader` does all of it for the queries
that a timeline asks of every record, its draws from a `RandomMeasure`.
"""

from levyscreen.operator.attention import LevyAttention, LevySignals
from levyscreen.operator.draws import draw, draw_once, straight_through
from levyscreen.operator.field import Field, build_field, mean_path
from levyscreen.operator.grid import Grid
from levyscreen.operator.kernel import rate, sharpened, unit
from levyscreen.operator.lattice import Lattice, LatticeReader, LatticeReading
from levyscreen.operator.measure import RandomMeasure
from levyscreen.operator.phi import phi
from levyscreen.operator.pushforward import deviation, output_gradient
from levyscreen.operator.sharpness import Sharpness
from levyscreen.operator.signals import Beam, Reading, read, read_beam
from levyscreen.operator.timestamps import Timestamps

__all__ = [
    "Beam",
    "Field",
    "Grid",
    "Lattice",
    "LatticeReader",
    "LatticeReading",
    "LevyAttention",
    "LevySignals",
    "RandomMeasure",
    "Reading",
    "Sharpness",
    "Timestamps",
    "build_field",
    "deviation",
    "draw",
    "draw_once",
    "mean_path",
    "output_gradient",
    "phi",
    "rate",
    "read",
    "read_beam",
    "sharpened",
    "straight_through",
    "unit",
]
