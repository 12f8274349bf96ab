"""Which rows make a record, when its hour 0 is, and what it is called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort, write_cohort
from levyscreen.records.mapped import buckets, register
from levyscreen.types import LineClass
from tests.records.mapped.small_table import LONG, column, read, written
from tests.records.record_files import counts, same

# Hour 0 -------------------------------------------------------------------------------------------------------------

STAMPED = LONG.replace('unit = "hours"', 'unit = "timestamp"')
DAY = "2031-05-17"


def test_hour_0_is_the_first_mapped_reading_of_each_record_where_no_column_says_it(tmp_path):
    rows = [(1, f"{DAY} 10:00:00", "GCS", 3), (1, f"{DAY} 12:30:00", "HR", 80), (1, f"{DAY}T11:00", "HR", 70)]
    found = read(tmp_path, rows, STAMPED)
    assert found.time_hours.tolist() == [0.0, 1.5]
    assert [str(t) for t in column(found, "origin")] == [f"{DAY} 11:00:00"]


def test_what_is_no_reading_begins_no_stay_while_there_is_a_reading(tmp_path):
    """-1 and 999 stand for what was never measured, as a blank does; alone, they are of the stay all the same."""
    before = "2031-05-10 10:00:00"
    rows = [(1, before, "HR", -1), (1, before, "HR", 999), (1, f"{DAY} 11:00:00", "HR", 80), (2, before, "HR", -1)]
    found = read(tmp_path, rows, STAMPED)
    assert found.time_hours.tolist() == [0.0, 0.0]
    assert [str(t) for t in column(found, "origin")] == [f"{DAY} 11:00:00", before]
    classes = (LineClass.READING, LineClass.OUTSIDE_STAY, LineClass.NEGATIVE)
    assert [found.count(line_class) for line_class in classes] == [1, 2, 1]


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
    with pytest.raises(CohortError, match=r"t\.parquet: column t holds double, not timestamp: name the unit"):
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


def test_whose_the_stays_are_is_part_of_the_fingerprint_since_records_are_split_by_it(tmp_path):
    head, rows = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"'), [(1, 0, "HR", 80), (2, 0, "HR", 80)]
    found = [read(tmp_path, rows, LONG)]
    for others in ("pp", "pq"):
        told = [(*row, who) for row, who in zip(rows, others, strict=True)]
        found.append(read(tmp_path, told, head, "id,t,what,x,who"))
    assert len({cohort.fingerprint for cohort in found}) == 3


def test_a_subject_is_itself_as_far_as_64_bits_go(tmp_path):
    head = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
    subjects = [5_000_000_000_000_000_001, -7, 2**63 - 2, 2**63]
    rows = [(i, 0, "HR", 80, subject) for i, subject in enumerate(subjects)]
    found = column(read(tmp_path, rows, head, "id,t,what,x,who"), "subject_id")
    assert found[:3] == subjects[:3]
    assert 0 <= found[3] < 10**15


@pytest.mark.parametrize(("horizon", "per_hour"), [("horizon_seconds = 10", 3600), ("horizon_hours = 0.1", 10)])
def test_no_reading_is_lost_or_led_astray_at_the_edge_of_a_window(horizon, per_hour, tmp_path):
    """Multiples of a tenth and of a 3600th are no sums of powers of two: a quotient may be a rounding off."""
    count, width = 2000, 10 if per_hour == 3600 else 1
    head = LONG.replace('unit = "hours"', f'unit = "{"seconds" if per_hour == 3600 else "hours"}"')
    times = [i if per_hour == 3600 else f"{i / 10:.1f}" for i in range(count)]
    head = head.replace("horizon_hours = 48", horizon)
    found = read(tmp_path, [(1, t, "HR", 80) for t in times], "windows = true\n" + head)
    assert found.count(LineClass.READING) == count
    assert len(found) == count // width
    assert set(np.diff(found.offsets).tolist()) == {width}
    assert (found.time_hours.reshape(-1, width)[:, 0] == 0).all()


@pytest.mark.parametrize("minutes", [23, 31, 46, 62])
def test_a_reading_at_the_very_end_of_a_stay_is_of_it_in_any_unit(minutes, tmp_path):
    long = LONG.replace("horizon_hours = 48", f"horizon_minutes = {minutes}")
    head = long.replace('unit = "hours"', 'unit = "minutes"')
    assert counts(read(tmp_path, [(1, minutes, "HR", 80), (1, minutes + 1e-6, "HR", 80)], head)) == {
        "reading": 1,
        "outside_stay": 1,
    }
    head = long.replace("minutes =", "seconds =").replace('unit = "hours"', 'unit = "HH:MM"')
    at_the_end = f"0:{minutes // 60:02}:{minutes % 60:02}"
    assert counts(read(tmp_path, [(1, at_the_end, "HR", 80)], head)) == {"reading": 1}


def test_windows_of_a_record_that_names_no_subject_are_of_one_that_no_other_has(tmp_path, monkeypatch):
    head = "windows = true\n" + LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
    rows = [(i, hour, "HR", 80, who) for i, who in ((5, ""), (6, 77), (7, 5), (8, "")) for hour in range(0, 200, 20)]
    found = read(tmp_path, rows, head, "id,t,what,x,who")
    assert len(found) == 4 * 4
    of = {}
    for name, subject in zip(column(found, "file"), column(found, "subject_id"), strict=True):
        of.setdefault(name.split("#")[0], set()).add(subject)
    assert of["6"] == {77}
    assert of["7"] == {5}
    assert all(len(subjects) == 1 for subjects in of.values())
    assert len(set.union(*of.values())) == 4
    monkeypatch.setattr(buckets, "MEMORY_ROWS", 4)  # however many go through memory at once
    assert read(tmp_path, rows, head, "id,t,what,x,who").fingerprint == found.fingerprint


def test_two_subjects_of_one_number_are_an_error(tmp_path):
    head = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
    with pytest.raises(CohortError, match=r"t\.csv: two subjects stand for one .*texts\); rename one"):
        read(tmp_path, [(1, 0, "HR", 80, "7"), (2, 0, "HR", 80, "007")], head, "id,t,what,x,who")


def test_windows_cut_a_record_at_each_horizon_and_keep_its_parts_with_one_subject(tmp_path):
    rows = [(9, hours, "HR", 60 + hours) for hours in (0, 47.5, 48, 100, 480)] + [(9, "", "Age", 70), (8, 1, "HR", 50)]
    found = read(tmp_path, rows, "windows = true\n" + LONG)
    parts = dict(
        zip(column(found, "file"), zip(column(found, "subject_id"), column(found, "age"), strict=True), strict=True)
    )
    assert parts == {"8#0": (8, None), "9#0": (9, 70), "9#1": (9, 70), "9#2": (9, 70), "9#10": (9, 70)}
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


def test_a_mapped_cohort_kept_as_parquet_opens_as_it_was(tmp_path):
    rows = [(1, f"{DAY} 12:00:00", "HR", 80), ("x", f"{DAY} 12:00:00", "tc", 37), ("x", f"{DAY} 12:00:00", "GCS", 3)]
    found = read(tmp_path, rows, STAMPED)
    write_cohort(found, tmp_path / "kept")
    again = read_cohort(tmp_path / "kept")
    assert same(found, again)
    assert (again.variables, again.notes, again.fingerprint) == (found.variables, found.notes, found.fingerprint)


def test_a_stay_that_begins_as_timestamps_do_keeps_its_hour_0(tmp_path):
    rows = [(1, "1970-01-01 00:00:00", "HR", 80), (1, "1970-01-01 02:00:00", "HR", 70), (2, f"{DAY} 10:00", "GCS", 3)]
    found = read(tmp_path, rows, STAMPED)
    assert [str(t) for t in column(found, "origin")] == ["1970-01-01 00:00:00", "None"]
    assert found.time_hours.tolist() == [0.0, 2.0]


def test_a_parquet_copy_of_a_mapping_named_as_our_table_keeps_its_own_units(tmp_path):
    path = written(tmp_path, [("id", "t", "what", "x"), (1, 0, "HR", 80)])
    cohort = read_cohort(path, cache=False)
    named = replace(cohort, variables=replace(cohort.variables, name="physionet2012"))
    write_cohort(named, tmp_path / "copy")
    assert read_cohort(tmp_path / "copy").variables == named.variables
