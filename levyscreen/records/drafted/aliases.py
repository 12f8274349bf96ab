"""Names and codes under which tables hold the usual variables, and plausible ranges of usual ones beyond the 36.

Codes are those of LOINC and of MIMIC-IV's item tables; names those of the PhysioNet challenges, of ricu and YAIB.
"""

from __future__ import annotations

import re

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
    "ALP": "alkalinephos alkalinephosphatase 6768-6 50863",
    "ALT": "alanineaminotransferase alaninetransaminase sgpt 1742-6 50861",
    "AST": "asparateaminotransferase aspartateaminotransferase sgot 1920-8 50878",
    "Albumin": "alb 1751-7 50862",
    "BUN": "ureanitrogen bloodureanitrogen urea 3094-0 51006",
    "BaseExcess": "be 50802 1925-7",
    "Bilirubin": "bilirubintotal totalbilirubin bili tbili 1975-2 50885",
    "BilirubinDirect": "bilirubin_direct directbilirubin bilidir 1968-7 50883",
    "CK": "creatinekinase 2157-6 50910",
    "CRP": "creactiveprotein 1988-5 50889",
    "Calcium": "ca calciumtotal 17861-6 50893",
    "Chloride": "cl 2075-0 50902",
    "Cholesterol": "chol totalcholesterol 2093-3 50907",
    "Creatinine": "crea creat serumcreatinine 2160-0 50912",
    "DiasABP": "dbp diastolicbp diastolic diastolicbloodpressure arterialbloodpressurediastolic 8462-4 220051",
    "EtCO2": "endtidalco2 19891-1",
    "FiO2": "fio2 inspiredo2fraction fractioninspiredoxygen 3150-6 223835",
    "Fibrinogen": "fgn fibrinogenfunctional 3255-7 51214",
    "GCS": "gcstotal tgcs glasgowcomascale 9269-2",
    "Glucose": "glu bloodglucose serumglucose 2345-7 50931",
    "HCO3": "bicarbonate bicar bic 1963-8 50882",
    "HCT": "hematocrit haematocrit 4544-3 51221",
    "HR": "heartrate pulse pulserate 8867-4 220045",
    "Hgb": "hemoglobin haemoglobin hb 718-7 51222",
    "INR": "inrpt 6301-6 51237",
    "K": "potassium 2823-3 50971",
    "Lactate": "lact lacticacid 2524-7 32693-4 50813",
    "MAP": "meanbp mbp map abpm meanarterialpressure arterialbloodpressuremean 8478-0 220052",
    "MechVent": "ventilated mechanicalventilation vent",
    "Mg": "magnesium 19123-9 2601-3 50960",
    "NIDiasABP": "nidbp nibpd nibpdia nibpdiastolic noninvasivebloodpressurediastolic 220180",
    "NIMAP": "nimbp nibpm nibpmean noninvasivebloodpressuremean 220181",
    "NISysABP": "nisbp nibps nibpsys nibpsystolic noninvasivebloodpressuresystolic 220179",
    "Na": "sodium 2951-2 50983",
    "PTT": "aptt 3173-2 14979-9 51275",
    "PaCO2": "pco2 arterialco2pressure 2019-8 50818",
    "PaO2": "po2 arterialo2pressure 2703-7 50821",
    "Phosphate": "phos phosphorus 2777-1 50970",
    "Platelets": "plt plateletcount platelet 777-3 51265",
    "RespRate": "resp rr respiratoryrate respirationrate 9279-1 220210",
    "SaO2": "arterialo2saturation 2708-6 50817 220227",
    "SpO2": "o2sat spo2 pulseoximetry o2saturationpulseoxymetry 59408-5 220277",
    "SysABP": "sbp systolicbp systolic systolicbloodpressure arterialbloodpressuresystolic 8480-6 220050",
    "Temp": "temperature bodytemperature temperaturecelsius temperaturefahrenheit tempc tempf 8310-5 223762 223761",
    "TroponinI": "tni 10839-9 51002",
    "TroponinT": "tnt 6598-7 51003",
    "Urine": "urineoutput urinevolume 226559",
    "WBC": "leukocytes whitebloodcells whitebloodcellcount 6690-2 51301",
    "pH": "arterialph 2744-1 50820",
}
FACT_ALIASES = {
    "age": "age ageyears anchorage",
    "gender": "gender sex",
    "height": "height heightcm 226730 8302-2",
    "icu_type": "icutype",
    "weight": "weight weightkg admissionweight 226512 29463-7",
}


def plain(text: str) -> str:
    """A name without case, blanks and punctuation; the hyphen of a code stays."""
    return re.sub(r"[^a-z0-9-]", "", text.lower())


def _by_alias(names: dict[str, str]) -> dict[str, str]:
    return {plain(alias): name for name, text in names.items() for alias in (name, *text.split())}


_VARIABLES = _by_alias({name: ALIASES.get(name, "") for name in KNOWN})
_FACTS = _by_alias(FACT_ALIASES)


def known_as(code: str, description: str = "") -> str | None:
    """The usual variable, or the column of RECORDS, that a code stands for: by it, a part, or its description."""
    for text in (code, *re.split(r"//|[/|:]", code), description):
        found = _VARIABLES.get(plain(text)) or _FACTS.get(plain(text))
        if found:
            return found
    return None


def range_of(name: str) -> tuple[float | None, float | None, Repair | None]:
    """Plausible range and repair of a usual variable; none of another."""
    known = KNOWN.get(name)
    return (known.low, known.high, known.repair) if known else (None, None, None)
