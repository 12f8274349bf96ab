from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from levyscreen.records.cache import read_cohort
from levyscreen.records.validate import Summary, summarise
from levyscreen.types import LineClass
from levyscreen.variables import PHYSIONET2012
from tests.records.record_files import record, write_folder
from tests.records.test_physionet2012 import EVERY_CLASS


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    def beats(count: int) -> list[str]:
        return [f"{i // 60:02d}:{i % 60:02d},HR,{60 + i % 3}" for i in range(count)]

    files = {
        "1.txt": record(1),
        "2.txt": record(2, *beats(19)),
        "3.txt": record(3, *beats(20)),
        "4.txt": record(4, *beats(512)),
        "5.txt": record(5, *beats(513)),
        "6.txt": "x",
        "7.txt": record(7, *EVERY_CLASS, "00:20,RespRate,0", "48:00,K,4", "48:00,K,5", "48:00,K,-1"),
    }
    return summarise(read_cohort(write_folder(tmp_path / "set", files), cache=False))


def test_records_are_counted_by_how_many_readings_they_have(summary: Summary) -> None:
    assert list(summary.records.itertuples(index=False, name=None)) == [
        ("empty", "0", 1),
        ("too_few", "1 to 19", 2),
        ("scored", "20 to 512", 2),
        ("scored", "more than 512", 1),
        ("unreadable", "", 1),
    ]


def test_repetitions_make_no_record_ready_to_be_scored(tmp_path: Path) -> None:
    beats = [f"00:{i:02d},HR,{60 + i % 3}" for i in range(19)]
    folder = write_folder(tmp_path / "set", {"1.txt": record(1, *beats, *beats[:10])})
    records = summarise(read_cohort(folder, cache=False)).records
    assert records.set_index("readings")["records"].to_dict() == {
        **{"0": 0, "1 to 19": 1, "20 to 512": 0, "more than 512": 0, "": 0}
    }


def test_lines_are_counted_by_class(summary: Summary) -> None:
    lines = summary.classes.set_index("line_class")["lines"]
    assert list(lines.index) == [c.name.lower() for c in LineClass]
    assert (lines["malformed"], lines["repaired"], lines["not_a_number"]) == (2, 1, 2)
    assert summary.classes["meaning"].str.len().min() > 0


def test_variables_are_summed_up_over_their_readings(summary: Summary) -> None:
    table = summary.variables.set_index("variable")
    assert list(table.index) == list(PHYSIONET2012.names)
    heart = table.loc["HR"]
    assert (heart["records"], heart["readings"], heart["negative"], heart["implausible"]) == (5, 1065, 1, 1)
    assert (heart["min"], heart["median"], heart["max"]) == (60, 61, 73)
    assert table.loc["pH", ["readings", "repaired", "median"]].tolist() == pytest.approx([1, 1, 7.35])
    assert table.loc["ALP", "readings"] == 0
    assert pd.isna(table.loc["ALP", "median"])


def test_unreadable_files_are_listed_with_their_problem(summary: Summary) -> None:
    assert summary.problems.to_numpy().tolist() == [["6.txt", "the first line is not Time,Parameter,Value"]]


def test_what_is_odd_is_said(summary: Summary) -> None:
    assert summary.same_time == 2
    text = "\n".join(summary.notes)
    assert "2 lines with a second value of a variable at one time; all are kept" in text
    assert "3 lines at the very end of the stay" in text
    assert "1 line with HR 0: rejected as implausible, but it could be a cardiac arrest" in text
    assert "1 line with RespRate 0" in text
    assert "no reading at all of ALP, ALT" in text
    assert "1 file not readable as a record: 6.txt" in text


def test_a_cohort_of_nothing_can_be_summed_up(tmp_path: Path) -> None:
    summary = summarise(read_cohort(write_folder(tmp_path / "set", {"6.txt": "x"}), cache=False))
    assert summary.records["records"].tolist() == [0, 0, 0, 0, 1]
    assert summary.variables["readings"].sum() == 0


def test_set_b_holds_3_960_second_values(physionet: Path) -> None:
    summary = summarise(read_cohort(physionet / "set-b.tar.gz", cache=False))
    assert summary.same_time == 3960
    assert summary.classes["lines"].sum() == 1_762_535
    assert summary.records["records"].tolist() == [7, 3, 3388, 602, 0]
