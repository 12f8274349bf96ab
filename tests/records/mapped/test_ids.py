"""Ids stay what they are: whole 64 bits of a subject, no id that a float has rounded, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.described import patients
from levyscreen.records.mapped.meds import meds_scores
from levyscreen.records.mapped.register import subject_of
from levyscreen.schema import RECORDS, SCORES
from tests.records.mapped.small_table import LONG, VARIABLES, column, read

WITH_SUBJECT = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
LEAST, MOST = -(2**63), 2**63 - 1


def stored(folder: Path, ids: pa.Array, head: str = LONG, **more: pa.Array) -> Cohort:
    """A Parquet table of a reading an id."""
    count = len(ids)
    columns = {"id": ids, "t": [1.0] * count, "what": ["HR"] * count, "x": [80.0] * count, **more}
    pq.write_table(pa.table(columns), folder / "t.parquet")
    (folder / "m.toml").write_text(head.replace("t.csv", "t.parquet") + VARIABLES)
    return read_cohort(folder / "m.toml", cache=False)


@pytest.mark.parametrize("number", [-4873075614181207000, 3589912774911670000, LEAST, MOST, -(2**62), 0, -1])
def test_a_subject_of_64_bits_is_that_very_number(number, tmp_path):
    assert subject_of(str(number)) == number
    found = read(tmp_path, [(1, number, 1, "HR", 80), (1, number, 2, "HR", 81)], WITH_SUBJECT, "id,who,t,what,x")
    assert column(found, "subject_id") == [number]
    assert column(found, "problem") == [None]
    exact = stored(tmp_path, pa.array([1]), WITH_SUBJECT, who=pa.array([number], pa.int64()))
    assert column(exact, "subject_id") == [number]


@pytest.mark.parametrize("others", [(LEAST, MOST), (MOST, LEAST), (-1, MOST)])
def test_two_subjects_of_a_record_are_seen_whatever_they_are(others, tmp_path):
    rows = [(1, subject, 1, "HR", 80) for subject in others]
    assert column(read(tmp_path, rows, WITH_SUBJECT, "id,who,t,what,x"), "problem") == [
        "its rows name different subjects"
    ]


def test_a_record_of_no_subject_is_no_patient_that_there_is():
    said = [LEAST, None, LEAST + 1, None, MOST]
    table = pa.table({f.name: pa.array([None] * 5, f.type) for f in RECORDS}, schema=RECORDS)
    table = table.set_column(table.schema.get_field_index("subject_id"), "subject_id", pa.array(said, pa.int64()))
    found = patients(table)
    assert found is not None
    assert [found[0], found[2], found[4]] == [LEAST, LEAST + 1, MOST]
    assert len(np.unique(found)) == 5


# Rounded ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "first"),
    [(pa.float16(), 2**11), (pa.float32(), 2**24), (pa.float64(), 2**53), (pa.float32(), 30_000_001)],
)
@pytest.mark.parametrize("role", ["record", "subject", "code"])
def test_ids_that_a_float_may_have_rounded_are_refused(kind, first, role, tmp_path):
    ids = pa.array(np.array([first], {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]), kind)
    columns = {"record": {}, "subject": {"who": ids}, "code": {"what": ids}}[role]
    said = rf"holds floats of {kind.bit_width} bits, which cannot tell whole numbers from [0-9,]+ on apart: two ids may"
    with pytest.raises(CohortError, match=said) as error:
        stored(
            tmp_path,
            ids if role == "record" else pa.array([1]),
            WITH_SUBJECT if columns else LONG,
            **({"who": ids} | columns),
        )
    assert str(first) not in str(error.value)


@pytest.mark.parametrize(("kind", "last"), [(np.float32, 2**24 - 1), (np.float64, 2**53 - 1)])
def test_ids_that_a_float_holds_exactly_are_read(kind, last, tmp_path):
    found = stored(tmp_path, pa.array(np.array([last, last - 1, np.nan], kind)))
    assert column(found, "file") == [str(last - 1), str(last)]
    assert found.notes == ("1 value in rows that name no record, and so of nobody",)


@pytest.mark.parametrize("word", ["1.23457E+17", "1.2345678901234568e+18", "9007199254740993.0", "1,23E+12", "1e+05"])
def test_ids_in_text_that_a_program_has_rounded_are_refused(word, tmp_path):
    with pytest.raises(CohortError, match=r"'id' holds numbers that a program has rounded, such as .*: two ids may"):
        read(tmp_path, [(word, 1, "HR", 80)])


@pytest.mark.parametrize("word", ["1E5", "7.0", "3.14", "12345678901234567", "12e-3", "ab1.5E+3"])
def test_other_ids_in_text_are_ids(word, tmp_path):
    assert column(read(tmp_path, [(word, 1, "HR", 80)]), "file") == [word.removesuffix(".0")]


def test_scores_for_meds_name_a_subject_far_below_zero_by_its_own_number(tmp_path):
    subject = -4873075614181207000
    rows = [(1, subject, f"2150-01-01 0{h}:00:00", "HR", 80) for h in range(3)]
    head = WITH_SUBJECT.replace('unit = "hours"', 'unit = "timestamp"').replace('"admission"', '"first"')
    found = read(tmp_path, rows, head, "id,who,t,what,x")
    scores = pa.table({f.name: pa.array([None], f.type) for f in SCORES}, schema=SCORES)
    for name, value in (("record_id", 1), ("status", "scored")):
        place = SCORES.get_field_index(name)
        scores = scores.set_column(place, SCORES.field(name), pa.array([value], SCORES.field(name).type))
    assert meds_scores(found, scores).column("subject_id").to_pylist() == [subject]


# No id ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["NA", "nan", "NaN", "NULL", "(null)", "None", "<NA>", "N/A", "#N/A", r"\N", "NaT", " na ", ""]
)
def test_rows_whose_id_says_that_there_is_none_are_of_nobody(word, tmp_path):
    found = read(tmp_path, [(word, h, "HR", 80) for h in range(30)] + [(7, 1, "HR", 80)])
    assert column(found, "file") == ["7"]
    assert found.notes == ("30 values in rows that name no record, and so of nobody",)
    found = read(tmp_path, [(7, word, 1, "HR", 80)], WITH_SUBJECT, "id,who,t,what,x")
    assert column(found, "subject_id") == [None]


def test_na_is_still_sodium(tmp_path):
    (tmp_path / "t.csv").write_text("id,t,what,x\n1,1,NA,140\n")
    (tmp_path / "m.toml").write_text(LONG + '[variables.Na]\ncodes = ["NA"]\n')
    assert read_cohort(tmp_path / "m.toml", cache=False).load().value.tolist() == [140]
