"""Somebody's own tables become the cohort that the mapping says, whatever the order and the layout of their rows."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records import cache
from levyscreen.records.cache import read_cohort, write_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped import buckets, register, tables
from levyscreen.records.mapped.mapping import read_mapping
from tests.conftest import SAMPLE
from tests.records.mapped_files import LONG_HEAD, slow_long, write_dyn, write_long, write_meds, write_psv
from tests.records.record_files import accounts, counts, same

VARIABLES = """
[variables.HR]
unit = "bpm"
low = 1
high = 295
[variables.Temp]
codes = ["tc"]
unit = "degC"
low = 25
high = 45
also = [{ codes = ["tf"], factor = 0.5555555555555556, offset = -17.77777777777778 }]
"""
LONG = (
    LONG_HEAD
    + """
[time]
unit = "hours"
[descriptors]
age = { codes = ["Age"] }
[ignore]
codes = ["note"]
"""
)


def written(folder: Path, rows: list[Any], head: str = LONG, name: str = "t.csv", delimiter: str = ",") -> Path:
    """A mapping and its CSV table, header first."""
    with (folder / name).open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    (folder / "m.toml").write_text(head + VARIABLES)
    return folder / "m.toml"


def read(folder: Path, rows: list[Any], head: str = LONG, header: str = "id,t,what,x") -> Cohort:
    return read_cohort(written(folder, [header.split(","), *rows], head), cache=False)


def column(cohort: Cohort, name: str) -> list[Any]:
    return cohort.records.column(name).to_pylist()


# The same records in every layout -----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_long, write_psv, write_dyn, write_meds])
def test_the_same_records_in_any_layout_are_the_same_readings_by_the_first_mapping(write, sample, tmp_path):
    if write is write_meds:
        pytest.importorskip("meds", reason="the extra meds is not installed")
    source = write(SAMPLE, tmp_path / {write_long: "t.csv", write_dyn: "t.parquet"}.get(write, "t"))
    (tmp_path / "m.toml").write_text(draft(guess(source), tmp_path))
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert by_name(found) == by_name(sample)
    for fact in ("record_id", "age", "gender", "height", "icu_type", "weight"):
        assert column(found, fact) == column(sample, fact), fact


def by_name(cohort: Cohort) -> list[tuple[Any, ...]]:
    """Every line, its variable by name: a mapping has an order of its own."""
    lines, names = cohort.load(), np.array(cohort.variables.names)
    record = np.repeat(cohort.records.column("record_id").to_numpy(), np.diff(cohort.offsets)).tolist()
    named = names[lines.variable].tolist()
    return sorted(
        zip(record, lines.time_hours.tolist(), named, lines.value.tolist(), lines.line_class.tolist(), strict=True)
    )


def test_the_order_of_rows_files_and_row_groups_changes_nothing_not_even_the_fingerprint(tmp_path):
    straight, reversed_ = (tmp_path / name for name in ("a", "b"))
    for folder, order in ((straight, 1), (reversed_, -1)):
        write_long(SAMPLE, folder / "t.csv", order)
        (folder / "m.toml").write_text(draft(guess(straight / "t.csv"), straight))
    one, other = (read_cohort(folder / "m.toml", cache=False) for folder in (straight, reversed_))
    assert one.fingerprint == other.fingerprint
    assert by_name(one) == by_name(other)


def test_a_table_too_large_for_memory_goes_through_buckets_and_is_the_same(tmp_path, monkeypatch):
    write_long(SAMPLE, tmp_path / "t.csv", -1)
    (tmp_path / "m.toml").write_text(draft(guess(tmp_path / "t.csv"), tmp_path))
    whole = read_cohort(tmp_path / "m.toml", cache=False)
    monkeypatch.setattr(buckets, "MEMORY_ROWS", 1000)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 14)
    spilled = read_cohort(tmp_path / "m.toml", cache=False)
    assert same(whole, spilled)
    assert whole.fingerprint == spilled.fingerprint


def test_a_large_table_of_fewer_records_than_buckets_is_read_too(tmp_path, monkeypatch):
    rows = [(record, str(hour), "HR", str(60 + hour)) for record in "12" for hour in range(40)]
    path = written(tmp_path, [("id", "t", "what", "x"), *rows])
    whole = read_cohort(path, cache=False)
    monkeypatch.setattr(buckets, "MEMORY_ROWS", 1)
    assert same(whole, read_cohort(path, cache=False))


def test_a_reading_a_row_at_a_time_finds_what_the_reader_finds(tmp_path):
    rng = np.random.default_rng(3)
    times = ["0", "1.5", "47.999", "48", "48.01", "-1", "", "soon", " 7 ", "1e1", "nan"]
    codes = ["HR", "tc", "tf", "Age", "note", "", "strange", " HR "]
    values = ["80", "-1", "0", "36.6", "98.2", "", "x", "NaN", "inf", "1e3", " 70 ", "007"]
    subjects = ["7", "x y", "", "12", "-3"]
    rows = [tuple(str(rng.choice(words)) for words in (subjects, times, codes, values)) for _ in range(4000)]
    path = written(tmp_path, [("id", "t", "what", "x"), *rows])
    found = {name: (sorted(kept), c) for name, (kept, c) in accounts(read_cohort(path, cache=False)).items()}
    assert found == slow_long(rows, read_mapping(path))


# What becomes of rows -----------------------------------------------------------------------------------------------


def test_codes_that_are_not_mapped_are_counted_by_record_and_named_in_a_note(tmp_path):
    found = read(tmp_path, [(1, 0, "HR", 80), (1, 1, "GCS", 15), (1, 2, "GCS", 14), (2, 0, "Hb", 9), (2, 1, "note", 1)])
    assert column(found, "n_unknown_parameter") == [2, 1]
    assert found.notes == (
        "3 values under 2 codes that the mapping does not name, and so not read: GCS (2), Hb (1); map them, or list "
        "them under [ignore]",
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


# Hour 0 -------------------------------------------------------------------------------------------------------------

STAMPED = LONG.replace('unit = "hours"', 'unit = "timestamp"')
DAY = "2031-05-17"


def test_hour_0_is_the_first_mapped_reading_of_each_record_where_no_column_says_it(tmp_path):
    rows = [(1, f"{DAY} 10:00:00", "GCS", 3), (1, f"{DAY} 12:30:00", "HR", 80), (1, f"{DAY}T11:00", "HR", 70)]
    found = read(tmp_path, rows, STAMPED)
    assert found.time_hours.tolist() == [0.0, 1.5]
    assert [str(t) for t in column(found, "origin")] == [f"{DAY} 11:00:00"]


def test_hour_0_may_stand_in_a_column_and_rows_that_differ_about_it_make_a_record_unreadable(tmp_path):
    head = STAMPED.replace('"timestamp"', '"timestamp"\norigin = "column"\ncolumn = "in"')
    rows = [
        (1, f"{DAY} 12:00:00", "HR", 80, f"{DAY} 10:00:00"),
        (1, f"{DAY} 13:00:00", "HR", 80, ""),
        (2, f"{DAY} 12:00:00", "HR", 80, f"{DAY} 10:00:00"),
        (2, f"{DAY} 12:00:00", "HR", 80, f"{DAY} 10:00:01"),
        (3, f"{DAY} 12:00:00", "HR", 80, ""),
    ]
    found = read(tmp_path, rows, head, "id,t,what,x,in")
    assert found.time_hours.tolist() == [2.0, 3.0]
    assert column(found, "problem") == [
        None,
        "its rows say different times for hour 0",
        "no row says when it began (origin under [time])",
    ]
    assert found.notes == (
        "1 record not readable: its rows say different times for hour 0",
        "1 record not readable: no row says when it began (origin under [time])",
    )


def test_a_timestamp_of_another_form_is_read_by_its_format_and_a_zone_is_heeded(tmp_path):
    head = STAMPED.replace('"timestamp"', '"timestamp"\nformat = "%d.%m.%Y %H:%M"')
    assert (
        read(tmp_path, [(1, "17.05.2031 10:00", "HR", 80), (1, "17.05.2031 11:00", "HR", 81)], head).time_hours[1] == 1
    )
    rows = [(1, f"{DAY}T10:00:00+02:00", "HR", 80), (1, f"{DAY}T10:00:00+00:00", "HR", 81), (1, "5 pm", "HR", 82)]
    found = read(tmp_path, rows, STAMPED)
    assert found.time_hours.tolist() == [0.0, 2.0]
    assert counts(found) == {"reading": 2, "bad_time": 1}


def test_numbers_where_timestamps_are_said_and_timestamps_where_numbers_are_said_are_errors(tmp_path):
    path = written(tmp_path, [], LONG.replace("t.csv", "t.parquet"))
    table = pa.table({"id": [1], "t": pa.array([0], pa.timestamp("us")), "what": ["HR"], "x": [80.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(CohortError, match=r"t\.parquet: column t holds timestamps: set unit = \"timestamp\" under"):
        read_cohort(path, cache=False)
    path.write_text(path.read_text().replace('unit = "hours"', 'unit = "timestamp"'))
    pq.write_table(table.set_column(1, "t", pa.array([1.5])), tmp_path / "t.parquet")
    with pytest.raises(CohortError, match=r"t\.parquet: column t holds double, not timestamp: name their unit"):
        read_cohort(path, cache=False)


def test_a_float32_is_the_shortest_decimal_that_it_can_be(tmp_path):
    path = written(tmp_path, [], LONG.replace("t.csv", "t.parquet"))
    values = pa.array([36.6, 98.25, None, float("nan")], pa.float32())
    table = pa.table({"id": [1] * 4, "t": [0.0, 1.0, 2.0, 3.0], "what": ["tc", "HR", "HR", "HR"], "x": values})
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_cohort(path, cache=False)
    assert found.value.tolist() == [36.6, 98.25]
    assert counts(found) == {"reading": 2, "not_a_number": 1, "not_finite": 1}


# Records ------------------------------------------------------------------------------------------------------------


def test_a_whole_number_is_a_records_id_and_any_other_id_gets_a_stable_number_and_stays_readable(tmp_path):
    found = read(tmp_path, [(7, 0, "HR", 80), ("ward A/3", 0, "HR", 80)])
    again = read(tmp_path, [("ward A/3", 0, "HR", 99)])
    named = dict(zip(column(found, "file"), column(found, "record_id"), strict=True))
    assert named["7"] == 7
    assert named["ward A/3"] == column(again, "record_id")[0] < 10**15


def test_two_ids_of_one_number_are_an_error_that_names_no_id(tmp_path, monkeypatch):
    message = r"two ids of 'id' stand for one number \(7 and 007, or by rare chance two texts\)"
    with pytest.raises(CohortError, match=message) as raised:
        read(tmp_path, [("0041", 0, "HR", 80), ("41", 0, "HR", 80)])
    assert "41" not in str(raised.value).replace(str(tmp_path), "")  # whose name is a number that counts up
    monkeypatch.setattr(register, "HASH_DIGITS", 0)
    with pytest.raises(CohortError, match=message):
        read(tmp_path, [("a", 0, "HR", 80), ("b", 0, "HR", 80)])


def test_a_stay_of_two_subjects_cannot_be_read_and_a_subject_may_have_several_stays(tmp_path):
    head = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
    rows = [(1, 0, "HR", 80, "p"), (2, 0, "HR", 80, "p"), (3, 0, "HR", 80, "p"), (3, 1, "HR", 80, "q")]
    found = read(tmp_path, rows, head, "id,t,what,x,who")
    assert column(found, "problem") == [None, None, "its rows name different subjects"]
    assert column(found, "subject_id")[0] == column(found, "subject_id")[1]


def test_windows_cut_a_record_at_each_horizon_and_keep_its_parts_with_one_subject(tmp_path):
    rows = [(9, hours, "HR", 60 + hours) for hours in (0, 47.5, 48, 100, 480)] + [(9, "", "Age", 70), (8, 1, "HR", 50)]
    found = read(tmp_path, rows, "windows = true\n" + LONG)
    parts = dict(
        zip(column(found, "file"), zip(column(found, "subject_id"), column(found, "age"), strict=True), strict=True)
    )
    assert parts == {"8#0": (8, None), "9#0": (9, 70.0), "9#1": (9, None), "9#2": (9, None), "9#10": (9, None)}
    assert sorted(zip(found.value.tolist(), found.time_hours.tolist(), strict=True)) == [
        (50, 1),
        (60, 0),
        (107.5, 47.5),
        (108, 0),
        (160, 4),
        (540, 0),
    ]


def test_a_record_with_nothing_mapped_is_there_and_empty(tmp_path):
    found = read(tmp_path, [(1, 0, "HR", 80), (2, 0, "GCS", 3)])
    assert column(found, "n_lines") == [1, 1]
    assert np.diff(found.offsets).tolist() == [1, 0]


# Files --------------------------------------------------------------------------------------------------------------


def test_packed_tables_other_delimiters_and_folders_of_several_are_read_alike(tmp_path, monkeypatch):
    rows = [("id", "t", "what", "x"), (1, 0, "HR", 80), (1, 1, "tc", 37)]
    one = read_cohort(written(tmp_path, rows), cache=False)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    packed = read_cohort(written(tmp_path, rows, LONG.replace("t.csv", "t.csv.gz")), cache=False)
    (tmp_path / "parts").mkdir()
    for i, row in enumerate(rows[1:]):
        with (tmp_path / "parts" / f"{i}.tsv").open("w") as stream:
            csv.writer(stream, delimiter="\t").writerows([rows[0], row])
    parts = read_cohort(written(tmp_path, rows, LONG.replace("t.csv", "parts")), cache=False)
    semicolons = written(tmp_path, rows, LONG.replace('kind = "long"', 'kind = "long"\ndelimiter = ";"'), delimiter=";")
    for other in (packed, parts, read_cohort(semicolons, cache=False)):
        assert by_name(other) == by_name(one)
        assert other.fingerprint == one.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("t.csv", "u.csv"), r"u\.csv: no such file or folder; set source in the mapping"),
        (('"what"', '"waht"'), r"t\.csv: has no column 'waht'; did you mean 'what'\?"),
        (("t.csv", "empty"), r"empty: no table there; a source is"),
        (("t.csv", "mixed"), r"mixed: holds \.csv and \.parquet files: put the tables of one kind"),
        (("t.csv", "bad.parquet"), r"bad\.parquet: cannot be read as a \.parquet table"),
    ],
)
def test_a_source_that_is_not_as_the_mapping_says_is_an_error_that_names_it(change, message, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    for name in ("mixed/a.csv", "mixed/b.parquet", "bad.parquet"):
        (tmp_path / name).write_text("no")
    path = written(tmp_path, [("id", "t", "what", "x"), (1, 0, "HR", 80)], LONG.replace(*change))
    with pytest.raises(CohortError, match=message):
        read_cohort(path, cache=False)


def test_a_table_without_a_mapping_says_how_to_get_one(tmp_path):
    written(tmp_path, [("id", "t", "what", "x")])
    with pytest.raises(
        CohortError, match=r"t\.csv: a table needs a mapping; levyscreen map .*t\.csv writes a first one"
    ):
        read_cohort(tmp_path / "t.csv")


def test_a_second_reading_comes_from_the_cache_until_the_table_or_the_mapping_changes(tmp_path, monkeypatch):
    reads = []
    read_mapped = cache.read_mapped
    monkeypatch.setattr(cache, "read_mapped", lambda mapping: reads.append(1) or read_mapped(mapping))
    rows = [("id", "t", "what", "x"), (1, 0, "HR", 80), (1, 1, "GCS", 3)]
    path = written(tmp_path, rows)
    one, again = read_cohort(path), read_cohort(path)
    assert len(reads) == 1
    assert same(one, again)
    assert again.notes == one.notes
    path.write_text(path.read_text().replace("high = 295", "high = 79"))
    assert counts(read_cohort(path))["implausible"] == 1
    written(tmp_path, [*rows, (2, 0, "HR", 70)])
    assert len(read_cohort(path)) == 2
    assert len(reads) == 3


def test_a_mapped_cohort_kept_as_parquet_opens_as_it_was(tmp_path):
    rows = [(1, f"{DAY} 12:00:00", "HR", 80), ("x", f"{DAY} 12:00:00", "tc", 37), ("x", f"{DAY} 12:00:00", "GCS", 3)]
    found = read(tmp_path, rows, STAMPED)
    write_cohort(found, tmp_path / "kept")
    again = read_cohort(tmp_path / "kept")
    assert same(found, again)
    assert (again.variables, again.notes, again.fingerprint) == (found.variables, found.notes, found.fingerprint)
