"""Somebody's own tables become the cohort that the mapping says, whatever the order and the layout of their rows."""

from __future__ import annotations

import csv
import gzip
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records import cache
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped import buckets, tables
from levyscreen.records.mapped.mapping import read_mapping
from levyscreen.records.mapped.tables import passed_over
from tests.conftest import SAMPLE
from tests.records.mapped.small_table import LONG, by_name, column, written
from tests.records.mapped_files import slow_long, write_dyn, write_long, write_meds, write_psv
from tests.records.record_files import accounts, counts, same

# The same records in every layout -----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_long, write_psv, write_dyn, write_meds])
def test_the_same_records_in_any_layout_are_the_same_readings_by_the_first_mapping(
    write, sample_files, sample, tmp_path
):
    if write is write_meds:
        pytest.importorskip("meds", reason="the extra meds is not installed")
    source = write(sample_files, tmp_path / {write_long: "t.csv", write_dyn: "t.parquet"}.get(write, "t"))
    (tmp_path / "m.toml").write_text(draft(guess(source), tmp_path))
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert by_name(found) == by_name(sample)
    for fact in ("record_id", "age", "gender", "height", "icu_type", "weight"):
        assert column(found, fact) == column(sample, fact), fact


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
        (('"what"', '"waht"'), r"t\.csv: has no column 'waht'; the nearest name is that of its column 3"),
        (("t.csv", "empty"), r"empty: no table there; a source is"),
        (("t.csv", "mixed"), r"mixed: holds \.csv and \.parquet files: put the tables of one kind"),
        (("t.csv", "twice"), r"twice: holds a\.csv twice, once packed as a\.csv\.gz: take one of them away"),
        (("t.csv", "bad.parquet"), r"bad\.parquet: cannot be read as a \.parquet table"),
    ],
)
def test_a_source_that_is_not_as_the_mapping_says_is_an_error_that_names_it(change, message, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "twice").mkdir()
    for name in ("twice/a.csv", "twice/a.csv.gz", "mixed/a.csv", "mixed/b.parquet", "bad.parquet"):
        (tmp_path / name).write_text("no")
    path = written(tmp_path, [("id", "t", "what", "x"), (1, 0, "HR", 80)], LONG.replace(*change))
    with pytest.raises(CohortError, match=message):
        read_cohort(path, cache=False)


def test_a_parquet_table_with_a_column_twice_is_refused_by_name(tmp_path):
    path = written(tmp_path, [], LONG.replace("t.csv", "t.parquet"))
    columns = [pa.array(values) for values in ([1], [0.0], ["HR"], [80.0], [999.0])]
    pq.write_table(pa.Table.from_arrays(columns, ["id", "t", "what", "x", "x"]), tmp_path / "t.parquet")
    with pytest.raises(CohortError, match=r"t\.parquet: its columns 4 and 5 have one name: rename one of them"):
        read_cohort(path, cache=False)


def test_a_number_that_no_float_holds_is_rounded_and_read(tmp_path):
    path = written(tmp_path, [], LONG.replace("t.csv", "t.parquet"))
    columns = [pa.array(values) for values in ([1, 1], [0.0, 1.0], ["HR", "HR"], [80, 2**53 + 1])]
    pq.write_table(pa.Table.from_arrays(columns, ["id", "t", "what", "x"]), tmp_path / "t.parquet")
    found = read_cohort(path, cache=False)
    assert found.value.tolist() == [80.0, 2.0**53]
    pq.write_table(pa.table({"id": [1, 1], "time": [0.0, 1.0], "HR": [80, 2**53 + 1]}), tmp_path / "wide.parquet")
    assert guess(tmp_path / "wide.parquet").roles.kind == "wide"


def test_what_a_folder_of_tables_holds_besides_is_counted_and_named(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("a.csv", "b.csv.gz", "m.toml", ".hidden"):
        (folder / name).touch()
    assert passed_over(folder, "long") is None
    (folder / "c.csv.bz2").touch()
    (folder / "year=2021").mkdir()
    assert passed_over(folder, "long").startswith("2 of what is in parts not read, such as c.csv.bz2: tables are .csv")
    assert passed_over(folder, "meds") is None
    assert passed_over(folder / "a.csv", "long") is None


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


# What exporters do --------------------------------------------------------------------------------------------------


def test_a_column_of_an_extension_type_is_what_it_is_stored_as(tmp_path):
    who = uuid.UUID(int=7)
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([who.bytes] * 2, pa.binary(16)))
    what = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["HR", "tc"]))
    table = pa.table({"id": ids, "t": [0.0, 1.0], "what": what, "x": [80.0, 36.5]})
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_cohort(written(tmp_path, [], LONG.replace("t.csv", "t.parquet")), cache=False)
    assert column(found, "file") == [str(who)]
    assert counts(found) == {"reading": 2}
    more = pa.table({"id": [1] * 60, "hours": [float(i) for i in range(60)], "HR": [80.0] * 60})
    more = more.append_column(
        "row", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([who.bytes] * 60, pa.binary(16)))
    )
    pq.write_table(more, tmp_path / "wide.parquet")
    assert set(guess(tmp_path / "wide.parquet").variables) == {"HR"}


def test_a_table_whose_first_column_is_of_lists_is_guessed_at_all_the_same(tmp_path):
    table = pa.table(
        {"tags": [[1, 2]] * 60, "bed": [1] * 60, "hours": [float(i) for i in range(60)], "HR": [80.0] * 60}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    assert guess(tmp_path / "t.parquet").roles.record == "bed"


def test_columns_without_a_name_are_each_counted(tmp_path):
    head = 'kind = "wide"\nsource = "t.csv"\n[columns]\nrecord = "id"\ntime = "t"\n[time]\nunit = "hours"\n'
    found = read_cohort(written(tmp_path, [["id", "t", "HR", "", ""], [1, 0, 80, 5, 6]], head), cache=False)
    assert counts(found) == {"reading": 1, "blank_parameter": 1, "unknown_parameter": 1}


@pytest.mark.parametrize("names", [("train/0.parquet", "test/0.parquet"), ("7.csv", "7.CSV")])
def test_two_files_that_would_be_one_record_by_their_names_are_an_error(names, tmp_path):
    meds = names[0].endswith("parquet")
    root = tmp_path / "tables" / ("data" if meds else "")
    table = pa.table({"subject_id": [1], "t": [0.0], "what": ["HR"], "x": [80.0]})
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (pq.write_table if meds else pa.csv.write_csv)(table, root / name)
    head = LONG.replace('"t.csv"', '"tables"').replace('kind = "long"', f'kind = "{"meds" if meds else "long"}"')
    with pytest.raises(CohortError, match=r"would be one record by their names: rename one of them"):
        read_cohort(written(tmp_path, [], head.replace('"id"', '"@file"')), cache=False)


def test_a_text_about_the_data_is_no_table_of_theirs(tmp_path):
    write_long(SAMPLE, tmp_path / "own" / "t.csv")
    for name in ("LICENSE.txt", "SHA256SUMS.txt"):
        (tmp_path / "own" / name).write_text("words")
    (tmp_path / "own" / "data").mkdir()
    (tmp_path / "m.toml").write_text(draft(guess(tmp_path / "own"), tmp_path))
    assert accounts(read_cohort(tmp_path / "m.toml", cache=False))
    assert passed_over(tmp_path / "own", "long").startswith("3 of what is in own not read, such as LICENSE.txt")
    with pytest.raises(CohortError, match=r"own: a table needs a mapping"):
        read_cohort(tmp_path / "own")
