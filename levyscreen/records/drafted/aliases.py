"""Names and codes under which tables hold the usual variables, and plausible ranges of usual ones beyond the 36.

The names are those of the PhysioNet challenges, of ricu and YAIB, of eICU, and German ones; codes are published lists
that datasets.py reads. Parts of a coma score are none, and stay under their own names.
"""

from __future__ import annotations

import re

from levyscreen.records.drafted.datasets import known_everywhere
from levyscreen.records.drafted.datasets import short as short
from levyscreen.records.units import canonical, is_unit
from levyscreen.variables import PHYSIONET2012, Repair, Variable

BEYOND = (
    Variable("BaseExcess", "mmol/L", "base excess", -50, 50),
    Variable("BilirubinDirect", "mg/dL", "direct bilirubin", 0, 60),
    Variable("CK", "IU/L", "creatine kinase", 1, 200000),
    Variable("CRP", "mg/L", "C-reactive protein", 0, 800),
    Variable("Calcium", "mg/dL", "total calcium", 2, 20),
    Variable("Chloride", "mEq/L", "serum chloride", 60, 150),
    Variable("EtCO2", "mmHg", "end-tidal CO2", 1, 120),
    Variable("Fibrinogen", "mg/dL", "fibrinogen", 20, 1500),
    Variable("Hgb", "g/dL", "haemoglobin", 1, 25),
    Variable("INR", "", "international normalised ratio", 0.5, 20),
    Variable("PTT", "s", "partial thromboplastin time", 10, 250),
    Variable("Phosphate", "mg/dL", "phosphate", 0.2, 20),
    Variable("SpO2", "%", "O2 saturation by pulse oximetry", 10, 100),
)
KNOWN = {v.name: v for v in (*PHYSIONET2012.variables, *BEYOND)}

