from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levyscreen.errors import CohortError
from levyscreen.records import physionet2012
from levyscreen.records.archives import RecordFile
from levyscreen.records.assemble import assemble
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.grammar import body_of
from levyscreen.records.lines import read_lines, read_lines_one_by_one
from levyscreen.records.physionet2012 import parse_batch, read_parts
from levyscreen.schema import COUNTED_CLASSES, RECORDS, REJECTS, count_column
from levyscreen.types import LineClass
from levyscreen.variables import PHYSIONET2012
from tests.records.record_files import (
    HEAD,
    accounts,
    counts,
    record,
    rows,
    same,
    slow_cohort,
    slow_reading,
    write_folder,
)
from tests.records.strategies import FILES, TEXT

# A line for each class, and the class it must end in.
EVERY_CLASS = {
    "00:07,HR,73": "reading",
    "00:08,HR,-1": "negative",
    "00:09,Temp,-17.8": "negative",
    "00:10,HR,0": "implausible",
    "00:11,pH,735": "repaired",
    "00:12,Weight,80.6": "descriptor",
    "00:13,Weight,-1": "negative",
    "00:14,Foo,1": "unknown_parameter",
    "00:15,,1": "blank_parameter",
    "00:16,HR,7_3": "not_a_number",
    "00:17,HR,": "not_a_number",
    "00:18,HR,1e400": "not_finite",
    "0:9,HR,73": "bad_time",
    "48:01,HR,73": "outside_stay",
    "00:20,HR,73,": "malformed",
    "00:21": "malformed",
}


def read(tmp_path: Path, files: dict[str, str | bytes]) -> Cohort:
    return read_cohort(write_folder(tmp_path / "cohort", files), cache=False)


def field(cohort: Cohort, column: str) -> list[object]:
    return cohort.records[column].to_pylist()


# Lines --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "word"), EVERY_CLASS.items())
def test_every_line_ends_in_exactly_one_class(tmp_path: Path, line: str, word: str) -> None:
    cohort = read(tmp_path, {"7.txt": f"{HEAD}{line}\n"})
    assert counts(cohort) == {word: 1}
    assert field(cohort, "n_lines") == [1]
    listed = [] if word in ("reading", "descriptor") else [{"file": "7.txt", "line": 2, "line_class": word}]
    assert cohort.rejects.to_pylist() == listed


def test_the_counts_of_all_classes_add_up_to_the_lines(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, *EVERY_CLASS)})
    assert field(cohort, "n_lines") == [6 + len(EVERY_CLASS)]
    assert sum(counts(cohort).values()) == 6 + len(EVERY_CLASS)


def test_numeric_lines_of_known_variables_are_kept_as_written(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, *EVERY_CLASS)})
    kept = [(name, value, LineClass(c).name) for _, _, name, value, c in rows(cohort)]
    assert kept == [
        ("HR", 73.0, "READING"),
        ("HR", -1.0, "NEGATIVE"),
        ("Temp", -17.8, "NEGATIVE"),
        ("HR", 0.0, "IMPLAUSIBLE"),
        ("pH", 735.0, "REPAIRED"),
    ]


def test_rejects_hold_a_few_examples_of_each_class(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, *["00:07,HR,x"] * 9, "00:08,Foo,1")})
    assert cohort.rejects["line_class"].to_pylist() == ["negative"] * 2 + ["not_a_number"] * 3 + ["unknown_parameter"]
    assert cohort.rejects["line"].to_pylist() == [5, 7, 8, 9, 10, 17]


def test_two_values_at_one_time_are_both_kept_in_order_of_value(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, "00:07,Urine,1030", "00:07,Urine,400", "00:07,Urine,400")})
    assert cohort.value.tolist() == [400, 400, 1030]


def test_a_reading_at_the_very_end_of_the_stay_is_kept(tmp_path: Path) -> None:
    assert read(tmp_path, {"7.txt": record(7, "48:00,HR,70")}).time_hours.tolist() == [48.0]


