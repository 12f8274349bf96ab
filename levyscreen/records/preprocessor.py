"""A model's own statement of how a cohort's lines become its input: what is kept, repaired, and how it is scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.config import MOST_READINGS, Protocol, parsed
from levyscreen.errors import TrainingError
from levyscreen.records.alignment import aligned
from levyscreen.records.cohort import repeats
from levyscreen.records.described import patients_of
from levyscreen.records.hiding import subsample
from levyscreen.records.information import MEASURES, least_of
from levyscreen.records.readings import Readings
from levyscreen.types import LineClass
from levyscreen.variables import VariableSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort

# Patients of a variable whose mean and scale a model may tell: those of fewer may be one's exact value.
FEWEST_PATIENTS = 10
LEAST_SCALE = 1e-12  # a standard deviation below every unit's; values over it stay far within float32


@dataclass(frozen=True)
class Preprocessor:
    """Variables with their ranges, the protocol, and the statistics of the training records."""

    variables: VariableSet
    protocol: Protocol
    mean: tuple[float, ...]  # (V,) in each variable's unit
    # (V,) standard deviation, 1 where that is 0 (MechVent is always 1).
    scale: tuple[float, ...]
    # Of those, what is never held out as a target, since to predict it says nothing; the paper's protocol has none.
    constant: tuple[str, ...] = ()
    # What nearly all of those records say at the least, by information.MEASURES; the paper's protocol has none.
    least: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, cohort: Cohort, rows: NDArray[np.integer[Any]], variables: VariableSet, protocol: Protocol
    ) -> Preprocessor:
        """Statistics of the records at `rows`, the training records, alone.

        A variable of fewer than FEWEST_PATIENTS among them has a mean of 0 and a power of ten as its scale.
        """
        size = len(variables)
        unscaled = cls(variables, protocol, (0.0,) * size, (1.0,) * size)
        _, offsets, _, variable, value = unscaled._kept(cohort)
        train = np.zeros(len(cohort), dtype=bool)
        train[rows] = True
        record = np.repeat(np.arange(len(cohort)), np.diff(offsets))
        chosen = train[record]
        record, variable, value = record[chosen], variable[chosen], value[chosen]
        count = np.bincount(variable, minlength=size)
        mean = np.bincount(variable, value, minlength=size) / np.maximum(count, 1)
        square = np.bincount(variable, (value - mean[variable]) ** 2, minlength=size) / np.maximum(count - 1, 1)
        scale = np.sqrt(square)
        same = scale <= 1e-9 * np.abs(mean)  # a mean of equal values may be off by a rounding
        scale[same] = 1.0
        least = int(np.argmin(scale))
        if scale[least] < LEAST_SCALE:
            raise TrainingError(
                f"{variables.names[least]} varies by {scale[least]:.2g} only, below {LEAST_SCALE:g}: give it a smaller "
                "unit, by a factor in its mapping"
            )
        seen = np.unique(np.stack([variable, patients_of(cohort.records, record)]), axis=1)
        few = np.bincount(seen[0], minlength=size) < FEWEST_PATIENTS
        largest = np.zeros(size)
        np.maximum.at(largest, variable, np.abs(value))
        mean[few], scale[few] = 0.0, 10.0 ** np.ceil(np.log10(np.where(largest > 0, largest, 1.0)[few]))
        names = () if protocol.name == "paper" else np.array(variables.names)[same & (count > 1)]
        fitted = cls(variables, protocol, tuple(mean.tolist()), tuple(scale.tolist()), tuple(map(str, names)))
        return fitted if protocol.name == "paper" else fitted.with_least(cohort, rows)

    def with_least(self, cohort: Cohort, rows: NDArray[np.integer[Any]]) -> Preprocessor:
        """The same, knowing what the training records at `rows` say at the least."""
        return replace(self, least=least_of(self.apply(cohort).take(np.sort(rows)), self.protocol.min_readings))

    def apply(self, cohort: Cohort, seed: int = 0) -> Readings:
        """The readings that this model keeps, z-scored, in the cohort's order; each once, if it is there several times.

        Of a record with more than MOST_READINGS so many are drawn by `seed`, the same ones whatever the other records.
        Variables are known by name, whatever their order. Raises ModelError if the two share none, or one of them is
        in another unit.
        """
        record_id, offsets, hours, variable, value = self._kept(cohort)
        mean, scale = np.asarray(self.mean), np.asarray(self.scale)
        z = ((value - mean[variable]) / scale[variable]).astype(np.float32)
        time = (hours / np.float32(self.variables.horizon_hours)).astype(np.float32)
        varies = ~np.isin(self.variables.names, self.constant)[variable] if self.constant else None
        kept = Readings(record_id, offsets, time, variable.astype(np.int16), z, varies)
        return subsample(kept, MOST_READINGS, seed)

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
            **({"constant": list(self.constant)} if self.constant else {}),
            **({"least": dict(self.least)} if self.least else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Preprocessor:
        """The preprocessor that `to_json` wrote. Raises ValueError unless each variable has a mean and a scale."""
        if unknown := sorted(data.keys() - {"variables", "protocol", "mean", "scale", "constant", "least"}):
            raise ValueError(f"{unknown[0]!r:.40} is not known to this version")
        variables = VariableSet.from_json(data["variables"])
        mean, scale = (parsed(tuple[float, ...], data[name], name) for name in ("mean", "scale"))
        if not len(mean) == len(scale) == len(variables):
            raise ValueError(f"{len(mean)} means and {len(scale)} scales for {len(variables)} variables")
        if min(scale) < LEAST_SCALE:
            raise ValueError(f"scales must be {LEAST_SCALE:g} or more, got {min(scale):g}")
        constant = parsed(tuple[str, ...], data.get("constant", []), "constant")
        if other := sorted(set(constant) - set(variables.names)):
            raise ValueError(f"constant names {other[0]!r:.40}, which is none of the variables")
        least = parsed(dict[str, float], data.get("least", {}), "least")
        if other := sorted(least.keys() - set(MEASURES)):
            raise ValueError(f"least names {other[0]!r:.40}, which is none of {', '.join(MEASURES)}")
        return cls(variables, Protocol.from_json(data["protocol"]), mean, scale, constant, least)