ALIASES = {
    "ALP": "alkalinephos alkalinephosphatase alkalinephosphate alkalischephosphatase ap",
    "ALT": "alanineaminotransferase alaninetransaminase sgpt altsgpt gpt",
    "AST": "asparateaminotransferase aspartateaminotransferase sgot astsgot got",
    "Albumin": "alb",
    "BUN": "ureanitrogen bloodureanitrogen urea serumurea bloodurea harnstoff",
    "BaseExcess": "be basenexzess",
    "Bilirubin": "bilirubintotal totalbilirubin bili tbili bilirubingesamt gesamtbilirubin",
    "BilirubinDirect": "bilirubin_direct directbilirubin bilidir bilirubindirekt",
    "CK": "creatinekinase cpk ckcpk kreatinkinase",
    "CRP": "creactiveprotein c-reactiveprotein creaktivesprotein c-reaktivesprotein",
    "Calcium": "ca calciumtotal totalcalcium kalzium",
    "Chloride": "cl chlorid",
    "Cholesterol": "chol totalcholesterol cholesterin",
    "Creatinine": "crea creat serumcreatinine kreatinin creatinin",
    "DiasABP": """dbp diastolicbp diastolic diastolicbloodpressure bloodpressurediastolic bpdiastolic
        diastolischerblutdruck blutdruckdiastolisch arterialbloodpressurediastolic artbpdiastolic systemicdiastolic
        invasivebpdiastolic""",
    "EtCO2": "endtidalco2",
    "FiO2": "fio2 inspiredo2fraction fractioninspiredoxygen",
    "Fibrinogen": "fgn fibrinogenfunctional",
    "GCS": "gcstotal tgcs glasgowcomascale gcssum glasgowcomascore scoreglasgowcomascale glasgowcomascoretotal",
    "Glucose": "glu bloodglucose serumglucose bedsideglucose glukose blutzucker bz",
    "HCO3": "bicarbonate bicar bic bikarbonat",
    "HCT": "hematocrit haematocrit hämatokrit haematokrit hkt",
    "HR": "heartrate pulse pulserate herzfrequenz hf puls",
    "Hgb": "hemoglobin haemoglobin hämoglobin hb",
    "INR": "inrpt pt-inr",
    "K": "potassium kalium",
    "Lactate": "lact lacticacid laktat",
    "MAP": """meanbp mbp map abpm meanarterialpressure meanbloodpressure bloodpressuremean mittlererarteriellerdruck
        mittlererblutdruck arterialbloodpressuremean artbpmean systemicmean invasivebpmean""",
    "MechVent": "ventilated mechanicalventilation vent",
    "Mg": "magnesium",
    "NIDiasABP": """nidbp nibpd nibpdia nibpdiastolic noninvasivediastolic noninvasivebloodpressurediastolic
        rrdiastolisch rrdia noninvasivebpdiastolic""",
    "NIMAP": "nimbp nibpm nibpmean noninvasivemean noninvasivebloodpressuremean rrmittel rrmean noninvasivebpmean",
    "NISysABP": """nisbp nibps nibpsys nibpsystolic noninvasivesystolic noninvasivebloodpressuresystolic rrsystolisch
        rrsys noninvasivebpsystolic""",
    "Na": "sodium natrium",
    "PTT": "aptt",
    "PaCO2": "pco2 arterialco2pressure",
    "PaO2": "po2 arterialo2pressure",
    "Phosphate": "phos phosphorus phosphorous phosphat",
    "Platelets": "plt plateletcount platelet plateletsx1000 thrombozyten thrombos",
    "RespRate": "resp rr respiratoryrate respirationrate respiration atemfrequenz af",
    "SaO2": "arterialo2saturation",
    "SpO2": "o2sat spo2 pulseoximetry o2saturationpulseoxymetry sauerstoffsättigung",
    "SysABP": """sbp systolicbp systolic systolicbloodpressure bloodpressuresystolic bpsystolic systolischerblutdruck
        blutdrucksystolisch arterialbloodpressuresystolic artbpsystolic systemicsystolic invasivebpsystolic""",
    "Temp": """temperature bodytemperature temperaturecelsius temperaturefahrenheit tempc tempf körpertemperatur
        koerpertemperatur temperatur""",
    "TroponinI": "tni troponin-i",
    "TroponinT": "tnt troponin-t",
    "Urine": "urineoutput urinevolume urinmenge urin",
    "WBC": "leukocytes leukozyten whitebloodcells whitebloodcellcount wbcx1000",
    "pH": "arterialph ph-wert phwert",
}
FACT_ALIASES = {
    "age": "age ageyears anchorage alter",
    "gender": "gender sex geschlecht",
    "height": "height heightcm grösse größe körpergröße",
    "icu_type": "icutype",
    "weight": "weight weightkg admissionweight gewicht körpergewicht",
}
FACT_UNITS = {"age": "years", "height": "cm", "weight": "kg"}
UREA = frozenset({"urea", "serumurea", "bloodurea", "harnstoff", "3091-6", "22664-7"})  # BUN is its nitrogen alone
# Pressures that may be measured in an artery or by a cuff.
_OF_ANY_SITE = """
    dbp diastolicbp diastolic diastolicbloodpressure bloodpressurediastolic bpdiastolic diastolischerblutdruck
    blutdruckdiastolisch 8462-4 meanbp mbp map meanarterialpressure meanbloodpressure bloodpressuremean
    mittlererblutdruck mittlererarteriellerdruck 8478-0
    sbp systolicbp systolic systolicbloodpressure bloodpressuresystolic bpsystolic
    systolischerblutdruck blutdrucksystolisch 8480-6
"""
OF_ANY_SITE = frozenset(_OF_ANY_SITE.split())
SPECIMENS = frozenset({"urine", "urin", "csf", "liquor", "stool", "ascites", "pleural", "pleuralfluid", "dialysate"})
_WHERE = frozenset({"serum", "plasma", "blood", "wholeblood", "arterial"})  # in brackets, and as if they were not there