def test_tables_have_the_types_of_the_schema(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, *EVERY_CLASS)})
    assert cohort.records.schema.equals(RECORDS)
    assert cohort.rejects.schema.equals(REJECTS)
    kinds = {f: getattr(cohort, f).dtype.name for f in ("offsets", "time_hours", "variable", "value", "line_class")}
    assert list(kinds.values()) == ["int64", "float32", "int16", "float64", "uint8"]


# What must change nothing -------------------------------------------------------------------------------------------

TEXTS = {
    "8.txt": record(8, "00:00,HR,70", "00:07,Urine,400", "00:07,Urine,30", "05:00,Weight,80", "47:00,K,4.1"),
    "7.txt": record(7, "00:07,GCS,15", "00:07,HR,-1", "00:09,Weight,70", "00:30,Weight,90"),
    "9.txt": record(9),
}


def shuffled(text: str) -> str:
    head, *lines = text.splitlines()
    random.Random(3).shuffle(lines)
    return "\n".join([head, *lines]) + "\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", " \t\n"),
        lambda text: text.replace(",", " , ").replace("\n", "\n ").rstrip(" "),
        lambda text: text + "\n\n  \n",
        lambda text: text.replace("00:00,Age", "\n00:00,Age"),
        lambda text: text.replace("00:00,Age", "  \n00:00,Age"),
        shuffled,
    ],
)
def test_order_and_trimmings_of_a_file_change_nothing(tmp_path: Path, change: object) -> None:
    plain = read(tmp_path / "a", dict(TEXTS))
    changed = read(tmp_path / "b", {name: change(text) for name, text in TEXTS.items()})  # type: ignore[operator]
    assert rows(plain) == rows(changed)
    assert plain.records.equals(changed.records)


def test_the_order_in_which_files_are_listed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [RecordFile(name, text.encode()) for name, text in TEXTS.items()]
    monkeypatch.setattr(physionet2012, "BATCH_BYTES", 1)  # a batch for each file
    one, two = (assemble(read_parts(f, PHYSIONET2012), "x", PHYSIONET2012) for f in (files, files[::-1]))
    assert same(one, two)
    assert one.fingerprint == two.fingerprint
    assert field(one, "record_id") == [7, 8, 9]


def test_the_size_of_a_batch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [RecordFile(f"{i}.txt", record(i, *EVERY_CLASS).encode()) for i in range(40)]
    whole = assemble(read_parts(files, PHYSIONET2012), "x", PHYSIONET2012)
    monkeypatch.setattr(physionet2012, "BATCH_BYTES", 2000)
    assert same(whole, assemble(read_parts(files, PHYSIONET2012), "x", PHYSIONET2012))


# Descriptors and identity -------------------------------------------------------------------------------------------


def test_descriptors_are_known_by_name_and_the_first_valid_value_counts(tmp_path: Path) -> None:
    lines = "00:00,HR,70", "00:00,Age,54", "00:00,RecordID,7", "00:00,Weight,-1", "00:30,Weight,81", "00:40,Weight,90"
    cohort = read(tmp_path, {"7.txt": HEAD + "\n".join(lines)})
    facts = cohort.records.select(["record_id", "age", "gender", "height", "icu_type", "weight"]).to_pylist()
    assert facts == [{"record_id": 7, "age": 54, "gender": None, "height": None, "icu_type": None, "weight": 81}]


def test_without_a_record_id_line_the_number_in_the_name_counts(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"132539.txt": f"{HEAD}00:07,HR,73\n"})
    assert field(cohort, "record_id") == [132539]
    assert cohort.notes == ()


def test_without_either_the_record_is_unreadable(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"x.txt": f"{HEAD}00:07,HR,73\n", "7.txt": record(7)})
    assert field(cohort, "problem") == [None, "no RecordID line, and no number in the file's name"]
    assert field(cohort, "record_id") == [7, None]
    assert len(cohort.value) == 0


@pytest.mark.parametrize("line", ["RecordID,-1", "RecordID,1.5", "RecordID,x", "RecordID,1e300", "RecordID,nan"])
def test_a_record_id_that_is_no_whole_number_does_not_count(tmp_path: Path, line: str) -> None:
    assert field(read(tmp_path, {"7.txt": f"{HEAD}00:00,{line}\n"}), "record_id") == [7]


