"""Every row of a mapped table is a reading, a fact, or counted as what it is."""

from __future__ import annotations

import numpy as np
import pytest

from levyscreen.records.cache import read_cohort
from tests.records.mapped.small_table import column, read, written
from tests.records.record_files import counts


def test_unmapped_codes_are_counted_by_record_and_a_note_gives_their_known_names_or_else_their_places(
    tmp_path,
):
    found = read(tmp_path, [(1, 0, "HR", 80), (1, 1, "GCS", 15), (1, 2, "GCS", 14), (2, 0, "Hb", 9), (2, 1, "note", 1)])
    assert column(found, "n_unknown_parameter") == [2, 1]
    assert found.notes == (
        "3 values under 2 codes that the mapping does not name, and so not read: GCS (2); the one in t.csv, row "
        "5 (1); map them, or list them under [ignore]",
        "1 value under codes that the mapping ignores",
    )
    assert found.rejects.to_pylist() == [
        {"file": "t.csv", "line": 3, "line_class": "unknown_parameter"},
        {"file": "t.csv", "line": 4, "line_class": "unknown_parameter"},
        {"file": "t.csv", "line": 5, "line_class": "unknown_parameter"},
    ]


def test_rows_of_no_record_and_rows_that_are_no_rows_are_counted_in_notes_without_an_id(tmp_path):
    path = written(
        tmp_path, [("id", "t", "what", "x"), ("secret", 0, "HR", 80), ("", 1, "HR", 81), (1, 2), (1, 2, 3, 4, 5)]
    )
    found = read_cohort(path, cache=False)
    assert found.notes == (
        "1 value in rows that name no record, and so of nobody",
        "2 rows with another number of fields than the header, not read; the first: t.csv, row 4",
    )
    assert column(found, "file") == ["secret"]


def test_two_units_of_one_variable_meet_in_its_own(tmp_path):
    found = read(tmp_path, [(1, 0, "tc", 37.0), (1, 1, "tf", 98.6)])
    assert found.value.tolist() == pytest.approx([37.0, 37.0], rel=1e-12)


def test_a_row_before_hour_0_or_after_the_horizon_is_outside_the_stay(tmp_path):
    found = read(tmp_path, [(1, -0.01, "HR", 80), (1, 48, "HR", 80), (1, 48.01, "HR", 80)])
    assert counts(found) == {"reading": 1, "outside_stay": 2}


def test_texts_become_numbers_by_the_mapping_and_a_wide_table_has_no_line_where_it_has_nothing(tmp_path):
    head = """
source = "t.csv"
kind = "wide"
[columns]
record = "id"
time = "t"
[time]
unit = "minutes"
[variables.MechVent]
columns = "vent"
values = { yes = 1, no = 0 }
[descriptors]
gender = { columns = ["sex"], values = { F = 0, M = 1 } }
"""
    rows = [(1, 30, "yes", "M", ""), (1, 60, "", "M", "NA"), (2, 0, "no", "F", "70"), (2, 6, "maybe", "", "71")]
    found = read(tmp_path, rows, head, "id,t,vent,sex,HR")
    assert found.time_hours.tolist() == [0.5, 0.0, 0.0, np.float32(0.1)]
    assert [found.variables.names[v] for v in found.variable] == ["MechVent", "MechVent", "HR", "HR"]
    assert column(found, "gender") == [1.0, 0.0]
    assert column(found, "n_not_a_number") == [0, 1]
    assert column(found, "n_lines") == [3, 5]


def test_a_column_may_say_whose_value_the_others_hold(tmp_path):
    head = """
source = "t.csv"
kind = "wide"
negatives = true
horizon_seconds = 5
header = ["id", "tag", "ticks", "x", "y"]
[columns]
record = "id"
time = "ticks"
variable = "tag"
[time]
unit = 1e-7
origin = "first"
[variables.left]
codes = ["L/x"]
[variables.right]
codes = ["R/x"]
[ignore]
codes = ["*/y"]
"""
    rows = [
        ("A", "L", 633790226051280329, -1.5, 9),
        ("A", "R", 633790226076280329, 2.5, 9),
        ("A", "U", 633790226076280329, 3, 9),
    ]
    path = written(tmp_path, rows, head)
    path.write_text(head)
    found = read_cohort(path, cache=False)
    assert (found.time_hours * 3600).tolist() == pytest.approx([0, 2.5], abs=1e-4)
    assert found.value.tolist() == [-1.5, 2.5]
    assert counts(found) == {"reading": 2, "unknown_parameter": 1}
