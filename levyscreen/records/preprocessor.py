"""A model's own statement of how a cohort's lines become its input: what is kept, repaired, and how it is scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.config import Protocol, parsed
from levyscreen.errors import TrainingError
from levyscreen.records.alignment import aligned
from levyscreen.records.cohort import repeats
from levyscreen.types import LineClass
from levyscreen.variables import VariableSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort

LEAST_SCALE = 1e-12  # a standard deviation below every unit's; values over it stay far within float32


@dataclass(frozen=True)
class Readings:
    """A cohort as one model sees it: the readings it keeps, in its own units. R records, N readings."""

    record_id: NDArray[np.int64]  # (R,), -1 where the file names none
    offsets: NDArray[np.int64]  # (R + 1,): readings of record r are offsets[r]:offsets[r + 1]
    time: NDArray[np.float32]  # (N,) in [0, 1]
    variable: NDArray[np.int16]  # (N,)
    value: NDArray[np.float32]  # (N,) z-scored

    def __len__(self) -> int:
        return len(self.record_id)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Readings a record, (R,)."""
        return np.diff(self.offsets)

    def keep(self, mask: NDArray[np.bool_]) -> Readings:
        """The same records with only the readings where `mask` (N,) is True."""
        kept = np.concatenate([[0], np.cumsum(mask)])[self.offsets]
        return Readings(self.record_id, kept, self.time[mask], self.variable[mask], self.value[mask])

    def take(self, rows: NDArray[np.integer[Any]]) -> Readings:
        """Only the records at `rows`, in that order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        index = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Readings(self.record_id[rows], offsets, self.time[index], self.variable[index], self.value[index])


@dataclass(frozen=True)
class Preprocessor:
    """Variables with their ranges, the protocol, and the statistics of the training records."""

    variables: VariableSet
    protocol: Protocol
    mean: tuple[float, ...]  # (V,) in each variable's unit
    scale: tuple[float, ...]  # (V,) standard deviation, 1 where that is 0 (MechVent is always 1)

    @classmethod
    def fit(
        cls, cohort: Cohort, rows: NDArray[np.integer[Any]], variables: VariableSet, protocol: Protocol
    ) -> Preprocessor:
        """Statistics of the records at `rows`, the training records, alone."""
        size = len(variables)
        unscaled = cls(variables, protocol, (0.0,) * size, (1.0,) * size)
        _, offsets, _, variable, value = unscaled._kept(cohort)
        train = np.zeros(len(cohort), dtype=bool)
        train[rows] = True
        chosen = np.repeat(train, np.diff(offsets))
        variable, value = variable[chosen], value[chosen]
        count = np.bincount(variable, minlength=size)
        mean = np.bincount(variable, value, minlength=size) / np.maximum(count, 1)
        square = np.bincount(variable, (value - mean[variable]) ** 2, minlength=size) / np.maximum(count - 1, 1)
        scale = np.sqrt(square)
        scale[scale <= 1e-9 * np.abs(mean)] = 1.0  # a mean of equal values may be off by a rounding
        least = int(np.argmin(scale))
        if scale[least] < LEAST_SCALE:
            raise TrainingError(
                f"{variables.names[least]} varies by {scale[least]:.2g} only, below {LEAST_SCALE:g}: give it a smaller "
                "unit, by a factor in its mapping"
            )
        return cls(variables, protocol, tuple(mean.tolist()), tuple(scale.tolist()))

    def apply(self, cohort: Cohort) -> Readings:
        """The readings that this model keeps, z-scored, in the cohort's order; each once, if it is there several times.

        Variables are known by name, whatever their order. Raises ModelError if the two share none, or one of them is
        in another unit.
        """
        record_id, offsets, hours, variable, value = self._kept(cohort)
        mean, scale = np.asarray(self.mean), np.asarray(self.scale)
        z = ((value - mean[variable]) / scale[variable]).astype(np.float32)
        time = (hours / np.float32(self.variables.horizon_hours)).astype(np.float32)
        return Readings(record_id, offsets, time, variable.astype(np.int16), z)

    def _kept(self, cohort: Cohort) -> tuple[NDArray[Any], ...]:
        """Record ids, offsets, hours, variable and physical value of the lines that are readings to this model."""
        index = aligned(cohort, self.variables)
        lines = cohort.load()
        variable = index[lines.variable]
        classes, value = self.variables.judge(np.maximum(variable, 0), lines.value)
        keep = (variable >= 0) & np.isin(classes, (LineClass.READING, LineClass.REPAIRED))
        record_id = cohort.records.column("record_id").fill_null(-1).to_numpy()
        record = np.repeat(np.arange(len(cohort)), np.diff(cohort.offsets))
        kept = np.flatnonzero(keep)
        if (np.diff(index[index >= 0]) < 0).any():  # what is hidden of a record depends on the order of its readings
            kept = kept[np.lexsort((lines.value[kept], variable[kept], lines.time_hours[kept], record[kept]))]
        columns = record[kept], lines.time_hours[kept], variable[kept], value[kept]
        once = ~repeats(*columns)  # or a reading would be asked for while its copy is there to be read
        of, *rest = (column[once] for column in columns)
        return record_id, np.searchsorted(of, np.arange(len(cohort) + 1)), *rest

    def to_units(self, variable: NDArray[np.integer[Any]], value_z: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """z-scored values back in each variable's unit."""
        mean, scale = np.asarray(self.mean, np.float32), np.asarray(self.scale, np.float32)
        return np.asarray(value_z * scale[variable] + mean[variable], dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain objects that `from_json` reads back."""
        return {
            "variables": self.variables.to_json(),
            "protocol": self.protocol.to_json(),
            "mean": list(self.mean),
            "scale": list(self.scale),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Preprocessor:
        """The preprocessor that `to_json` wrote. Raises ValueError unless each variable has a mean and a scale."""
        if unknown := sorted(data.keys() - {"variables", "protocol", "mean", "scale"}):
            raise ValueError(f"{unknown[0]!r:.40} is not known to this version")
        variables = VariableSet.from_json(data["variables"])
        mean, scale = (parsed(tuple[float, ...], data[name], name) for name in ("mean", "scale"))
        if not len(mean) == len(scale) == len(variables):
            raise ValueError(f"{len(mean)} means and {len(scale)} scales for {len(variables)} variables")
        if min(scale) < LEAST_SCALE:
            raise ValueError(f"scales must be {LEAST_SCALE:g} or more, got {min(scale):g}")
        return cls(variables, Protocol.from_json(data["protocol"]), mean, scale)
