"""Units that the usual variables come in: their spellings, the factors between them, and where a median usually lies.

Only what a mapping is guessed and a mismatch explained by; what is read is read by the factor that the mapping states.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

# Every other spelling, without blanks and in small letters, with u for the Greek letter, of a unit in levyscreen's own.
SPELLINGS = {
    "": (
        *("units", "unit", "unitless", "geen", "none", "na", "nan", "n/a", "<na>", "null", "-", ".", "unk", "unknown"),
        *("1", "ph", "[ph]", "phunits", "{ph}", "ratio", "{inr}", "inr", "{ratio}"),
    ),
    "degC": ("c", "°c", "?c", "celsius", "cel", "degreescelsius", "deg.c", "gradc", "gradcelsius"),
    "degF": ("f", "°f", "?f", "fahrenheit", "degreesfahrenheit", "[degf]", "deg.f"),
    "/min": (
        *("bpm", "beats/min", "breaths/min", "insp/min", "1/min", "{beats}/min", "{breaths}/min", "perminute"),
        *("/minute", "min-1", "br/min", "breath/min", "beats/minute", "breaths/minute", "atemzuege/min", "schläge/min"),
    ),
    "cells/nL": (
        *("k/ul", "k/mcl", "k/mm3", "k/mm^3", "k/cumm", "/nl", "1000/ul", "1000/mcl", "x1000/ul", "x1000/mcl"),
        *("thousand/ul", "thou/ul", "thou/mcl", "thou/mm3", "thous/ul", "tsd/ul"),
        *("10*3/ul", "10^3/ul", "10e3/ul", "10.e3/ul", "10³/ul", "10~3/ul", "x10^3/ul", "x10e3/ul", "x10*3/ul"),
        *("10*3/mcl", "10^3/mcl", "x10^3/mcl", "x10e3/mcl", "x10(3)/mcl", "10*3/mm3", "10^3/mm3", "x10^3/mm3"),
        *(
            "10*9/l",
            "10^9/l",
            "10e9/l",
            "10.e9/l",
            "10⁹/l",
            "10~9/l",
            "x10^9/l",
            "x10e9/l",
            "x10*9/l",
            "gpt/l",
            "giga/l",
        ),
    ),
    "cells/uL": ("/ul", "/mcl", "cells/mm3", "cells/mcl", "/mm3", "/cumm"),
    "IU/L": ("u/l", "units/l", "[iu]/l"),
    "ug/L": ("ng/ml", "mcg/l"),
    "ng/L": ("pg/ml",),
    "mg/L": ("ug/ml", "mcg/ml"),
    "mg/dL": ("mg%", "mg/100ml", "mgs/dl"),
    "g/dL": ("gm/dl", "gms/dl", "g%", "g/100ml"),
    "g/L": ("gm/l",),
    "umol/L": ("micromol/l", "mcmol/l"),
    "ukat/L": ("microkat/l",),
    "%": ("percent", "pct", "prozent"),
    "0-1": ("fraction", "l/l"),
    "3-15": ("points", "point", "score", "{score}", "pts", "punkte"),
    "mmHg": ("mm[hg]", "torr"),
    "mEq/L": ("mval/l",),
    "s": ("sec", "secs", "second", "seconds", "sek"),
    "mL": ("ml", "cc", "milliliter", "milliliters"),
    "cm": ("centimeter", "centimeters", "zentimeter"),
    "in": ("inch", "inches", "[in_i]", '"'),
    "kg": ("kilogram", "kilograms", "kgs"),
    "lb": ("lbs", "lbs.", "pound", "pounds", "[lb_av]"),
    "years": ("year", "y", "yr", "yrs", "a", "jahre"),
}
_SPELLED = {other: unit for unit, others in SPELLINGS.items() for other in (unit.lower(), *others)}
MONOVALENT = ("BaseExcess", "Chloride", "HCO3", "K", "Lactate", "Na")  # of these mEq/L is mmol/L, of Mg and Calcium not
FRACTIONS = ("FiO2", "HCT", "SaO2", "SpO2")  # of which a unit of 1 says that they are not in percent
COUNTS = ("Platelets", "WBC")  # G/L of these is giga, not gram
# PhysioNet 2012 says mmol/L of its Mg, and holds mg/dL; so do the models that learned from it.
MISLABELLED = {("Mg", "mmol/L"): "mg/dL"}


_ONE_SIGN = str.maketrans({"µ": "u", "μ": "u", "º": "°", "˚": "°", "℃": "°c", "℉": "°f", "\ufffd": "°"})


def canonical(unit: str, variable: str = "") -> str:
    """One spelling of a unit that has several; some are one unit for some variables alone."""
    plain = "".join(html.unescape(unit).lower().split()).translate(_ONE_SIGN)
    if plain == "g/l" and variable in COUNTS:
        return "cells/nL"
    if plain == "1" and variable in FRACTIONS:
        return "0-1"
    found = _SPELLED.get(plain, plain)
    return "mmol/l" if found == "mEq/L" and variable in MONOVALENT else found


def same_unit(a: str, b: str, variable: str = "") -> bool:
    """Whether two units are one, however they are written: for a variable, or for any."""
    return canonical(a, variable) == canonical(b, variable)


@dataclass(frozen=True)
class Conversion:
    """value in `other` * factor + offset is the value in `unit`."""

    variables: tuple[str, ...]
    other: str
    unit: str
    factor: float
    offset: float = 0.0


UREA = "mg/dL of urea"  # of which 2.14 are 1 mg/dL of its nitrogen, which is BUN
CONVERSIONS = (
    Conversion(("Temp",), "degF", "degC", 5 / 9, -160 / 9),
    Conversion(("Glucose",), "mmol/L", "mg/dL", 18.016),
    Conversion(("Glucose",), "g/L", "mg/dL", 100.0),
    Conversion(("Creatinine",), "umol/L", "mg/dL", 1 / 88.42),
    Conversion(("Creatinine",), "mmol/L", "mg/dL", 1000 / 88.42),
    Conversion(("BUN",), "mmol/L", "mg/dL", 2.801),
    Conversion(("BUN",), UREA, "mg/dL", 1 / 2.14),
    Conversion(("Bilirubin", "BilirubinDirect"), "umol/L", "mg/dL", 1 / 17.104),
    Conversion(("Cholesterol",), "mmol/L", "mg/dL", 38.67),
    Conversion(("Lactate",), "mg/dL", "mmol/L", 1 / 9.008),
    Conversion(("Albumin", "Hgb"), "g/L", "g/dL", 0.1),
    Conversion(("Hgb",), "mmol/L", "g/dL", 1.6114),  # of one chain with its haem, 16,114 g/mol
    Conversion(("FiO2",), "%", "0-1", 0.01),
    Conversion(("SaO2", "SpO2", "HCT"), "0-1", "%", 100.0),
    Conversion(("PaCO2", "PaO2", "EtCO2"), "kPa", "mmHg", 7.50062),
    Conversion(("Platelets", "WBC"), "cells/uL", "cells/nL", 0.001),
    Conversion(("TroponinI", "TroponinT"), "ng/L", "ug/L", 0.001),
    Conversion(("Calcium",), "mmol/L", "mg/dL", 4.008),
    Conversion(("Calcium",), "mEq/L", "mg/dL", 2.004),
    Conversion(("Mg",), "mmol/L", "mg/dL", 2.43),
    Conversion(("Mg",), "mEq/L", "mg/dL", 1.215),
    Conversion(("Phosphate",), "mmol/L", "mg/dL", 3.097),
    Conversion(("CRP",), "mg/dL", "mg/L", 10.0),
    Conversion(("Fibrinogen",), "g/L", "mg/dL", 100.0),
    Conversion(("ALP", "ALT", "AST", "CK"), "ukat/L", "IU/L", 60.0),
    Conversion(("height",), "m", "cm", 100.0),
    Conversion(("height",), "in", "cm", 2.54),
    Conversion(("weight",), "lb", "kg", 0.45359237),
    Conversion(("weight",), "g", "kg", 0.001),
)
_UNITS = {*SPELLINGS, "mmol/l", "kpa", *(canonical(unit) for c in CONVERSIONS for unit in (c.other, c.unit))}
_RATIO = re.compile(r"[^/]{1,12}(?:/(?:[dmunpf]?l|mcl|mm3|cumm|min|h|hr|hour|d|day|s|sec|k?g|m?mol|hpf|m2|1\.73m2))+")

# Where the median of many patients lies, in the variable's own unit; what lies outside is looked at for another unit.
TYPICAL = {
    "Temp": (34, 40),
    "Glucose": (70, 300),
    "Creatinine": (0.4, 6),
    "BUN": (11, 80),  # in mmol/L a median of the very ill is below
    "Bilirubin": (0.2, 5),
    "BilirubinDirect": (0.05, 1.5),
    "Cholesterol": (80, 300),
    "Lactate": (0.5, 6),
    "Albumin": (1.5, 5.5),
    "Hgb": (7.5, 18),  # in mmol/L a median of the very ill is below
    "FiO2": (0.2, 1),
    "SaO2": (75, 100),
    "SpO2": (80, 100),
    "HCT": (18, 60),
    "PaCO2": (22, 75),
    "PaO2": (45, 300),
    "EtCO2": (18, 60),
    "Platelets": (40, 700),
    "WBC": (2, 50),
    "K": (2.5, 6.5),
    "Na": (120, 155),
    "HCO3": (12, 40),
    "Chloride": (85, 125),
    "Mg": (1.15, 3.5),
    "pH": (7, 7.7),
    "HR": (50, 150),
    "RespRate": (8, 45),
    "GCS": (3, 15),
    "SysABP": (70, 180),
    "DiasABP": (35, 100),
    "MAP": (45, 120),
    "NISysABP": (70, 180),
    "NIDiasABP": (35, 100),
    "NIMAP": (45, 120),
    "TroponinI": (0, 40),
    "TroponinT": (0, 10),
    "Calcium": (6, 12),
    "Phosphate": (1.5, 8),
    "CRP": (0.5, 400),
    "Fibrinogen": (80, 900),
    "ALP": (15, 1000),
    "ALT": (5, 3000),
    "AST": (5, 3000),
    "CK": (10, 10000),
    "height": (120, 210),
    "weight": (35, 120),
}


def held_in(variable: str, label: str) -> str:
    """The unit that values are in: the one they are labelled with, but for those that the source labels wrongly."""
    return MISLABELLED.get((variable, label), label)


def is_unit(word: str) -> bool:
    """Whether a text looks like a unit: a known one, or anything by an amount or a time."""
    plain = canonical(word)
    return bool(word.strip()) and (plain in _UNITS or _RATIO.fullmatch(plain) is not None)


def conversion(variable: str, other: str, unit: str) -> Conversion | None:
    """How values of a variable in `other` become values in `unit`; None where that is not known here."""
    for known in CONVERSIONS:
        if variable in known.variables and same_unit(known.other, other, variable):
            return known if same_unit(known.unit, unit, variable) else None
    return None


def is_typical(variable: str, median: float) -> bool:
    """Whether a median is usual for a variable in its own unit; of a variable not known here every one is."""
    low, high = TYPICAL.get(variable, (-float("inf"), float("inf")))
    return low <= median <= high


def likely(variable: str, median: float) -> tuple[bool, Conversion | None]:
    """Whether a median is usual for a variable in its own unit, and if not the unit in which it would be."""
    if is_typical(variable, median):
        return True, None
    for known in CONVERSIONS:
        if variable in known.variables and is_typical(variable, median * known.factor + known.offset):
            return False, known
    return False, None
