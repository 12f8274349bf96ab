"""The variables of each data set: names, units, plausible ranges. The one place that counts them.

A variable set belongs to a data set and travels with the model that was trained on it. The plausible ranges are wide:
what lies outside is a recording error (a disconnected probe, a lost decimal point), never a very sick patient. They
were set from clinical limits and checked against the 4,000 records of PhysioNet 2012 set-a.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from levyscreen.config import MOST, parsed
from levyscreen.types import LineClass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LEAST_HORIZON = 1e-6  # hours


@dataclass(frozen=True)
class Repair:
    """Values in [low, high] are taken for value * factor, for instance a pH of 735 for 7.35."""

    low: float
    high: float
    factor: float


@dataclass(frozen=True)
class Variable:
    """A time-varying variable; a value is plausible within [low, high], None standing for no limit."""

    name: str
    unit: str
    meaning: str
    low: float | None = None
    high: float | None = None
    repair: Repair | None = None


@dataclass(frozen=True)
class VariableSet:
    """The variables of one data set, and how its values are to be judged.

    `horizon_hours` is the length of a stay that time is normalised by. `version` changes with any change of the table.
    `negatives` says whether a value below 0 is a value like any other; in a table of intensive care it means "missing".
    """

    name: str
    version: int
    horizon_hours: float
    variables: tuple[Variable, ...]
    negatives: bool = False

    def __len__(self) -> int:
        return len(self.variables)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Variable names, in the order that every index counts in."""
        return tuple(v.name for v in self.variables)

    def judge(
        self, variable: NDArray[np.integer[Any]], value: NDArray[np.floating[Any]]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Class of each finite value, and the value itself, repaired where the table says so.

        `variable` (N,) indexes this set; `value` (N,) is in the variable's unit. Any negative value means "missing",
        unless the set has `negatives`. Where the table sets no limit, MOST is one: squares of more overflow float32,
        and a single such value would leave the whole record without an answer.
        """
        import numpy as np

        def column(pick: Any, empty: float) -> NDArray[np.float64]:
            return np.array([empty if pick(v) is None else pick(v) for v in self.variables], dtype=np.float64)

        exact: NDArray[np.float64] = np.asarray(value, dtype=np.float64)
        low, high = column(lambda v: v.low, -MOST)[variable], column(lambda v: v.high, MOST)[variable]
        classes: NDArray[np.uint8] = np.full(exact.shape, LineClass.READING, dtype=np.uint8)
        classes[(exact < low) | (exact > high)] = LineClass.IMPLAUSIBLE
        if not self.negatives:
            classes[exact < 0] = LineClass.NEGATIVE
        repaired = exact
        for index, v in enumerate(self.variables):
            if v.repair is not None:
                hit = (variable == index) & (exact >= v.repair.low) & (exact <= v.repair.high)
                classes[hit] = LineClass.REPAIRED
                repaired = np.where(hit, exact * v.repair.factor, repaired)
        return classes, repaired

    def without_ranges(self) -> VariableSet:
        """The same table emptied: negatives are as they were, everything else is kept (the paper's protocol)."""
        bare = tuple(replace(v, low=None, high=None, repair=None) for v in self.variables)
        return replace(self, name=f"{self.name}-unchecked", variables=bare)

    def to_json(self) -> dict[str, Any]:
        """Plain objects that `from_json` reads back.

        Without `negatives` where there are none: fingerprints of cohorts and trainings are of this text, and older than
        that field.
        """
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.negatives:
            del plain["negatives"]
        return plain

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> VariableSet:
        """The set that `to_json` wrote. Raises ValueError for any other."""
        found: VariableSet = parsed(cls, data, "variables")
        if len(set(found.names) - {""}) != len(found) or not len(found):
            raise ValueError("variables must have names, each its own")
        if found.horizon_hours < LEAST_HORIZON:
            raise ValueError(f"horizon_hours must be {LEAST_HORIZON:g} or more, got {found.horizon_hours:g}")
        return found


# Known by name, wherever they stand in a file: constant facts about the patient, not readings. Weight is recorded again
# and again; the first valid value counts.
DESCRIPTORS = ("RecordID", "Age", "Gender", "Height", "ICUType", "Weight")
# The columns of RECORDS that they fill.
FACTS = {"age": "Age", "gender": "Gender", "height": "Height", "icu_type": "ICUType", "weight": "Weight"}

PHYSIONET2012 = VariableSet(
    name="physionet2012",
    version=1,
    horizon_hours=48.0,
    variables=(
        Variable("ALP", "IU/L", "alkaline phosphatase", 1, 5000),
        Variable("ALT", "IU/L", "alanine transaminase", 0.5, 30000),
        Variable("AST", "IU/L", "aspartate transaminase", 0.5, 30000),
        Variable("Albumin", "g/dL", "albumin", 0.5, 8),
        Variable("BUN", "mg/dL", "blood urea nitrogen", 0.5, 300),
        Variable("Bilirubin", "mg/dL", "bilirubin", 0, 80),
        Variable("Cholesterol", "mg/dL", "cholesterol", 10, 1000),
        Variable("Creatinine", "mg/dL", "serum creatinine", 0.05, 40),
        Variable("DiasABP", "mmHg", "diastolic arterial pressure, invasive", 1, 300),
        Variable("FiO2", "0-1", "fractional inspired oxygen", 0.15, 1),
        Variable("GCS", "3-15", "Glasgow coma score", 3, 15),
        Variable("Glucose", "mg/dL", "serum glucose", 5, 2000),
        Variable("HCO3", "mmol/L", "serum bicarbonate", 2, 60),
        Variable("HCT", "%", "haematocrit", 2, 75),
        Variable("HR", "bpm", "heart rate", 1, 295),
        Variable("K", "mEq/L", "serum potassium", 0.5, 15),
        Variable("Lactate", "mmol/L", "lactate", 0.05, 50),
        Variable("MAP", "mmHg", "mean arterial pressure, invasive", 1, 300),
        Variable("MechVent", "0/1", "mechanical ventilation", 0, 1),
        Variable("Mg", "mmol/L", "serum magnesium", 0.1, 15),
        Variable("NIDiasABP", "mmHg", "diastolic arterial pressure, non-invasive", 1, 300),
        Variable("NIMAP", "mmHg", "mean arterial pressure, non-invasive", 1, 300),
        Variable("NISysABP", "mmHg", "systolic arterial pressure, non-invasive", 1, 300),
        Variable("Na", "mEq/L", "serum sodium", 90, 190),
        Variable("PaCO2", "mmHg", "partial pressure of arterial CO2", 3, 200),
        Variable("PaO2", "mmHg", "partial pressure of arterial O2", 5, 700),
        Variable("Platelets", "cells/nL", "platelets", 1, 3000),
        Variable("RespRate", "/min", "respiration rate", 1, 120),
        Variable("SaO2", "%", "O2 saturation in haemoglobin", 10, 100),
        Variable("SysABP", "mmHg", "systolic arterial pressure, invasive", 1, 300),
        Variable("Temp", "degC", "temperature", 25, 45),
        Variable("TroponinI", "ug/L", "troponin-I", 0, 500),
        Variable("TroponinT", "ug/L", "troponin-T", 0, 100),
        Variable("Urine", "mL", "urine output", 0, 20000),
        Variable("WBC", "cells/nL", "white blood cell count", 0, 1000),
        Variable("pH", "", "arterial pH", 6.3, 8.0, Repair(650, 800, 0.01)),
    ),
)

# Time is not in hours here: the benchmarks scale four years to [0, 200]. Values come z-scored.
USHCN = VariableSet(
    name="ushcn",
    version=1,
    horizon_hours=200.0,
    variables=(
        Variable("PRCP", "z", "precipitation"),
        Variable("SNOW", "z", "snowfall"),
        Variable("SNWD", "z", "snow depth"),
        Variable("TMAX", "z", "highest temperature of the day"),
        Variable("TMIN", "z", "lowest temperature of the day"),
    ),
    negatives=True,
)
