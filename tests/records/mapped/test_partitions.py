"""Tables in parts: partitions whose folders say a column, and chunks of an export that have not the same columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.drafted.draft import draft
from levyscreen.records.drafted.guess import guess
from levyscreen.records.mapped.tables import is_table, passed_over, table_files
from tests.records.mapped.small_table import LONG, by_name, column, written

PARTS = LONG.replace('"t.csv"', '"parts"')


def rows(count=300, seed=1):
    """A long table of three records; its variables' values are all plausible."""
    rng = np.random.default_rng(seed)
    what = rng.choice(["HR", "tc"], count)
    value = np.where(what == "HR", rng.integers(50, 120, count), 36.5)
    return pd.DataFrame({"id": rng.choice([4, 5, 6], count), "t": rng.integers(0, 48, count), "what": what, "x": value})


def expected(table):
    """Its readings, as by_name has them."""
    names = table["what"].map({"HR": "HR", "tc": "Temp"})
    return sorted(zip(table["id"], table["t"].astype(float), names, table["x"], strict=True))


@pytest.mark.parametrize("by", [["id"], ["what"], ["id", "what"]])
def test_partitions_are_the_table_that_pandas_has_written(by, tmp_path):
    table = rows()
    table.to_parquet(tmp_path / "parts", partition_cols=by)
    assert is_table(tmp_path / "parts")
    found = read_cohort(written(tmp_path, [], PARTS), cache=False)
    assert [line[:4] for line in by_name(found)] == expected(table)
    assert passed_over(tmp_path / "parts", "long") is None


def test_folders_may_say_what_a_path_cannot_and_nothing(tmp_path):
    for name, who in (("id=a%2Fb", "0"), ("id=__HIVE_DEFAULT_PARTITION__", "1"), ("_temporary", "2"), (".id=c", "3")):
        (tmp_path / "parts" / name).mkdir(parents=True)
        pd.DataFrame({"t": [0], "what": ["HR"], "x": [70 + int(who)]}).to_csv(
            tmp_path / "parts" / name / f"{who}.csv", index=False
        )
    (tmp_path / "parts" / "_SUCCESS").touch()
    found = read_cohort(written(tmp_path, [], PARTS), cache=False)
    assert column(found, "file") == ["a/b"]
    assert [line[2:4] for line in by_name(found)] == [("HR", 70.0)]
    assert [note for note in found.notes if "name no record" in note] == [
        "1 value in rows that name no record, and so of nobody"
    ]


def test_a_column_of_the_file_itself_goes_before_what_its_folder_says(tmp_path):
    (tmp_path / "parts" / "id=9").mkdir(parents=True)
    rows().to_parquet(tmp_path / "parts" / "id=9" / "a.parquet")
    found = read_cohort(written(tmp_path, [], PARTS), cache=False)
    assert column(found, "file") == ["4", "5", "6"]


def test_map_drafts_a_partitioned_table(tmp_path):
    table = rows().rename(columns={"id": "stay_id", "t": "hours", "what": "variable", "x": "value"})
    table["variable"] = table["variable"].map({"HR": "heart rate", "tc": "temperature"})
    table.to_parquet(tmp_path / "parts", partition_cols=["stay_id"])
    (tmp_path / "m.toml").write_text(draft(guess(tmp_path / "parts"), tmp_path))
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert column(found, "record_id") == [4, 5, 6]
    assert [line[2:4] for line in by_name(found)] == [line[2:] for line in expected(rows())]


# Chunks -------------------------------------------------------------------------------------------------------------

UNITS = PARTS.replace('value = "x"', 'value = "x"\nunit = "uom"\nsubject = "who"')


def chunks(folder, tables):
    (folder / "parts").mkdir()
    for i, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / "parts" / f"part-{i}.parquet")


def test_chunks_that_lack_a_column_are_read_and_counted(tmp_path):
    plain = {"id": [1, 2], "t": [0, 1], "what": ["HR", "HR"], "x": [80, 81]}
    told = plain | {"t": [2, 3], "uom": ["bpm", "Hz"], "who": [7, 8]}
    empty = plain | {"t": pa.nulls(2), "uom": pa.nulls(2), "who": pa.nulls(2)}
    chunks(tmp_path, [plain, told, empty, plain | {"t": [4.5, 5.5]}])
    rule = '[variables.HR]\nunits = ["bpm", ""]\n'
    path = written(tmp_path, [], UNITS)
    path.write_text(path.read_text().replace("[variables.HR]\n", rule))
    found = read_cohort(path, cache=False)
    assert [line[:4] for line in by_name(found)] == [
        (1, 0.0, "HR", 80.0),
        (1, 2.0, "HR", 80.0),
        (1, 4.5, "HR", 80.0),
        (2, 1.0, "HR", 81.0),
        (2, 5.5, "HR", 81.0),
    ]
    assert column(found, "subject_id") == [7, 8]
    assert column(found, "n_bad_time") == [1, 1]
    assert column(found, "n_unknown_parameter") == [0, 1]  # in Hz, of which no rule is
    assert list(found.notes)[:2] == [
        "2 of 4 files lack the column 'who', the first is part-0.parquet: nothing is in it there",
        "2 of 4 files lack the column 'uom', the first is part-0.parquet: nothing is in it there",
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_a_column_that_all_files_lack_is_an_error_and_so_is_one_that_every_reading_needs(count, tmp_path):
    plain = {"id": [1], "t": [0], "what": ["HR"], "x": [80]}
    chunks(tmp_path, [plain] * count)
    with pytest.raises(CohortError, match=r"part-0\.parquet: has no column 'uom'|part-0\.parquet: has no column 'who'"):
        read_cohort(written(tmp_path, [], UNITS), cache=False)
    pq.write_table(pa.table({"id": [1], "what": ["HR"], "x": [80]}), tmp_path / "parts" / "part-9.parquet")
    with pytest.raises(CohortError, match=r"part-9\.parquet: has no column 't'"):
        read_cohort(written(tmp_path, [], PARTS), cache=False)


def test_map_sees_the_columns_of_all_chunks_and_their_readings_are_those_of_one_table(tmp_path):
    wide = pd.DataFrame({"stay_id": np.repeat([1, 2], 50), "hours": np.tile(np.arange(50.0) * 0.9, 2)})
    first, second = wide.assign(hr=80.0), wide.assign(temp=36.5)
    (tmp_path / "parts").mkdir()
    first.to_parquet(tmp_path / "parts" / "chunk_1.parquet")
    second.to_parquet(tmp_path / "parts" / "chunk_2.parquet")
    pd.concat([first, second]).to_parquet(tmp_path / "one.parquet")
    for name in ("parts", "one.parquet"):
        (tmp_path / f"{name}.toml").write_text(draft(guess(tmp_path / name), tmp_path))
    parts, one = (read_cohort(tmp_path / f"{name}.toml", cache=False) for name in ("parts", "one.parquet"))
    assert by_name(parts) == by_name(one)
    assert sum(column(parts, "n_reading")) == 200
    assert len(table_files(tmp_path / "parts", "wide")) == 2