def test_a_file_named_unlike_its_record_id_is_noted_and_the_line_counts(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(8, "00:07,HR,73")})
    assert field(cohort, "record_id") == [8]
    assert cohort.notes == ("1 file with a name unlike the RecordID line, which counts: 7.txt",)


def test_of_two_files_of_one_record_the_first_by_name_counts(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"b.txt": record(7, "00:07,HR,99", "00:07,HR,x"), "a.txt": record(7, "00:07,HR,73")})
    assert field(cohort, "file") == ["a.txt", "b.txt"]
    assert field(cohort, "record_id") == [7, 7]
    assert field(cohort, "problem") == [None, "its RecordID is that of another file, whose name comes first"]
    assert [(file, value) for file, _, _, value, _ in rows(cohort)] == [("a.txt", 73.0)]
    assert field(cohort, "n_lines") == [7, 0]
    assert set(cohort.rejects["file"].to_pylist()) == {"a.txt"}
    assert "1 file not counted, a file whose name comes first has the same RecordID: b.txt" in cohort.notes


def test_a_file_with_two_record_ids_is_unreadable(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, "00:07,HR,73", "00:09,RecordID,8"), "8.txt": record(8, "00:07,HR,74")})
    assert field(cohort, "problem") == ["its RecordID lines name different records", None]
    assert cohort.value.tolist() == [74.0]


def test_an_unreadable_file_is_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": record(7, "00:07,HR,73"), "8.txt": b"\xff\xfe", "9.txt": "x", "10.txt": ""})
    assert field(cohort, "record_id") == [7, 8, 9, 10]
    problems = [None, "not UTF-8 text", "the first line is not Time,Parameter,Value", "the file is empty"]
    assert field(cohort, "problem") == problems
    assert cohort.value.tolist() == [73.0]
    assert cohort.notes == (
        "3 files not readable as a record: 8.txt (not UTF-8 text), 9.txt (the first line is not Time,Parameter,Value), "
        "10.txt (the file is empty)",
    )


def test_a_note_names_a_few_files_and_counts_the_rest(tmp_path: Path) -> None:
    cohort = read(tmp_path, {f"p{i}.txt": record(i) for i in range(5)})
    assert cohort.notes == (
        "5 files with a name unlike the RecordID line, which counts: p0.txt, p1.txt, p2.txt and 2 more",
    )


def test_a_file_with_nothing_but_a_header_is_an_empty_record(tmp_path: Path) -> None:
    cohort = read(tmp_path, {"7.txt": HEAD, "8.txt": HEAD.strip()})
    assert field(cohort, "problem") == [None, None]
    assert cohort.offsets.tolist() == [0, 0, 0]


def test_a_record_of_more_lines_than_any_can_have_is_named(tmp_path: Path) -> None:
    for number, end in enumerate(("\n", "\r")):
        files = {"7.txt": record(7, "00:07,HR,73"), "8.txt": HEAD + f",,{end}" * 200_001}
        cohort = read(tmp_path / str(number), files)
        assert field(cohort, "problem") == [None, "more than 200,000 lines, no record has"]


def test_no_value_and_no_foreign_id_reaches_notes_problems_or_rejects(tmp_path: Path) -> None:
    canary = "987654321"
    lines = f"00:07,HR,{canary}", f"00:08,{canary},1", f"{canary},HR,1", f"00:09,HR,{canary}x", f"00:09,HR,1,{canary}"
    files = {"a.txt": record(int(canary), *lines), "b.txt": record(int(canary)), "c.txt": f"{canary}\n"}
    cohort = read(tmp_path, files)
    said = [*cohort.notes, *field(cohort, "problem"), *cohort.rejects["file"].to_pylist()]
    assert not any(canary in str(text) for text in said)


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    write_folder(tmp_path / "set-b", {"1.txt": ""})
    with pytest.raises(CohortError, match=r"no record file in this folder; they are named like 132539\.txt; did you"):
        read_cohort(tmp_path)
    with pytest.raises(CohortError, match="no such folder or archive; check the path"):
        read_cohort(tmp_path / "none")


