"""Codes of single data sets, which mean something else elsewhere: 200 is a heart rate in HiRID alone.

The sources: HiRID's variable reference, AmsterdamUMCdb's dictionary and MIMIC-III's D_ITEMS, all as the concept
dictionary of ricu lists them with their units.
"""

from __future__ import annotations

Known = dict[str, tuple[str, str]]  # code: variable or descriptor, and unit, "" for the variable's own

_HIRID = """HR 200|SysABP 100|MAP 110|DiasABP 120|NISysABP 600|NIMAP 610|NIDiasABP 620|RespRate 300 310
SpO2 4000 8280|SaO2 20000800|Temp 400 410 7100|FiO2 2010 in %|EtCO2 2200 8290 30010009|Albumin 24000605 in g/L
ALP 20002700|ALT 20002600|AST 24000330|BaseExcess 20001300|HCO3 20004200|Bilirubin 20004300 in umol/L
BilirubinDirect 24000560 in umol/L|BUN 20004100 in mmol/L|Calcium 20005100 in mmol/L|Chloride 24000439 24000521
CK 24000210|Creatinine 20000600 in umol/L|CRP 20002200|Fibrinogen 24000536 in g/L
Glucose 20005110 24000523 24000585 in mmol/L|Hgb 24000548 24000836 20000900 in g/L|INR 24000567
K 20000500 24000520 24000833 24000867|Lactate 24000524|Mg 24000230 in mmol/L
Na 20000400 24000519 24000658 24000835 24000866|PaCO2 20001200|pH 20000300|Phosphate 20002500 in mmol/L
Platelets 20000110|PaO2 20000200|PTT 20004410|TroponinT 24000806 in ng/L|WBC 20000700|weight 10000400|height 10000450"""
_AUMC = """HR 6640|SysABP 6641|MAP 6642|DiasABP 6643|RespRate 8874 12266|SpO2 6709 8903|SaO2 12311 in 0-1
Temp 8658 13952 16110|FiO2 12279 in %|Albumin 6801 9937 in g/L|ALP 6803 11984|ALT 6800 11978|AST 6806 11990
BaseExcess 6807 9994|HCO3 6810 9992|Bilirubin 6813 9945 in umol/L|BilirubinDirect 6812 in umol/L
BUN 6850 9943 in mmol/L|Calcium 6817 9933 in mmol/L|Chloride 9930|CK 6822 11998
Creatinine 6836 9941 14216 in umol/L|CRP 6825 10079|Fibrinogen 6776 9989 10175 in g/L
Glucose 6833 9557 9947 in mmol/L|HCT 6777 11423 11545 in 0-1|Hgb 6778 9553 9960 10286 19703 in mmol/L|INR 11893
K 6835 9556 9927 10285|Lactate 6837 9580 10053|Mg 6839 9952 in mmol/L|Na 6840 9555 9924 10284
PaCO2 6846 9990 21213|pH 6848 12310|Phosphate 6828 9935 in mmol/L|Platelets 6797 9964 10409 14252
PaO2 7433 9996 21214|PTT 17982|TroponinT 10407|Urine 8794|WBC 6779 9965"""
# CareVue's items; those of MetaVision are MIMIC-IV's, which aliases.py knows.
_MIMIC3 = """HR 211|SysABP 51 6701|DiasABP 8368 8555|MAP 52 6702|NISysABP 455|NIDiasABP 8441|NIMAP 456 443
RespRate 618 619|SpO2 646|SaO2 834|Temp 676 677|Temp 678 679 in degF|FiO2 3420 in %|EtCO2 1817|GCS 198
Urine 40055 40056 40057 40065 40069 40085 40086 40094 40096 40405 40428 40473 40715 43175
weight 762 763|height 4188 in cm|height 920 in in"""
# OMOP's standard concepts, by name: those that the data quality dashboard of OHDSI and MIMIC's OMOP tables list.
_OMOP = """HR 3027018|SysABP 3004249|DiasABP 3012888|MAP 3027598|RespRate 3024171|Temp 3020891|SpO2 40762499
SaO2 3016502|FiO2 3020716|GCS 3032652|Creatinine 3016723|BUN 3013682|Glucose 3004501 3000483|K 3023103 3005456
Na 3019550 3000285|Chloride 3014576|HCO3 3016293 3015632|Calcium 3006906|Mg 3001420|Phosphate 3011904
Bilirubin 3024128|ALT 3006923|AST 3013721|ALP 3035995|Albumin 3024561|Hgb 3000963|HCT 3023314|WBC 3000905 3010813
Platelets 3024929 3007461|pH 3019977|PaCO2 3027946|PaO2 3027801|Lactate 3047181 3014111|CRP 3020460
weight 3025315|height 3036277"""


def _parsed(text: str) -> Known:
    found: Known = {}
    for item in text.replace("\n", "|").split("|"):
        said, _, unit = item.partition(" in ")
        name, *codes = said.split()
        found |= {code: (name, unit) for code in codes}
    return found


DICTIONARIES: dict[str, Known] = {
    "hirid": _parsed(_HIRID),
    "aumc": _parsed(_AUMC),
    "mimic3": _parsed(_MIMIC3),
    "omop": _parsed(_OMOP),
}
