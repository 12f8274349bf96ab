"""A first mapping reads text as it is written: European CSV, times of many forms, folders of different tables."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.drafted.clocks import unread_form
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.drafted.sniff import sniff
from levyscreen.records.mapped.mapping import Mapping, parse_mapping
from levyscreen.records.mapped.tables import TableFile


def mapped(source: Path) -> tuple[str, Mapping]:
    text = draft(guess(source), source.parent)
    return text, parse_mapping(source.parent / "m.toml", text, tomllib.loads(text))


def first_reading(source: Path) -> Cohort:
    path = source.parent / "m.toml"
    path.write_text(draft(guess(source), source.parent))
    return read_cohort(path, cache=False)


def european(folder: Path, delimiter: str, encoding: str, name: str = "t.csv") -> Path:
    head = delimiter.join(["stay_id", "time", "parameter", "value", "wörter"])
    rows = [
        delimiter.join([f"{7 + i // 40}", f"{i % 40},5", "Temp" if i % 2 else "HR", "37,5" if i % 2 else "80", "müde"])
        for i in range(120)
    ]
    (folder / name).write_bytes("\n".join([head, *rows]).encode(encoding))
    return folder / name


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-8-sig"])
def test_a_european_table_is_read_by_its_first_mapping(delimiter, encoding, tmp_path):
    found = first_reading(european(tmp_path, delimiter, encoding))
    assert sorted(set(found.value.tolist())) == [37.5, 80]
    assert found.time_hours.tolist()[:3] == [0.5, 1.5, 2.5]
    assert len(found.value) == 120
    keys = tomllib.loads((tmp_path / "m.toml").read_text())
    assert (keys["delimiter"], keys["decimal"]) == (delimiter, ",")
    assert keys.get("encoding", "utf-8") == encoding.removesuffix("-sig")


def test_a_usual_table_gets_no_key_for_its_text(tmp_path):
    (tmp_path / "t.csv").write_text("stay_id,time,parameter,value\n" + "".join(f"1,{i},HR,80.5\n" for i in range(30)))
    text, found = mapped(tmp_path / "t.csv")
    assert not [key for key in ("delimiter", "decimal", "encoding", "quote") if key in text]
    assert found.decimal == "."


def test_thousands_are_no_decimals_and_a_mixture_is_marked(tmp_path):
    def sniffed(cells: list[str]):
        (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"x;{cell}\n" for cell in cells))
        found = sniff(TableFile(tmp_path / "t.csv", "t.csv", ".csv"))
        return found.decimal, found.doubts

    assert sniffed(["12,000", "200,000"]) == (".", ())
    assert sniffed(["12,000", "1,5"]) == (",", ())
    assert sniffed(["1,5", "2,5", "3.5"]) == (",", ("decimal",))


def test_rows_that_cannot_be_told_apart_are_told_of_where_no_mapping_can_be_guessed(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"1,{i},HR,80\n" for i in range(30)))
    with pytest.raises(CohortError, match=r"t\.csv: has no rows to guess a mapping from: 30 with another number of"):
        guess(tmp_path / "t.csv")


def test_a_stray_quote_is_marked_in_the_draft(tmp_path):
    rows = [f"1,{i},{note},HR,80" for i, note in enumerate([""] * 30 + ['"left', '5" cuff'] + [""] * 9)]
    (tmp_path / "t.csv").write_text("stay_id,time,note,parameter,value\n" + "\n".join(rows))
    text, _ = mapped(tmp_path / "t.csv")
    assert "# CHECK: 1 row has a quoted field that may hold rows of its own; quote = false if quotes are" in text


# Times ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "form"),
    [
        ("03/25/2024 10:{:02} AM", "%m/%d/%Y %I:%M %p"),
        ("03/25/2024 10:{:02}:00 PM", "%m/%d/%Y %I:%M:%S %p"),
        ("25.03.24 10:{:02}", "%d.%m.%y %H:%M"),
        ("25.03.2024, 10:{:02}", "%d.%m.%Y, %H:%M"),
        ("03/25/24 10:{:02}", "%m/%d/%y %H:%M"),
        ("25-MAR-2024 10:{:02}", "%d-%b-%Y %H:%M"),
        ("25-03-2024 10:{:02}", "%d-%m-%Y %H:%M"),
        ("20240325 10{:02}00", None),
    ],
)
def test_times_of_many_forms_are_known(time, form, tmp_path):
    rows = "".join(f'1,"{time.format(i)}",HR,80\n' for i in range(30))
    (tmp_path / "t.csv").write_text("stay_id,time,parameter,value\n" + rows)
    _, found = mapped(tmp_path / "t.csv")
    assert (found.time.unit, found.time.format) == ("timestamp", form)
    cohort = first_reading(tmp_path / "t.csv")
    assert len(cohort.value) == 30
    assert float(cohort.time_hours.max()) == pytest.approx(29 / 60, rel=1e-6)


def test_times_of_no_known_form_are_no_hours_and_the_draft_shows_their_form_and_no_time(tmp_path):
    rows = "".join(f"1,Mo 4. März 2024 um {i % 12:02}h,HR,80\n" for i in range(30))
    (tmp_path / "t.csv").write_text("stay_id,time,parameter,value\n" + rows)
    text, found = mapped(tmp_path / "t.csv")
    assert (found.time.unit, found.time.format) == ("timestamp", None)
    assert "# CHECK: most times are in no form that is known; set format, as of Python's strptime" in text
    assert '"aa 0. aaaa 0000 aa 00a", where 0 stands for a digit and a for a letter' in text
    assert "2024" not in text


def test_a_few_odd_times_do_not_hide_the_form_of_the_others(tmp_path):
    rows = "".join(f"1,{'unknown' if i == 3 else f'25.03.2024 10:{i:02}'},HR,80\n" for i in range(30))
    (tmp_path / "t.csv").write_text("stay_id,time,parameter,value\n" + rows)
    _, found = mapped(tmp_path / "t.csv")
    assert found.time.format == "%d.%m.%Y %H:%M"
    assert unread_form(pa.array(["a"]), "hours", None) is None


def test_seconds_since_1970_are_no_digits_of_a_date(tmp_path):
    rows = "".join(f"1,{1711111111 + 3607 * i},HR,80\n" for i in range(200))
    (tmp_path / "t.csv").write_text("stay_id,time,parameter,value\n" + rows)
    _, found = mapped(tmp_path / "t.csv")
    assert (found.time.unit, found.time.format) == ("seconds", None)


# Folders -------------------------------------------------------------------------------------------------------------


def test_of_a_folder_of_different_tables_the_first_is_the_source_and_the_others_are_named(tmp_path):
    folder = tmp_path / "eicu"
    folder.mkdir()
    rows = "".join(f"1,{i},HR,80\n" for i in range(30))
    (folder / "a.csv").write_text("stay_id,time,parameter,value\n" + rows)
    (folder / "b.csv").write_text("stay_id,time,HR\n1,0,80\n")
    text, found = mapped(folder)
    assert found.source == folder / "a.csv"
    assert (
        'source = "eicu/a.csv"  # CHECK: a source is one file, or files of the same columns; not looked at: b.csv'
        in text
    )
    assert len(first_reading(folder).value) == 30


def test_a_folder_of_yaib_is_its_readings_and_the_descriptors_of_its_static_table(tmp_path):
    folder = tmp_path / "yaib"
    folder.mkdir()
    hours = pa.array([3600 * (i % 30) for i in range(60)], pa.duration("s"))
    stays = pa.array([11] * 30 + [12] * 30)
    pq.write_table(pa.table({"stay_id": stays, "time": hours, "hr": pa.array([80.0] * 60)}), folder / "dyn.parquet")
    static = {
        "stay_id": [11, 12, 13],
        "age": [74.0, 46, 50],
        "sex": ["Female", "Male", "Male"],
        "height": [170, 1.8, 1],
    }
    pq.write_table(pa.table(static), folder / "sta.parquet")
    pq.write_table(pa.table({"stay_id": [11, 12], "label": [0, 1]}), folder / "outc.parquet")
    _, found = mapped(folder)
    assert found.source == folder / "dyn.parquet"
    assert found.static is not None
    assert (found.static.source, found.static.record) == (folder / "sta.parquet", "stay_id")
    cohort = first_reading(folder)
    assert cohort.records.column("file").to_pylist() == ["11", "12"]
    assert cohort.records.column("age").to_pylist() == [74, 46]
    assert cohort.records.column("gender").to_pylist() == [0, 1]
    assert cohort.notes == ("3 values in sta.parquet of records that have no row",)