# The slow twins -----------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_the_fast_reader_agrees_with_plain_python_on_hostile_files(texts: list[str]) -> None:
    files = [RecordFile(f"{i}.txt", text.encode()) for i, text in enumerate(texts)]
    part = parse_batch(files, PHYSIONET2012)
    for i, text in enumerate(texts):
        kept, found = slow_reading(text, PHYSIONET2012)
        mine = part.file == i
        hours = part.hours[mine].tolist()
        words = [LineClass(c).name.lower() for c in part.line_class[mine]]
        columns = (hours, part.variable[mine].tolist(), part.value[mine].tolist(), words)
        assert list(zip(*columns, strict=True)) == kept
        assert {c.name.lower(): n for c, n in zip(LineClass, part.counts[i].tolist(), strict=True) if n} == dict(found)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_the_fast_path_agrees_with_the_careful_one(texts: list[str]) -> None:
    bodies = [body_of(text.encode()) for text in texts]
    fast, careful = read_lines(bodies, PHYSIONET2012), read_lines_one_by_one(dict(enumerate(bodies)), PHYSIONET2012)
    order = np.lexsort((fast.number, fast.file))
    for name in ("file", "number", "refusal"):
        assert getattr(fast, name)[order].tolist() == getattr(careful, name).tolist()
    fine = careful.refusal == LineClass.READING
    for name in ("minutes", "code", "value"):
        assert getattr(fast, name)[order][fine].tolist() == getattr(careful, name)[fine].tolist()


@settings(max_examples=150, deadline=None)
@given(FILES)
def test_a_cohort_of_hostile_files_is_what_plain_python_makes_of_it(files: dict[str, bytes]) -> None:
    parts = read_parts([RecordFile(name, data) for name, data in files.items()], PHYSIONET2012)
    assert accounts(assemble(parts, "x", PHYSIONET2012)) == slow_cohort(files, PHYSIONET2012)


@pytest.mark.parametrize("line", ["00:07,HR," + "1" * 3_000_000, "x" * 3_000_000, "00:07," + "é" * 1_000_000 + ",1"])
def test_a_very_long_line_is_read_like_any_other(line: str) -> None:
    part = parse_batch([RecordFile("7.txt", f"{HEAD}{line}\n00:08,HR,73\n".encode())], PHYSIONET2012)
    assert part.value.tolist() == [73.0]
    assert part.counts.sum() == 2


# The real files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lines", "empty", "few", "usual", "longer", "twice", "hidden"),
    [
        ("set-a", 1_757_980, 3, 4, 3362, 631, 3744, None),
        ("set-b", 1_762_535, 7, 3, 3383, 607, 3960, 373_713),
    ],
)
def test_the_real_sets_hold_what_they_are_known_to_hold(
    physionet: Path,
    name: str,
    lines: int,
    empty: int,
    few: int,
    usual: int,
    longer: int,
    twice: int,
    hidden: int | None,
) -> None:
    cohort = read_cohort(physionet / f"{name}.tar.gz", cache=False, variables=PHYSIONET2012.without_ranges())
    assert len(cohort) == 4000
    assert cohort.name == name
    assert cohort.notes == ()
    assert sum(cohort.records["n_lines"].to_pylist()) == lines
    assert sum(sum(cohort.records[count_column(c)].to_pylist()) for c in COUNTED_CLASSES) == lines
    record = np.repeat(np.arange(4000), np.diff(cohort.offsets))
    n = np.bincount(record[cohort.line_class == LineClass.READING], minlength=4000)
    bands = ((n == 0).sum(), ((n > 0) & (n < 20)).sum(), ((n >= 20) & (n <= 512)).sum(), (n > 512).sum())
    assert bands == (empty, few, usual, longer)
    assert np.array_equal(cohort.line_class == LineClass.READING, cohort.value >= 0)
    columns = (record, cohort.time_hours, cohort.variable)
    assert np.logical_and.reduce([c[1:] == c[:-1] for c in columns]).sum() == twice
    if hidden is not None:
        assert np.floor(0.3 * n[(n >= 20) & (n <= 512)]).sum() == hidden
