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
    "degC": (
        *("c", "°c", "?c", "celsius", "cel", "degreescelsius", "deg.c", "gradc", "gradcelsius"),
        *("°celsius", "degreecelsius", "degreesc", "degreec", "celcius", "oc", "c°", "[degc]"),
    ),
    "degF": (
        *("f", "°f", "?f", "fahrenheit", "degreesfahrenheit", "[degf]", "deg.f"),
        *("°fahrenheit", "degreefahrenheit", "degreesf", "degreef", "farenheit", "of", "f°"),
    ),
    "/min": (
        *("bpm", "beats/min", "breaths/min", "insp/min", "1/min", "{beats}/min", "{breaths}/min", "perminute"),
        *("/minute", "min-1", "br/min", "breath/min", "beats/minute", "breaths/minute", "atemzuege/min", "schläge/min"),
        *("rpm", "resp/min", "pulse/min", "count/min", "counts/min", "min^-1", "bpm/min"),
    ),
    "cells/nL": (
        *("/nl", "giga/l", "gpt/l", "1000/ul"),  # and what _IN_THOUSANDS takes
    ),
    "cells/uL": ("/ul", "/mcl", "cells/mm3", "cells/mcl", "/mm3", "/cumm", "/cmm", "cells/cumm", "#/ul"),
    "IU/L": ("u/l", "units/l", "[iu]/l", "unit/l", "int'lunit/l"),
    "ug/L": ("ng/ml", "mcg/l"),
    "ng/L": ("pg/ml",),
    "mg/L": ("ug/ml", "mcg/ml"),
    "mg/dL": ("mg%", "mg/100ml", "mgs/dl"),
    "g/dL": ("gm/dl", "gms/dl", "g%", "g/100ml", "gram/dl", "grams/dl"),
    "g/L": ("gm/l",),
    "umol/L": ("micromol/l", "mcmol/l", "umols/l", "umole/l"),
    "mmol/L": ("mmols/l", "mmole/l", "millimol/l", "millimole/l"),
    "ukat/L": ("microkat/l",),
    "%": ("percent", "pct", "prozent", "vol%", "vol-%", "%o2"),
    "0-1": ("fraction", "l/l"),
    "3-15": ("points", "point", "score", "{score}", "pts", "punkte"),
    "mmHg": ("mm[hg]", "mm(hg)", "torr"),
    "mEq/L": ("mval/l",),
    "s": ("sec", "secs", "second", "seconds", "sek"),
    "mL": ("ml", "cc", "milliliter", "milliliters", "mls"),
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


_ONE_SIGN = str.maketrans(
    {"µ": "u", "μ": "u", "º": "°", "˚": "°", "℃": "°c", "℉": "°f", "\ufffd": "?"}
    | {"³": "3", "⁶": "6", "⁹": "9", "⁻": "-", "¹": "1", "×": "x", "\u2212": "-"}
)
# A sign that an export has lost: of a degree before C and F, of a micro before an amount.
_LOST = ((re.compile(r"^(?:\?|â°|\\xb0)+(?=[cf]$)"), "°"), (re.compile(r"(?:\?|âu|\\xb5)(?=(?:mol|g|kat|l)\b)"), "u"))
_NOTE = re.compile(r"\{[^{}]*\}")  # of UCUM, which changes nothing


def _ten_to_the(power: int) -> str:
    """How exports write 10^3 before a slash: 10*3, 10E3, 10³, x10(3)."""
    return rf"(?:10(?:\^|\*{{1,2}}|\.?e|~|x|'|\()?{power}\)?|\.?e{power})"


_MICROLITRE = r"(?:ul|mcl|cu\.?mm|cmm|mm[\^*]?3)"
_IN_THOUSANDS = re.compile(
    rf"[x*]?(?:(?:{_ten_to_the(3)}|k|th|thou|thous|thousands?|tsd\.?|1,?000)(?:\.?cells)?/{_MICROLITRE}"
    rf"|(?:{_ten_to_the(6)}|mio|millions?)(?:\.?cells)?/ml|(?:{_ten_to_the(9)}|bil|billions?)(?:\.?cells)?/l)"
)


def canonical(unit: str, variable: str = "") -> str:
    """One spelling of a unit that has several; some are one unit for some variables alone."""
    plain = _plain(unit)
    if plain == "g/l" and variable in COUNTS:
        return "cells/nL"
    if plain in ("1", "ratio", "decimal") and variable in FRACTIONS:
        return "0-1"
    found = _SPELLED.get(plain) or _spelled_by_rule(plain)
    return "mmol/L" if found == "mEq/L" and variable in MONOVALENT else found


def _plain(unit: str) -> str:
    """A unit in small letters without blanks, entities of HTML and signs that were lost on the way."""
    words = re.sub(r"\bper\s+", "/", html.unescape(unit).lower())
    found = "".join(words.split()).translate(_ONE_SIGN)
    for lost, sign in _LOST:
        found = lost.sub(sign, found)
    return found


def _spelled_by_rule(plain: str) -> str:
    """What is known of a unit once its notes are left out: a count in thousands a microlitre, or one in the table."""
    if plain in _SPELLED:  # of the empty unit, which stands there as itself
        return _SPELLED[plain]
    bare = _NOTE.sub("", plain).rstrip(".")
    return "cells/nL" if _IN_THOUSANDS.fullmatch(bare) else _SPELLED.get(bare or plain, bare or plain)


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
_UNITS = {*SPELLINGS, "kpa", *(canonical(unit) for c in CONVERSIONS for unit in (c.other, c.unit))}
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
