"""Text as it is out there: stray quotes, ids of pandas, decimal commas, other delimiters and encodings."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort, write_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.mapped import tables, text
from levyscreen.records.mapped.cells import words
from levyscreen.records.mapped.tables import TableFile, TableReader
from levyscreen.records.mapped.text import Form, Lines
from levyscreen.records.validate import summarise
from tests.records.mapped.small_table import LONG, VARIABLES, column
from tests.records.record_files import counts, same

HEAD = "id,t,note,what,x\n"


def read(folder: Path, data: str | bytes, keys: str = "", name: str = "t.csv") -> Cohort:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    (folder / "m.toml").write_text(keys + LONG.replace("t.csv", name) + VARIABLES)
    return read_cohort(folder / "m.toml", cache=False)


def readings(cohort: Cohort) -> list[tuple[str, float, float]]:
    record = np.repeat(column(cohort, "file"), np.diff(cohort.offsets)).tolist()
    return sorted(zip(record, cohort.time_hours.tolist(), cohort.value.tolist(), strict=True))


# Quotes --------------------------------------------------------------------------------------------------------------

STRAY = HEAD + '1,0,,HR,80\n1,1,"left,HR,81\n1,2,,HR,82\n2,0,5" cuff,HR,120\n2,1,,HR,121\n'


def test_a_stray_quote_gives_no_patient_anothers_value_and_says_where_it_is_and_what_to_do(tmp_path):
    found = read(tmp_path, STRAY)
    assert readings(found) == [("1", 0, 80), ("2", 1, 121)]
    assert found.notes == (
        "1 row with a quoted field that may hold rows of its own, not read; the first: t.csv, row 3; set quote = true "
        "where fields do hold such lines",
        "2 lines within quoted fields of rows that were not read, the first in t.csv: set quote = false where a quote "
        "is a character like any other",
    )
    assert found.rejects.to_pylist() == [{"file": "t.csv", "line": 3, "line_class": "malformed"}]


def test_without_quoting_a_stray_quote_is_a_character(tmp_path):
    found = read(tmp_path, STRAY, "quote = false\n")
    assert readings(found) == [("1", 0, 80), ("1", 1, 81), ("1", 2, 82), ("2", 0, 120), ("2", 1, 121)]
    assert found.notes == ()


def test_a_quoted_field_of_several_lines_is_one_field_and_hurts_nobody(tmp_path):
    rows = HEAD + '1,0,"awake, calm\nno pain",HR,80\n2,0,"he said ""no""\r\n\r\nand left",HR,90\n'
    found = read(tmp_path, rows)
    assert readings(found) == [("1", 0, 80), ("2", 0, 90)]
    assert found.notes == ("2 lines within quoted fields of rows that were read; the first: t.csv, row 2",)
    assert found.rejects.num_rows == 0


def test_fields_that_do_hold_rows_are_read_where_the_mapping_says_so(tmp_path):
    rows = HEAD + '1,0,"a,b,c,d,e\nf",HR,80\n'
    assert readings(read(tmp_path, rows, "quote = true\n")) == [("1", 0, 80)]
    with pytest.raises(CohortError, match=r"no row names a record in its column 'id'; 1 row with a quoted field that"):
        read(tmp_path, rows)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("between", [0, 1, 3])
def test_wherever_the_column_with_the_quotes_stands_no_value_changes_its_patient(place, between, tmp_path):
    def line(row: list[str], note: str) -> str:
        return ",".join([*row[:place], note, *row[place:]])

    rows = [[str(i), "0", "HR", str(60 + i)] for i in range(between + 4)]
    notes = ["", '"left', *[""] * between, '5" cuff', ""]
    lines = [line(["id", "t", "what", "x"], "note"), *map(line, rows, notes)]
    found = readings(read(tmp_path, "\n".join(lines)))
    true = [(row[0], 0.0, float(row[3])) for row in rows]
    assert set(found) <= set(true)
    assert {true[0], true[-1]} <= set(found)


def test_a_quote_that_is_never_closed_loses_rows_that_are_counted(tmp_path):
    found = read(tmp_path, HEAD + '1,0,,HR,80\n1,1,"left,HR,81\n1,2,,HR,82\n')
    assert readings(found) == [("1", 0, 80)]
    assert found.notes[0] == "1 row with another number of fields than the header, not read; the first: t.csv, row 3"
    assert "1 line within quoted fields of rows that were not read, the first in t.csv" in found.notes[1]


def test_rows_of_another_width_are_malformed_lines_of_no_record(tmp_path):
    found = read(tmp_path, "id,t,what,x\n1,0,HR,80\n1,2\n1,2,3,4,5\n")
    assert found.rejects.to_pylist() == [{"file": "t.csv", "line": n, "line_class": "malformed"} for n in (3, 4)]
    assert column(found, "n_malformed") == [0]
    lines = summarise(found).classes.set_index("line_class")["lines"]
    assert (lines["malformed"], lines["reading"]) == (2, 1)
    write_cohort(found, tmp_path / "kept")
    again = read_cohort(tmp_path / "kept")
    assert (again.unread, same(found, again)) == (2, True)


# The stream ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_the_two_goes_of_a_stream_are_all_of_it_however_it_is_cut(chunk, ends, monkeypatch):
    monkeypatch.setattr(text, "_CHUNK", chunk)
    body = f"h{ends}a,b{ends}{ends}cä,d{ends}"
    rest = f'e,"f{ends}g",h{ends}i,"j"'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1"):
        lines = Lines(io.BytesIO((body + rest).encode(encoding)), encoding)
        lines.skip(1)
        lines.stop_at_a_quote()
        assert lines.more()
        assert lines.read().decode().strip("\r\n") == f"a,b{ends}{ends}cä,d"
        assert not lines.more()
        lines.go_on()
        assert lines.read().decode().lstrip("\r\n") == rest
        assert lines.count == 5


def test_a_text_is_read_the_same_whatever_the_size_of_blocks_and_wherever_its_first_quote_is(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    rows = [(i, i % 40, rng.choice(["", "a, b", "c\nd", 'e "f"']) if i > 700 else "", "HR", 60) for i in range(1500)]
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([HEAD.strip().split(","), *rows])
    file = TableFile(tmp_path / "t.csv", "t.csv", ".csv")
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(text, "_CHUNK", 100)
    reader = TableReader(file)
    blocks = list(reader.blocks(["id", "note"]))
    assert np.concatenate([b.row for b in blocks]).tolist() == list(range(2, 1502))
    assert [v for b in blocks for v in b.columns["note"].to_pylist()] == [row[2] for row in rows]
    assert reader.within_fields == sum("\n" in row[2] for row in rows)


# Ids -----------------------------------------------------------------------------------------------------------------


def test_an_id_that_pandas_wrote_as_a_float_is_the_whole_number(tmp_path):
    head = LONG.replace('record = "id"', 'record = "id"\nsubject = "who"')
    (tmp_path / "t.csv").write_text("id,who,t,what,x\n7,5.0,0,HR,80\n7.0,5,1,HR,81\n20000156.0,5,0,HR,82\n")
    (tmp_path / "m.toml").write_text(head + VARIABLES)
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert column(found, "record_id") == [7, 20000156]
    assert column(found, "file") == ["7", "20000156"]
    assert column(found, "subject_id") == [5, 5]
    assert readings(found) == [("20000156", 0, 82), ("7", 0, 80), ("7", 1, 81)]


def test_only_a_whole_number_loses_its_point_and_codes_keep_theirs(tmp_path):
    found = read(tmp_path, "id,t,what,x\n7.5,0,HR,80\n07.0,0,HR,80\na.0,0,7.0,80\n")
    assert sorted(column(found, "file")) == ["07.0", "7.5", "a.0"]
    assert words(pa.array(["7.0"])).words == ["7.0", ""]


# Decimals ------------------------------------------------------------------------------------------------------------


def test_a_decimal_comma_is_read_where_the_mapping_says_so_and_told_of_where_it_does_not(tmp_path):
    rows = "id;t;what;x\n1;0;tc;37,5\n1;1,5;HR;80\n1;2;HR;1.234\n1;3;HR;n,a\n1;4;HR;12,000\n"
    found = read(tmp_path, rows, 'delimiter = ";"\n')
    assert readings(found) == [("1", 2, 1.234)]
    assert found.notes == ("1 value not read, by the look numbers with a decimal comma: set decimal = ',' at the top",)
    found = read(tmp_path, rows, 'delimiter = ";"\ndecimal = ","\n')
    assert readings(found) == [("1", 0, 37.5), ("1", 1.5, 80), ("1", 4, 12)]
    assert counts(found)["not_a_number"] == 2


# Encodings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_a_text_in_another_encoding_is_what_it_is_in_utf_8(encoding, tmp_path):
    rows = "id,t,what,x\nMüller,0,HR,80\nMüller,1,Körper,81\n"
    found = read(tmp_path, gzip.compress(rows.encode(encoding)), f'encoding = "{encoding}"\n', "t.csv.gz")
    assert readings(found) == [("Müller", 0, 80)]
    assert "the one in t.csv.gz, row 3 (1)" in found.notes[0]


def test_a_wrong_encoding_is_an_error_that_says_what_to_set(tmp_path):
    rows = "id,t,what,x\nMüller,0,HR,80\n".encode("latin-1")
    with pytest.raises(CohortError, match=r't\.csv: cannot be read .* set encoding, for instance encoding = "cp1252"'):
        read(tmp_path, rows)
    with pytest.raises(CohortError, match=r"at the top encoding: is 'klingon', which Python does not know"):
        read(tmp_path, rows, 'encoding = "klingon"\n')


def test_a_form_says_by_default_what_texts_usually_are():
    assert Form() == Form(None, None, None, "utf-8")


# A table of facts ----------------------------------------------------------------------------------------------------

STATIC = '[static]\nsource = "facts.csv"\nrecord = "stay"\n'


def test_descriptors_may_stand_in_a_table_of_their_own(tmp_path):
    (tmp_path / "facts.csv").write_text("stay,Age,other\n1.0,70,x\n2,,y\n3,50,z\n3,60,z\n")
    rows = "id,t,what,x\n1,0,HR,80\n2,0,HR,81\n2,1,Age,33\n"
    found = read(tmp_path, rows, "")
    assert column(found, "age") == [None, 33]
    (tmp_path / "m.toml").write_text(LONG + VARIABLES + STATIC)
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert column(found, "age") == [70, 33]
    assert found.notes == ("2 values in facts.csv of records that have no row",)


def test_a_static_table_that_changes_is_read_again_and_one_without_descriptors_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("id,t,what,x\n1,0,HR,80\n")
    (tmp_path / "facts.csv").write_text("stay,Age\n1,70\n")
    (tmp_path / "m.toml").write_text(LONG + VARIABLES + STATIC)
    assert column(read_cohort(tmp_path / "m.toml"), "age") == [70]
    (tmp_path / "facts.csv").write_text("stay,Age\n1,71\n")
    assert column(read_cohort(tmp_path / "m.toml"), "age") == [71]
    (tmp_path / "facts.csv").write_text("stay,age\n1,71\n")
    with pytest.raises(CohortError, match=r"facts\.csv: has no column that a descriptor of .*m\.toml names"):
        read_cohort(tmp_path / "m.toml")
    (tmp_path / "facts.csv").unlink()
    with pytest.raises(CohortError, match=r"facts\.csv: no such file or folder"):
        read_cohort(tmp_path / "m.toml")


@pytest.mark.parametrize(("facts", "more"), [("facts.tsv", ""), ("facts.csv", 'delimiter = "\\t"\n')])
def test_a_static_table_may_have_a_delimiter_of_its_own(facts, more, tmp_path):
    (tmp_path / "t.csv").write_text("id;t;what;x\n1;0;HR;80\n")
    (tmp_path / facts).write_text("stay\tAge\n1\t70\n")
    static = STATIC.replace("facts.csv", facts) + more
    (tmp_path / "m.toml").write_text("delimiter = ';'\n" + LONG + VARIABLES + static)
    assert column(read_cohort(tmp_path / "m.toml", cache=False), "age") == [70]


@pytest.mark.parametrize(("said", "codec"), [("UTF_8", "utf-8-sig"), ("utf-16-le", "utf-16-le")])
def test_a_byte_order_mark_is_no_part_of_the_first_columns_name(said, codec, tmp_path):
    mark = "\ufeff" if codec == "utf-16-le" else ""
    (tmp_path / "t.csv").write_bytes(f"{mark}id,t,what,x\n1,0,HR,80\n".encode(codec))
    (tmp_path / "m.toml").write_text(f"encoding = '{said}'\n" + LONG + VARIABLES)
    assert counts(read_cohort(tmp_path / "m.toml", cache=False)) == {"reading": 1}
