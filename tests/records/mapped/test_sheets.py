"""Excel's workbooks are read as the CSV of the same cells is, with what only a spreadsheet does taken care of."""

from __future__ import annotations

import datetime
import sys
import zipfile

import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped import sheets
from levyscreen.records.mapped.tables import passed_over
from tests.records.mapped.small_table import LONG, by_name, column, read, written
from tests.records.record_files import accounts

openpyxl = pytest.importorskip("openpyxl", reason="the extra excel is not installed")

BOOK = LONG.replace('"t.csv"', '"t.xlsx"')
HEAD = ["id", "t", "what", "x"]


def book(folder, rows, head=BOOK, name="t.xlsx", more=()):
    """A workbook with these rows in its first sheet, and its mapping."""
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for title in more:
        made.create_sheet(title).append(["other"])
    made.save(folder / name)
    return written(folder, [], head)


def test_a_workbook_is_what_the_csv_of_the_same_cells_is(tmp_path):
    rows = [
        [1, 0, "HR", 80],
        [1, 1.5, "tc", 36.5],
        [2, 2, "HR", "81"],
        [2, None, "HR", 82],
        [2, 3, "HR", "high"],
        [None, 4, "HR", 83],
        [2, 5, "strange", 1],
        [2, 60, "HR", 84],
        ["x y", 6, "HR", -1],
    ]
    folders = [tmp_path / name for name in ("csv", "xlsx")]
    for folder in folders:
        folder.mkdir()
    plain = read(folders[0], [["" if cell is None else cell for cell in row] for row in rows])
    found = read_cohort(book(folders[1], [HEAD, *rows]), cache=False)
    assert accounts(found) == accounts(plain)
    assert by_name(found) == by_name(plain)
    assert [n for n in found.notes if "rows that name no" in n] == [n for n in plain.notes if "rows that name no" in n]


def test_dates_times_of_day_and_durations_are_what_they_are(tmp_path):
    began = datetime.datetime(2150, 1, 1, 6)
    dated = BOOK.replace('[time]\nunit = "hours"', '[time]\nunit = "timestamp"\norigin = "first"')
    rows = [[1, began, "HR", 80], [1, began + datetime.timedelta(hours=5, minutes=30), "HR", 81]]
    found = read_cohort(book(tmp_path, [HEAD, *rows], dated), cache=False)
    assert [line[1:4] for line in by_name(found)] == [(0.0, "HR", 80.0), (5.5, "HR", 81.0)]
    clock = BOOK.replace('unit = "hours"', 'unit = "HH:MM"')
    rows = [[1, datetime.time(5, 30), "HR", 80], [1, datetime.timedelta(hours=30, minutes=15), "HR", 81]]
    found = read_cohort(book(tmp_path, [HEAD, *rows], clock), cache=False)
    assert [line[1:4] for line in by_name(found)] == [(5.5, "HR", 80.0), (30.25, "HR", 81.0)]


def test_rows_have_the_numbers_of_the_sheet_and_what_stands_above_or_beside_the_table_is_left_out(tmp_path):
    rows = [["Ward 7"], [], HEAD, [1, 0, "HR", 80], [], [1, 1, "HR", 81, "note"], [1, 2, "HR", "x"]]
    found = read_cohort(book(tmp_path, rows, "skip_lines = 1\n" + BOOK), cache=False)
    assert column(found, "n_reading") == [1]
    rejects = [(row["line"], row["line_class"]) for row in found.rejects.to_pylist()]
    assert sorted(rejects) == [(6, "malformed"), (7, "not_a_number")]