def one_word_each(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


# What a part of a code may say after the variable without making it another: where, how and when, as LOINC does too.
_NEUTRAL = one_word_each(
    """total current value values result results score scored measured numeric actual admission serum ser plasma
    plas blood bld whole arterial chemistry hematology haematology gas routine lab labs vital vitals sign signs
    bedside poc poct monitor pt qn scnc mcnc ccnc ncnc vfr mfr pres rate unk unknown none"""
)
_NOW = frozenset({"current", "value", "result", "measured"})  # behind a name, and as if they were not there
# What makes a part of it something else: a component of a score, a change, an extreme, what was aimed at.
_COMPONENT = one_word_each(
    """eye eyes motor verbal delta change difference lowest highest low high lower upper min max minimum maximum
    target goal limit alarm set setting previous prior worst best"""
)


def tokens(name: str) -> set[str]:
    """The words of a name: offset_hours, OffsetHours."""
    return set(words_in(name))


def words_in(name: str) -> list[str]:
    """The words of a name, in order."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", name)]


def plain(text: str) -> str:
    """A name without case, blanks and punctuation; the hyphen of a code stays."""
    return re.sub(r"[^a-z0-9-]", "", text.lower())


def _by_alias(names: dict[str, str]) -> dict[str, str]:
    return {plain(alias): name for name, text in names.items() for alias in (name, *text.split())}


_BRACKETS = re.compile(r"(.*\S)\s*[(\[]([^()\[\]]+)[)\]]\s*")
_CODES = {plain(code): name for code, (name, _) in known_everywhere().items()}
_VARIABLES = _by_alias({name: ALIASES.get(name, "") for name in KNOWN})
_VARIABLES |= {code: name for code, name in _CODES.items() if name in KNOWN}
_FACTS = _by_alias(FACT_ALIASES) | {code: name for code, name in _CODES.items() if name not in KNOWN}


def known_as(code: str, description: str = "") -> str | None:
    """The usual variable, or the column of RECORDS, that a code stands for: by it, a part, or its description."""
    found = _word(code, description)
    return (_VARIABLES.get(found) or _FACTS.get(found)) if found else None


def is_urea(code: str, description: str = "") -> bool:
    """Whether a code stands for urea, of which BUN is the nitrogen alone."""
    return _word(code, description) in UREA


def of_any_site(code: str, description: str = "") -> bool:
    """Whether a code stands for a pressure without saying whether it was measured in an artery or by a cuff."""
    return _word(code, description) in OF_ANY_SITE


def _word(code: str, description: str) -> str | None:
    """The first of a code, its parts and its description that is known, in plain letters."""
    return _whole_word(code.removesuffix(".0")) or _of_parts(code) or _whole_word(description)


def is_component(code: str) -> bool:
    """Whether a code of several parts names a variable, and then something else that is no value of it.

    A component of a score, a change, an extreme: it is neither that variable nor one of its own.
    """
    return _of_parts(code) is None and _whole_word(code) is None and any(map(_whole_word, _parts(code)))


def _whole_word(text: str) -> str | None:
    """A text that is known as it is, without a unit in brackets, or without what says that it is the current value."""
    bare = _without_brackets(text)
    for each in (text, bare, " ".join(word for word in bare.split() if word.lower() not in _NOW)):
        word = plain(each)
        for known in (word, word if re.search(r"[0-9]-[0-9]", word) else word.replace("-", "")):
            if known in _VARIABLES or known in _FACTS:
                return known
    return None


def _of_parts(code: str) -> str | None:
    """The word that names a variable in a code of several parts; none where another part makes it something else.

    So GCS/Eyes Score/4 is no GCS, Weight (kg)/Delta no weight, and what is of another specimen none of blood.
    """
    parts = _parts(code)
    said = [set(re.findall(r"[a-z]+", part.lower())) for part in parts]
    if any(words & _COMPONENT for words in said) or any(plain(part) in SPECIMENS for part in parts[:-1]):
        return None
    first = next((i for i, part in enumerate(parts) if _whole_word(part)), None)
    if first is None:
        return None
    own = said[first] | _NEUTRAL
    rest = zip(parts[first + 1 :], said[first + 1 :], strict=True)
    fine = all(words <= own or is_unit(part) or _whole_word(part) for part, words in rest)
    return _whole_word(parts[first]) if fine else None


def _parts(code: str) -> list[str]:
    """The parts of a code, units aside."""
    chunks = [chunk for chunk in re.split(r"//|[|:]", code) if not is_unit(chunk)]
    found = [part.strip() for chunk in chunks for part in chunk.split("/")]
    return found if len(found) + code.count("//") > 1 or len(chunks) > 1 else []


def _without_brackets(text: str) -> str:
    """A name without a unit, or a word of no meaning here, in brackets at its end."""
    found = _BRACKETS.fullmatch(text)
    return found[1] if found and (is_unit(found[2]) or plain(found[2]) in _WHERE) else text


def unit_in(code: str) -> str | None:
    """The unit that a part of a code names, as in LAB//50931//mmol/L or Glucose (mmol/L); None where none does."""
    found = _BRACKETS.fullmatch(code)
    parts = [*code.split("//")[1:], *([found[2]] if found else [])]
    return next((part for part in parts if is_unit(part) and canonical(part)), None)


def range_of(name: str) -> tuple[float | None, float | None, Repair | None]:
    """Plausible range and repair of a usual variable; none of another."""
    known = KNOWN.get(name)
    return (known.low, known.high, known.repair) if known else (None, None, None)
