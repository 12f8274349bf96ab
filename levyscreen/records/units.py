"""Units that the usual variables come in: their spellings, the factors between them, and where a median usually lies.

Only what a mapping is guessed and a mismatch explained by; what is read is read by the factor that the mapping states.
"""

from __future__ import annotations

from dataclasses import dataclass

# Every other spelling, without blanks and in small letters, of a unit in levyscreen's own.
SPELLINGS = {
    "degC": ("c", "°c", "celsius", "cel", "degreescelsius", "deg.c"),
    "degF": ("f", "°f", "fahrenheit", "degreesfahrenheit", "[degf]", "deg.f"),
    "/min": ("bpm", "beats/min", "breaths/min", "insp/min", "1/min", "{beats}/min", "per minute"),
    "cells/nL": ("k/ul", "k/µl", "10*3/ul", "10^3/ul", "10*9/l", "10^9/l", "x10^9/l", "thousand/ul", "1000/µl"),
    "cells/uL": ("cells/µl", "/ul", "/µl", "cells/mm3"),
    "IU/L": ("u/l", "units/l", "[iu]/l"),
    "ug/L": ("µg/l", "ng/ml", "mcg/l"),
    "ng/L": ("pg/ml",),
    "umol/L": ("µmol/l", "micromol/l"),
    "%": ("percent", "pct"),
    "0-1": ("fraction", "1"),
    "mmHg": ("mmhg", "mm[hg]", "torr"),
    "mEq/L": ("meq/l",),
}
_SPELLED = {other: unit for unit, others in SPELLINGS.items() for other in (unit.lower(), *others)}


@dataclass(frozen=True)
class Conversion:
    """value in `other` * factor + offset is the value in `unit`."""

    variables: tuple[str, ...]
    other: str
    unit: str
    factor: float
    offset: float = 0.0


CONVERSIONS = (
    Conversion(("Temp",), "degF", "degC", 5 / 9, -160 / 9),
    Conversion(("Glucose",), "mmol/L", "mg/dL", 18.016),
    Conversion(("Creatinine",), "umol/L", "mg/dL", 1 / 88.42),
    Conversion(("BUN",), "mmol/L", "mg/dL", 2.801),
    Conversion(("Bilirubin",), "umol/L", "mg/dL", 1 / 17.104),
    Conversion(("Cholesterol",), "mmol/L", "mg/dL", 38.67),
    Conversion(("Lactate",), "mg/dL", "mmol/L", 1 / 9.008),
    Conversion(("Albumin", "Hgb"), "g/L", "g/dL", 0.1),
    Conversion(("FiO2",), "%", "0-1", 0.01),
    Conversion(("SaO2", "SpO2", "HCT"), "0-1", "%", 100.0),
    Conversion(("PaCO2", "PaO2"), "kPa", "mmHg", 7.50062),
    Conversion(("Platelets", "WBC"), "cells/uL", "cells/nL", 0.001),
    Conversion(("TroponinI", "TroponinT"), "ng/L", "ug/L", 0.001),
    Conversion(("K", "Na", "HCO3"), "mmol/L", "mEq/L", 1.0),
    Conversion(("HCO3",), "mEq/L", "mmol/L", 1.0),
    Conversion(("Calcium",), "mmol/L", "mg/dL", 4.008),
    Conversion(("Phosphate",), "mmol/L", "mg/dL", 3.097),
    Conversion(("height",), "m", "cm", 100.0),
    Conversion(("height",), "in", "cm", 2.54),
    Conversion(("weight",), "lb", "kg", 0.45359237),
)

# Where the median of many patients lies, in the variable's own unit; what lies outside is looked at for another unit.
# Mg: PhysioNet 2012 says mmol/L and holds mg/dL, and so do the models that learned from it.
TYPICAL = {
    "Temp": (34, 40),
    "Glucose": (70, 300),
    "Creatinine": (0.4, 6),
    "BUN": (8, 80),
    "Bilirubin": (0.2, 8),
    "Cholesterol": (80, 300),
    "Lactate": (0.5, 6),
    "Albumin": (1.5, 5.5),
    "Hgb": (6, 18),
    "FiO2": (0.2, 1),
    "SaO2": (75, 100),
    "SpO2": (80, 100),
    "HCT": (18, 60),
    "PaCO2": (22, 75),
    "PaO2": (45, 300),
    "Platelets": (40, 700),
    "WBC": (2, 50),
    "K": (2.5, 6.5),
    "Na": (120, 155),
    "HCO3": (12, 40),
    "Mg": (1.2, 3.5),
    "pH": (7, 7.7),
    "HR": (50, 150),
    "RespRate": (8, 45),
    "GCS": (3, 15),
    "SysABP": (70, 180),
    "DiasABP": (35, 100),
    "MAP": (45, 120),
    "TroponinI": (0, 40),
    "TroponinT": (0, 10),
    "Calcium": (6, 12),
    "Phosphate": (1.5, 8),
    "height": (120, 210),
    "weight": (35, 160),
}


def canonical(unit: str) -> str:
    """One spelling of a unit that has several."""
    plain = unit.strip().lower().replace(" ", "")
    return _SPELLED.get(plain, plain)


def same_unit(a: str, b: str) -> bool:
    """Whether two units are one, however they are written."""
    return canonical(a) == canonical(b)


def conversion(variable: str, other: str, unit: str) -> Conversion | None:
    """How values of a variable in `other` become values in `unit`; None where that is not known here."""
    for known in CONVERSIONS:
        if variable in known.variables and same_unit(known.other, other) and same_unit(known.unit, unit):
            return known
    return None


def likely(variable: str, median: float) -> tuple[bool, Conversion | None]:
    """Whether a median is usual for a variable in its own unit, and if not the unit in which it would be."""
    if variable not in TYPICAL:
        return True, None
    low, high = TYPICAL[variable]
    if low <= median <= high:
        return True, None
    for known in CONVERSIONS:
        if variable in known.variables and low <= median * known.factor + known.offset <= high:
            return False, known
    return False, None
