"""All that one pass emits for a question, read together: a small network from signals, variable and prediction to the
expected size of the error. Plain numbers and numpy; `levyscreen.learn.reader` fits them.

Boosted trees read the signals no better (`estimators/rich.py`), and would have to be kept as a pickle, which a model
folder may not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from levyscreen.errors import CalibrationError

Float32s = NDArray[np.float32]
SMALLEST = 1e-8  # of a signal before its logarithm
COLUMNS = 4  # log deviation, log disagreement, log evidence, prediction
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


@dataclass(frozen=True, eq=False)
class Reader:
    """Two hidden layers of H units over four columns and a row for each of V variables."""

    least: Float32s  # (4,) of each column where it was fitted: beyond, it answers as at the end
    most: Float32s  # (4,)
    centre: Float32s  # (4,)
    spread: Float32s  # (4,)
    columns: Float32s  # (4, H)
    variables: Float32s  # (V, H)
    hidden: Float32s  # (H, H)
    hidden_bias: Float32s  # (H,)
    out: Float32s  # (H,)
    out_bias: Float32s  # ()

    def __call__(self, emitted: Emitted) -> Float32s:
        """The standard deviation of the Gaussian around each prediction, of the questions' shape, z units."""
        read = columns(emitted)  # (..., 4)
        variable = np.broadcast_to(emitted.variable, read.shape[:-1]).reshape(-1)
        rows = read.reshape(-1, COLUMNS)
        parts = [self._scale(rows[i : i + ROWS], variable[i : i + ROWS]) for i in range(0, max(len(rows), 1), ROWS)]
        return np.concatenate(parts).reshape(read.shape[:-1])

    def _scale(self, rows: Float32s, variable: NDArray[np.integer[Any]]) -> Float32s:
        standard = (np.clip(rows, self.least, self.most) - self.centre) / self.spread
        first = np.maximum(standard @ self.columns + self.variables[variable], 0)
        second = np.maximum(first @ self.hidden + self.hidden_bias, 0)
        return np.asarray(np.exp(second @ self.out + self.out_bias), dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain lists; a float32 comes back as it was."""
        return {name: array.tolist() for name, array in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], variables: int) -> Reader:
        """Raises CalibrationError where shapes do not fit together or a number is not finite."""
        names = list(cls.__dataclass_fields__)
        if set(data) != set(names):
            raise CalibrationError(f"a reader has {', '.join(names)}; this one {', '.join(map(str, data))}")
        arrays = {name: np.asarray(data[name], dtype=np.float32) for name in names}
        units = len(np.atleast_1d(arrays["hidden_bias"]))
        shapes = ((COLUMNS,),) * 4 + ((COLUMNS, units), (variables, units), (units, units), (units,), (units,), ())
        for (name, array), shape in zip(arrays.items(), shapes, strict=True):
            if array.shape != shape or not np.isfinite(array).all():
                raise CalibrationError(f"damaged reader: {name} has shape {array.shape}, not finite numbers of {shape}")
        if not (arrays["spread"] > 0).all():
            raise CalibrationError("damaged reader: a spread is not above 0")
        return cls(**arrays)


def columns(emitted: Emitted) -> Float32s:
    """(..., 4) float32: log deviation, log disagreement, log evidence, prediction."""
    assert emitted.deviation is not None  # whoever reads asks for it: Calibration.needs_deviation
    signals = emitted.deviation, emitted.disagreement, emitted.evidence
    logs = [np.log(np.maximum(signal, SMALLEST), dtype=np.float32) for signal in signals]
    return np.stack([*logs, np.asarray(emitted.prediction, dtype=np.float32)], axis=-1)
