"""Units that a column or a code says are believed; what is in another is given its factor, kept apart, or marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.aliases import is_urea, known_as, unit_in
from levyscreen.records.mapped.codes import Codes
from levyscreen.records.units import canonical, is_unit, likely, same_unit
from tests.records.drafted.test_sources import mapped, written

RNG = np.random.default_rng(0)


def table(folder: Path, *kinds: tuple[str, str, float], count: int = 30) -> Path:
    """A long table of: code, unit, median."""
    rows = [
        (i % 5, i, code, round(median * RNG.uniform(0.95, 1.05), 3), unit)
        for code, unit, median in kinds
        for i in range(count)
    ]
    return written(folder / "t.csv", "id,hours,code,value,valueuom", rows)


def rule(found, code, unit=""):
    i = Codes(found).rule(code, unit)
    return None if i < 0 else (found.rules[i].name, pytest.approx(found.rules[i].factor, rel=1e-3))


def test_two_units_under_one_code_are_read_each_by_its_own_factor(tmp_path):
    """A third of the patients in units of the SI: every value as it was before it was written in its unit."""
    si = {"glucose": ("mg/dL", "mmol/L", 130, 18.016), "bun": ("mg/dL", "mmol/L", 24, 2.801)}
    si |= {"magnesium": ("mg/dL", "mmol/L", 2, 2.43), "hemoglobin": ("g/dL", "g/L", 10, 0.1)}
    rows, true = [], []
    for record in range(12):
        for code, (own, other, middle, factor) in si.items():
            for hour in range(8):
                value = round(middle * RNG.uniform(0.8, 1.2), 2)
                true.append(value)
                rows.append((record, hour, code, *((value / factor, other) if record % 3 == 0 else (value, own))))
    text, _ = mapped(written(tmp_path / "mix.csv", "stay_id,time,parameter,value,unit", rows))
    assert text.count("CHECK") == 2  # the head's, and the unit of time
    lines = read_cohort(tmp_path / "m.toml", cache=False).load()
    assert sorted(lines.value.tolist()) == pytest.approx(sorted(true), rel=1e-6)


@pytest.mark.parametrize(
    ("code", "unit", "median", "name", "factor"),
    [
        ("hemoglobin", "mmol/L", 6.3, "Hgb", 1.6114),
        ("urea", "mg/dL", 48, "BUN", 1 / 2.14),
        ("urea", "mmol/L", 8, "BUN", 2.801),
        ("BUN", "mg/dL", 48, "BUN", 1),
        ("CRP", "mg/dL", 9, "CRP", 10),
        ("Mg", "mEq/L", 1.64, "Mg", 1.215),
        ("Mg", "mmol/L", 0.82, "Mg", 2.43),
        ("Mg", "mg/dL", 2, "Mg", 1),
        ("fibrinogen", "g/L", 3.2, "Fibrinogen", 100),
        ("calcium", "mEq/L", 4.2, "Calcium", 2.004),
        ("K", "mmol/L", 4, "K", 1),
        ("WBC", "G/L", 11, "WBC", 1),
        ("WBC", "/uL", 11000, "WBC", 0.001),
        ("troponin_t", "pg/mL", 45, "TroponinT", 0.001),
        ("ALT", "µkat/l", 0.6, "ALT", 60),
    ],
)
@pytest.mark.parametrize("by", ["column", "code", "brackets"])
def test_a_unit_that_is_said_is_believed_and_known_ones_are_no_guess(by, code, unit, median, name, factor, tmp_path):
    said = {"column": code, "code": f"LAB//{code}//{unit}", "brackets": f"{code} ({unit})"}[by]
    text, found = mapped(table(tmp_path, (said, unit if by == "column" else "", median)))
    assert rule(found, said, unit if by == "column" else "") == (name, factor)
    assert "CHECK" not in text.split("[variables.")[1]


@pytest.mark.parametrize(
    ("code", "median", "name", "factor"),
    [
        ("hemoglobin", 6.3, "Hgb", 1.6114),
        ("urea", 48, "BUN", 1 / 2.14),
        ("urea", 8, "BUN", 2.801),
        ("Mg", 0.5, "Mg", 2.43),
        ("Mg", 1.1, "Mg", 2.43),
        ("fibrinogen", 3.2, "Fibrinogen", 100),
        ("calcium", 4.2, "Calcium", 2.004),
    ],
)
def test_where_no_unit_is_said_the_median_says_it_and_that_is_marked(code, median, name, factor, tmp_path):
    text, found = mapped(table(tmp_path, (code, "", median)))
    assert rule(found, code) == (name, factor)
    assert "# CHECK: values look like" in text


def test_a_usual_median_in_an_unusual_unit_is_marked_whatever_is_said(tmp_path):
    text, _ = mapped(table(tmp_path, ("creatinine", "mg/dL", 90), ("glucose", "mmol/L", 130)))
    assert text.count("# CHECK the unit: this median is unusual") == 2


def test_a_unit_from_which_no_way_is_known_is_kept_apart_and_marked(tmp_path):
    text, found = mapped(table(tmp_path, ("glucose", "mg/dL", 130), ("glucose", "ng/hair", 130), ("glu", "mmol/L", 7)))
    assert found.variables.names == ("Glucose", "Glucose [ng/hair]")
    assert rule(found, "glucose", "ng/hair") == ("Glucose [ng/hair]", 1)
    assert rule(found, "glucose", "MG/DL") == ("Glucose", 1)
    assert rule(found, "glu", "mmol/l") == ("Glucose", 18.016)
    assert 'unit = "ng/hair"  # CHECK: no factor from this unit is known' in text
    codes = ("LAB//HEMOGLOBIN//mmol/L", "718-7//g/dL", "HGB//x/mL")
    _, found = mapped(table(tmp_path, *((code, "", median) for code, median in zip(codes, (6.3, 10, 10), strict=True))))
    assert [rule(found, code) for code in codes] == [("Hgb", 1.6114), ("Hgb", 1), ("Hgb [x/mL]", 1)]


def test_a_variable_in_a_strange_unit_alone_keeps_its_name_and_that_unit(tmp_path):
    text, found = mapped(table(tmp_path, ("glucose", "ng/hair", 130)))
    assert [(v.name, v.unit) for v in found.variables.variables] == [("Glucose", "ng/hair")]
    assert 'unit = "ng/hair"  # CHECK' in text


def test_a_few_values_in_a_strange_unit_stay_unmapped_and_are_named_and_counted(tmp_path):
    rows = [(1, i, "glucose", 130, "mg/dL") for i in range(30)] + [(1, 40 + i, "glucose", 130, "lb") for i in range(3)]
    text, _ = mapped(written(tmp_path / "t.csv", "id,hours,code,value,unit", rows))
    assert '#   "glucose [lb]"  3 values, 3 of them numbers' in text
    cohort = read_cohort(tmp_path / "m.toml", cache=False)
    assert cohort.records.column("n_unknown_parameter").to_pylist() == [3]
    assert "glucose [lb] (3)" in cohort.notes[0]


def test_values_without_a_unit_under_a_code_that_has_one_are_marked(tmp_path):
    text, found = mapped(table(tmp_path, ("glucose", "mg/dL", 130), ("glucose", "", 7), ("pH", "", 7.4)))
    assert rule(found, "glucose", "") == ("Glucose", 18.016)
    assert 'units = [""]  # CHECK: under these codes other values say a unit' in text
    assert "units" not in text.split("[variables.pH]")[1]


def test_a_variable_that_is_not_known_is_in_the_unit_that_most_of_its_values_say(tmp_path):
    text, found = mapped(table(tmp_path, ("D-dimer", "ng/mL", 500), ("D-dimer", "ug/L", 500), ("D-dimer", "mg/L", 0.5)))
    assert [(v.name, v.unit) for v in found.variables.variables] == [("D-dimer", "ng/mL"), ("D-dimer [mg/L]", "mg/L")]
    assert 'unit = "ng/mL"\n' in text


def test_a_descriptor_in_two_units_has_both_factors(tmp_path):
    rows = [(i, 0, "weight", 80 if i % 2 else 176, "kg" if i % 2 else "lbs") for i in range(40)]
    rows += [(i, 1, "HR", 80, "bpm") for i in range(40)]
    mapped(written(tmp_path / "t.csv", "id,hours,code,value,unit", rows))
    weight = read_cohort(tmp_path / "m.toml", cache=False).records.column("weight").to_pylist()
    assert weight == pytest.approx([80 if i % 2 else 79.83 for i in range(40)], abs=0.01)


def test_a_column_of_units_is_one_by_what_it_says(tmp_path):
    rows = [(1, i, "HR", 80, ("MICU", "SICU")[i % 2]) for i in range(30)]
    assert mapped(written(tmp_path / "t.csv", "id,hours,code,value,unit", rows))[1].columns.unit is None


def test_magnesium_says_in_what_it_is(tmp_path):
    text, _ = mapped(table(tmp_path, ("Mg", "mg/dL", 2)))
    assert (
        'unit = "mmol/L"  # the label of PhysioNet 2012 and of its models; their values, and so these, are in mg/dL'
        in text
    )


# What is known -------------------------------------------------------------------------------------------------------


def test_units_are_one_for_some_variables_alone():
    assert same_unit("mmol/L", "mEq/L", "K")
    assert not same_unit("mmol/L", "mEq/L", "Mg")
    assert not same_unit("mmol/L", "mEq/L")
    assert same_unit("G/l", "10^9/L", "WBC")
    assert not same_unit("G/l", "10^9/L", "Albumin")
    assert same_unit("µmol/L", "umol / l")
    assert same_unit("UNK", "")


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        (
            "degC",
            "&#176;C|&deg;C|&#xb0;C|ºC|˚C|℃|?C|\ufffdC|Â°C|\\xb0C|° C|Deg. C|degrees C|degrees Celsius|oC|Cel|Celcius",
        ),
        ("degF", "&#176;F|&deg;F|ºF|℉|?F|\ufffdF|Â°F|deg F|[degF]|degrees F|Fahrenheit"),
        ("cells/nL", "thou/mcL|x10^3/mm3|K/uL|10*3/uL|x10(3)/uL|10³/µL|10**9/L|X10E9/L|10⁹/L|10 9/L|x10³/mm³|K/cu mm"),
        ("cells/nL", "{cells}x10^3/uL|10*3.cells/uL|Thousands/uL|1000/mm3|THOU/CUMM|10^6/mL|E9/L|Tsd./µl|×10³/μL"),
        ("cells/uL", "cells/mm3|/uL|/mm³|{cells}/uL|cells/cumm"),
        ("/min", "beats per minute|breaths per min|min⁻¹|{breaths}/min|rpm|BPM|1/min"),
        ("umol/L", "µmol/L|μmol/L|&micro;mol/L|&#181;mol/L|?mol/L|\ufffdmol/L|Âµmol/L|mcmol/L"),
        ("mmol/L", "mmol / l|millimol/L|mmols/L|MMOL/L"),
        ("mg/dL", "mg per dL|MG/DL|mg%|mg/100 mL"),
        ("%", "% O2|%{HbO2}|vol%|Percent"),
        ("mmHg", "mm Hg|mm[Hg]|mm(Hg)|mmhg."),
    ],
)
def test_a_unit_is_one_however_exports_write_it(unit, written):
    assert {each: canonical(each) for each in written.split("|")} == dict.fromkeys(written.split("|"), canonical(unit))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *[("10^3/uL", "10^6/uL"), ("10^9/L", "10^12/L"), ("10^3/uL", "/uL"), ("10^3/mL", "10^6/mL"), ("M/uL", "K/uL")],
        *[("?mol/L", "mmol/L"), ("mol/L", "umol/L"), ("K", "K/uL"), ("mm", "mmHg"), ("min", "/min"), ("{score}", "")],
    ],
)
def test_units_that_look_alike_are_two(a, b):
    assert not same_unit(a, b)


def test_a_ratio_is_a_fraction_where_there_are_percents():
    assert same_unit("ratio", "0-1", "FiO2")
    assert same_unit("ratio", "", "INR")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("mg/dL", True), ("mmHg", True), ("°F", True), ("x/mL", True), ("MICU", False), ("", False), ("EW EMER.", False)],
)
def test_a_text_is_a_unit_or_not(word, expected):
    assert is_unit(word) is expected


def test_codes_say_units_in_their_parts_and_in_brackets():
    assert unit_in("LAB//50931//mmol/L") == "mmol/L"
    assert unit_in("Glucose (mmol/L)") == "mmol/L"
    assert unit_in("Glucose (serum)") is None
    assert unit_in("LAB//220739//UNK") is None
    assert (known_as("Glucose (serum)"), known_as("Potassium [mmol/L]"), known_as("PH (Venous)")) == (
        "Glucose",
        "K",
        None,
    )
    assert is_urea("Urea (mg/dL)")
    assert not is_urea("urea nitrogen")


def test_a_part_of_a_coma_score_is_none():
    for code in ("220739", "223900", "223901", "GCS - Eye Opening"):
        assert known_as(code) is None


def test_no_typical_median_of_magnesium_in_either_unit_is_taken_for_the_other():
    for median in (0.5, 0.82, 1.1):
        assert likely("Mg", median)[1].factor == 2.43
    for median in (1.7, 2, 2.4):
        assert likely("Mg", median) == (True, None)
