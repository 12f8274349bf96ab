"""The meta-model: a small network from a pass's signals, the variable, the prediction and the query's surroundings.

It says how large the error is to be. Plain numbers and numpy; `levyscreen.learn.reader` fits them.

Boosted trees read the signals no better (`estimators/rich.py`), and would have to be kept as a pickle, which a model
folder may not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from levyscreen.config import SURROUNDINGS, parsed
from levyscreen.errors import CalibrationError

Float32s = NDArray[np.float32]
SMALLEST = 1e-8  # of a signal before its logarithm
LOGARITHMS = "deviation", "disagreement", "evidence"  # columns that are read as such
SIGNALS = (*LOGARITHMS, "prediction")
EVERY = (*SIGNALS, *SURROUNDINGS)
WITHOUT_DEVIATION = tuple(name for name in EVERY if name != "deviation")  # for passes that do not pay for it
ROWS = 65_536  # questions read at once: bounds memory


class Emitted(Protocol):
    """What one pass emits for questions of any one shape; z units of the prediction."""

    @property
    def prediction(self) -> NDArray[np.floating[Any]]: ...  # noqa: D102
    @property
    def variable(self) -> NDArray[np.integer[Any]]: ...  # noqa: D102
    @property
    def evidence(self) -> NDArray[np.floating[Any]]: ...  # noqa: D102
    @property
    def disagreement(self) -> NDArray[np.floating[Any]]: ...  # noqa: D102
    @property
    def deviation(self) -> NDArray[np.floating[Any]] | None: ...  # noqa: D102
    @property
    def surroundings(self) -> NDArray[np.floating[Any]] | None: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Reader:
    """Two hidden layers of H units over C columns and a row for each of V variables."""

    least: Float32s  # (C,) of each column where it was fitted: beyond, it answers as at the end
    most: Float32s  # (C,)
    centre: Float32s  # (C,)
    spread: Float32s  # (C,)
    columns: Float32s  # (C, H)
    variables: Float32s  # (V, H)
    hidden: Float32s  # (H, H)
    hidden_bias: Float32s  # (H,)
    out: Float32s  # (H,)
    out_bias: Float32s  # ()
    reads: tuple[str, ...] = SIGNALS  # (C,) names of EVERY

    @property
    def needs_deviation(self) -> bool:
        """Whether it takes the pass that costs more."""
        return "deviation" in self.reads

    @property
    def needs_surroundings(self) -> bool:
        """Whether it reads more than the pass emits."""
        return not set(self.reads).isdisjoint(SURROUNDINGS)

    def __call__(self, emitted: Emitted) -> Float32s:
        """The standard deviation of the Gaussian around each prediction, of the questions' shape, z units."""
        read = columns(emitted, self.reads)  # (..., C)
        variable = np.broadcast_to(emitted.variable, read.shape[:-1]).reshape(-1)
        rows = read.reshape(-1, len(self.reads))
        parts = [self._scale(rows[i : i + ROWS], variable[i : i + ROWS]) for i in range(0, max(len(rows), 1), ROWS)]
        return np.concatenate(parts).reshape(read.shape[:-1])

    def _scale(self, rows: Float32s, variable: NDArray[np.integer[Any]]) -> Float32s:
        standard = (np.clip(rows, self.least, self.most) - self.centre) / self.spread
        first = np.maximum(standard @ self.columns + self.variables[variable], 0)
        second = np.maximum(first @ self.hidden + self.hidden_bias, 0)
        return np.asarray(np.exp(second @ self.out + self.out_bias), dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain lists; a float32 comes back as it was."""
        return {name: list(each) if name == "reads" else each.tolist() for name, each in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], variables: int) -> Reader:
        """Raises CalibrationError where shapes do not fit together or a number is not finite."""
        names = [name for name in cls.__dataclass_fields__ if name != "reads"]
        reads = parsed(tuple[str, ...], data.get("reads", list(SIGNALS)), "reader.reads")
        if set(data) - {"reads"} != set(names) or not set(reads) <= set(EVERY) or len(set(reads)) < len(reads):
            raise CalibrationError(f"a reader has {', '.join(names)}, and reads some of {', '.join(EVERY)}")
        arrays = {name: np.asarray(data[name], dtype=np.float32) for name in names}
        units = len(np.atleast_1d(arrays["hidden_bias"]))
        shapes = ((len(reads),),) * 4 + (
            (len(reads), units),
            (variables, units),
            (units, units),
            (units,),
            (units,),
            (),
        )
        for (name, array), shape in zip(arrays.items(), shapes, strict=True):
            if array.shape != shape or not np.isfinite(array).all():
                raise CalibrationError(f"damaged reader: {name} has shape {array.shape}, not finite numbers of {shape}")
        if not (arrays["spread"] > 0).all():
            raise CalibrationError("damaged reader: a spread is not above 0")
        return cls(**arrays, reads=reads)


def known_columns(emitted: Emitted) -> tuple[str, ...]:
    """Names of EVERY that may be read: of the surroundings, as many as the network has."""
    around = 0 if emitted.surroundings is None else emitted.surroundings.shape[-1]
    return (*SIGNALS, *SURROUNDINGS[:around])


def columns(emitted: Emitted, reads: tuple[str, ...]) -> Float32s:
    """(..., C) float32, by the names of EVERY; signals as logarithms."""
    return np.stack([_column(emitted, name) for name in reads], axis=-1)


def _column(emitted: Emitted, name: str) -> Float32s:
    if name in SURROUNDINGS:  # whoever reads them asks for them: Calibration.needs_surroundings
        assert emitted.surroundings is not None
        return np.asarray(emitted.surroundings[..., SURROUNDINGS.index(name)], dtype=np.float32)
    values = np.asarray(getattr(emitted, name))
    if name in LOGARITHMS:
        values = np.log(np.maximum(values, SMALLEST), dtype=np.float32)
    return np.asarray(values, dtype=np.float32)
