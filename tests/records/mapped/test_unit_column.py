"""A column may say each value's unit: a rule takes those of its units, and what no rule takes is counted and named."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.mapped.codes import Codes
from levyscreen.records.mapped.mapping import Mapping, parse_mapping
from tests.records.mapped_files import LONG_HEAD

TOLD = (
    LONG_HEAD
    + """
unit = "uom"
[time]
unit = "hours"
[variables.Glucose]
codes = ["glu"]
units = ["mg/dL"]
unit = "mg/dL"
also = [{ codes = ["glu"], units = ["mmol/L"], factor = 18.0 }]
[variables.K]
codes = ["K*"]
units = ["mEq/L"]
[variables.pH]
[descriptors]
weight = { units = ["kg"], also = [{ codes = ["weight"], units = ["lbs"], factor = 0.5 }] }
"""
)
ROWS = [
    *[(1, 0, "glu", 90, "MG / dl"), (1, 1, "glu", 5, "mmol/l"), (1, 2, "glu", 1.2, "g/L"), (1, 3, "glu", 7, "")],
    *[(1, 4, "K+", 4, "mmol/L"), (1, 5, "K+", 16, "mg/dL"), (1, 6, "pH", 7.4, ""), (1, 7, "pH", 7.5, "units")],
    *[(1, "", "weight", 200, "LBS"), (1, 8, "new", 3, "g/L"), (1, 9, "new", 3, "mg/L"), (1, 9, "", 3, "mg/L")],
]


def parsed(text: str = TOLD) -> Mapping:
    return parse_mapping(Path("m.toml"), text, tomllib.loads(text))


def written(folder: Path, rows: list, text: str = TOLD) -> Path:
    with (folder / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("id", "t", "what", "x", "uom"), *rows])
    (folder / "m.toml").write_text(text)
    return folder / "m.toml"


def test_a_value_is_read_by_the_factor_of_its_own_unit_and_one_of_no_rules_unit_not_at_all(tmp_path):
    found = read_cohort(written(tmp_path, ROWS), cache=False)
    lines = found.load()
    assert lines.value.tolist() == pytest.approx([90, 90, 4, 7.4, 7.5])
    assert found.records.column("weight").to_pylist() == [100.0]
    assert found.records.column("n_unknown_parameter").to_pylist() == [5]
    assert found.records.column("n_blank_parameter").to_pylist() == [1]


def test_what_no_rule_takes_is_named_with_its_unit_and_what_no_rule_names_by_its_place(tmp_path):
    (note,) = read_cohort(written(tmp_path, ROWS), cache=False).notes
    assert note == (
        "5 values under 4 codes that the mapping does not name, and so not read: the one in t.csv, row 11 (2); "
        "glu [g/L] (1); glu [no unit] (1); the one in t.csv, row 7 (1); map them, or list them under [ignore]"
    )


def test_what_the_note_names_can_be_ignored_by_that_name(tmp_path):
    ignore = '[ignore]\ncodes = ["glu [g/L]", "glu [no unit]", "K+ [mg/dL]", "new"]\n'
    notes = read_cohort(written(tmp_path, ROWS, TOLD + ignore), cache=False).notes
    assert notes == ("5 values under codes that the mapping ignores",)


def test_a_rule_without_units_takes_what_no_other_takes(tmp_path):
    text = TOLD.replace('codes = ["glu"], units = ["mmol/L"]', 'codes = ["glu"]')
    assert read_cohort(written(tmp_path, ROWS[:4], text), cache=False).load().value.tolist() == [90, 90, 1.2 * 18, 126]


def test_the_order_and_the_blocks_of_rows_change_nothing(tmp_path):
    a = read_cohort(written(tmp_path, ROWS), cache=False)
    b = read_cohort(written(tmp_path, ROWS[::-1]), cache=False)
    assert a.fingerprint == b.fingerprint


def test_every_pair_of_code_and_unit_finds_the_rule_that_a_look_at_all_rules_finds():
    mapping = parsed()
    codes, rng = Codes(mapping), np.random.default_rng(0)
    for _ in range(200):
        code = str(rng.choice(["glu", "K1", "pH", "weight", "x"]))
        unit = str(rng.choice(["mg/dl", "MMOL/L", "meq/L", "", "lb", "kg"]))
        named = [i for i, r in enumerate(mapping.rules) if code in r.codes or (code[:1] == "K" and "K*" in r.codes)]
        taking = [i for i in named if mapping.rules[i].units and mapping.rules[i].takes(unit)]
        other = [i for i in named if mapping.rules[i].units is None]
        assert codes.rule(code, unit) == [*taking, *other, Codes.UNKNOWN][0], (code, unit)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'unit = "uom"\n',
            "",
            r"\[variables\.Glucose\] units: is for a table that says units: name that column as unit",
        ),
        ('units = ["mg/dL"]', "units = []", r"\[variables\.Glucose\] units: is empty, and so takes no value"),
        ('["mmol/L"]', '["MG/DL"]', r"gives Glucose the code 'glu' in mg/dL twice: keep one"),
        ('codes = ["K*"]\nunits = ["mEq/L"]', 'codes = ["glu"]\nunits = ["%"]', None),
        (
            'codes = ["K*"]\nunits = ["mEq/L"]',
            'codes = ["glu"]\nunits = ["mg/dl"]',
            r"'glu' in mg/dL to Glucose and to K",
        ),
    ],
)
def test_a_code_is_given_once_for_each_unit_and_units_need_a_column(old, new, message):
    assert old in TOLD
    if message is None:
        assert len(parsed(TOLD.replace(old, new)).rules) == 6
        return
    with pytest.raises(CohortError, match=message):
        parsed(TOLD.replace(old, new))


def test_a_wide_table_has_no_unit_column():
    text = TOLD.replace('"long"', '"wide"').replace('variable = "what"\nvalue = "x"\n', "")
    with pytest.raises(CohortError, match=r"\[columns\] unit: is no key of a wide table"):
        parsed(text)


def test_a_unit_column_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CohortError, match=r"t\.csv: has no column 'uon'; the nearest name is that of its column 5"):
        read_cohort(written(tmp_path, ROWS, TOLD.replace('"uom"', '"uon"')), cache=False)