def test_ids_of_more_digits_than_a_spreadsheet_keeps_are_refused(tmp_path):
    rows = [[1234567890123450, 0, "HR", 80]]
    with pytest.raises(CohortError, match=r"column 'id' holds numbers that a program has rounded"):
        read_cohort(book(tmp_path, [HEAD, *rows]), cache=False)
    found = read_cohort(book(tmp_path, [HEAD, [123456789012345, 0, "HR", 80]]), cache=False)
    assert column(found, "file") == ["123456789012345"]
    found = read_cohort(book(tmp_path, [HEAD, ["1234567890123456", 0, "HR", 80]]), cache=False)  # as text
    assert column(found, "file") == ["1234567890123456"]


def test_another_sheet_is_read_where_the_mapping_names_it_and_the_others_are_counted(tmp_path):
    path = book(tmp_path, [HEAD, [1, 0, "HR", 80]], more=("b", "c"))
    assert read_cohort(path, cache=False).notes[0] == (
        "2 further sheets of the workbook not read: sheet in the mapping names the one to read"
    )
    written(tmp_path, [], 'sheet = "Sheet"\n' + BOOK)
    assert not read_cohort(path, cache=False).notes
    written(tmp_path, [], 'sheet = "d"\n' + BOOK)
    with pytest.raises(CohortError, match=r"t\.xlsx: has no sheet 'd'; it has 3"):
        read_cohort(path, cache=False)


def test_a_sheet_longer_than_a_block_is_read_in_blocks(tmp_path, monkeypatch):
    rows = [[1 + i % 3, i % 48, "HR", 60 + i % 40] for i in range(500)]
    path = book(tmp_path, [HEAD, *rows])
    whole = read_cohort(path, cache=False)
    assert column(whole, "n_reading") == [167, 167, 166]
    monkeypatch.setattr(sheets, "BLOCK_ROWS", 7)
    assert by_name(read_cohort(path, cache=False)) == by_name(whole)


def test_map_drafts_a_workbook_and_passes_over_what_excel_lays_beside_it(tmp_path):
    (tmp_path / "ward").mkdir()
    rows = [[1 + i % 3, i % 48, "heart rate", 60 + i % 40] for i in range(300)]
    head = ["stay_id", "hours", "variable", "value"]
    book(tmp_path / "ward", [head, *rows], name="own.xlsx").unlink()
    (tmp_path / "ward" / "t.csv").unlink()
    (tmp_path / "ward" / "~$own.xlsx").write_bytes(b"locked")
    (tmp_path / "m.toml").write_text(draft(guess(tmp_path / "ward"), tmp_path))
    assert column(read_cohort(tmp_path / "m.toml", cache=False), "n_reading") == [100, 100, 100]
    assert passed_over(tmp_path / "ward", "long") is None


def test_what_is_no_workbook_or_a_bomb_is_an_error(tmp_path, monkeypatch):
    path = book(tmp_path, [HEAD, [1, 0, "HR", 80]])
    with zipfile.ZipFile(tmp_path / "t.xlsx", "a") as packed:
        packed.writestr("xl/sharedStrings.xml", " " * 101)
    monkeypatch.setattr(sheets, "MOST_TEXTS", 100)
    with pytest.raises(CohortError, match=r"t\.xlsx: cannot be read as a \.xlsx table: it has more than 0 MB of texts"):
        read_cohort(path, cache=False)
    (tmp_path / "t.xlsx").write_bytes(b"not packed at all")
    with pytest.raises(CohortError, match=r"t\.xlsx: cannot be read as a \.xlsx table: it is damaged \(BadZipFile\)"):
        read_cohort(path, cache=False)
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as packed:
        packed.writestr("readme", "words")
    with pytest.raises(CohortError, match=r"t\.xlsx: cannot be read as a \.xlsx table: it is damaged"):
        read_cohort(path, cache=False)


def test_without_its_package_a_workbook_is_refused_with_what_to_do(tmp_path, monkeypatch):
    path = book(tmp_path, [HEAD, [1, 0, "HR", 80]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        CohortError, match=r"t\.xlsx: Excel's workbooks need openpyxl: pip install 'levyscreen\[excel\]'"
    ):
        read_cohort(path, cache=False)
