"""The published lists of codes: what they say of each code, and that a first mapping says the same."""

from __future__ import annotations

import pytest

from levyscreen.records.drafted.aliases import FACT_ALIASES, KNOWN, known_as
from levyscreen.records.drafted.datasets import EVERYWHERE, NAMES, data_set
from levyscreen.records.units import conversion, held_in, is_unit, same_unit
from tests.records.drafted.test_exports import at
from tests.records.drafted.test_sources import mapped, written

LISTS = [data_set(key) for key in dict.fromkeys((*NAMES, *EVERYWHERE))]


@pytest.mark.parametrize("known", LISTS, ids=lambda known: known.key)
def test_a_list_says_where_it_is_from_and_every_unit_in_it_leads_to_its_variables_own(known):
    assert "http" in known.published or "ricu" in known.published
    for name, unit in known.codes.values():
        assert name in KNOWN or name in FACT_ALIASES
        if unit:
            own = held_in(name, KNOWN[name].unit) if name in KNOWN else {"height": "cm", "weight": "kg"}[name]
            assert is_unit(unit)
            assert same_unit(unit, own, name) or conversion(name, unit, own) is not None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("14682-9", "Creatinine"),
        ("2519-7", "Lactate"),
        ("8331-1", "Temp"),
        ("76214-6", "MAP"),
        ("76536-2", "NIMAP"),
        ("224690", "RespRate"),
        ("226560", "Urine"),
        ("228640", "EtCO2"),
        ("224639", "weight"),
        ("226707", "height"),
        ("9267-6", None),  # a part of a coma score
        ("2705-2", None),  # venous
        ("224688", None),  # a rate that is set
        ("226253", None),  # a limit of an alarm
        ("227488", None),  # irrigation
        ("2161-8", None),  # of urine
    ],
)
def test_a_code_is_known_everywhere_unless_it_is_of_something_else(code, name):
    assert known_as(code) == name


@pytest.mark.parametrize(
    ("stay", "codes"),
    [
        ("stay_id", {226707: ("height", 70, 2.54), 226531: ("weight", 180, 0.45359)}),
        ("icustay_id", {920: ("height", 70, 2.54), 3581: ("weight", 180, 0.45359)}),
    ],
)
def test_inches_and_pounds_of_mimic_are_no_centimetres_and_kilograms(stay, codes, tmp_path):
    rows = [(r, r + 50, at(h, r), 220045, 80) for r in range(3) for h in range(9)]
    rows += [(r, r + 50, at(1, r), code, value) for r in range(3) for code, (_, value, _) in codes.items()]
    _, found = mapped(written(tmp_path / "chartevents.csv", f"subject_id,{stay},charttime,itemid,valuenum", rows))
    factors = {rule.name: rule.factor for rule in found.rules if rule.name in found.facts}
    assert factors == pytest.approx({name: factor for name, _, factor in codes.values()}, rel=1e-4)


def test_what_a_column_says_comes_before_what_a_list_says(tmp_path):
    rows = [(r, r + 50, at(h, r), 223761, 37 + h / 10, "°C") for r in range(3) for h in range(9)]
    _, found = mapped(written(tmp_path / "t.csv", "subject_id,stay_id,charttime,itemid,valuenum,valueuom", rows))
    assert [(rule.name, rule.factor) for rule in found.rules] == [("Temp", 1.0)]


def test_substance_codes_of_loinc_are_converted_however_few_there_are(tmp_path):
    """Their median is plausible in mg/dL too."""
    rows = [
        (r, at(h, r), code, value)
        for r in range(2)
        for h in range(5)
        for code, value in (("15074-8", 7.5), ("14682-9", 30))
    ]
    _, found = mapped(written(tmp_path / "t.csv", "patient_id,time,code,value", rows))
    assert {r.name: r.factor for r in found.rules} == pytest.approx({"Glucose": 18.016, "Creatinine": 1 / 88.42})
