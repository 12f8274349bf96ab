"""The USHCN file as a cohort: its counts, its negatives, and which line is wrong in a file that is."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from levyscreen.config import PAPER, PROTOCOLS
from levyscreen.errors import CohortError
from levyscreen.learn.data import prepare
from levyscreen.records.assemble import table_digest
from levyscreen.records.batches import Batcher
from levyscreen.records.cache import write_cohort
from levyscreen.records.parquet import read_parquet
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.records.ushcn import COLUMNS, read_ushcn
from levyscreen.types import LineClass
from levyscreen.variables import PHYSIONET2012, USHCN, VariableSet

HEADER = ",".join(COLUMNS)
ROWS = [
    "3.0,0.0,-0.3,0.0,0.0,1.5,0.0,1.0,0.0,0.0,1.0,0.0",
    "3.0,0.4,0.0,0.0,0.0,0.0,-2.5,0.0,0.0,0.0,0.0,1.0",
    "3.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0",
    "5.0,0.2,0.0,0.1,0.2,0.0,0.0,0.0,1.0,1.0,0.0,0.0",
    "5.0,200.0,4.0,0.0,0.0,0.0,0.0,1.0,0.0,0.0,0.0,0.0",
]


def written(folder, rows, header=HEADER):
    path = folder / "series.csv.gz"
    path.write_bytes(gzip.compress("\n".join([header, *rows, ""]).encode()))
    return path


@pytest.fixture(scope="module")
def whole():
    """The file that was rebuilt after the published recipe."""
    root, name = Path(__file__).parents[2], "data/ushcn/small_chunked_sporadic_rebuilt.csv.gz"
    for place in (root / "shared", root.parent / "shared"):
        if (place / name).is_file():
            return read_ushcn(place / name)
    pytest.skip(f"{Path(name).name} is not in shared/data/ushcn")


def test_each_observed_value_is_a_line_and_each_series_a_record(tmp_path):
    cohort = read_ushcn(written(tmp_path, ROWS))
    assert cohort.name == "USHCN, rebuilt"
    assert cohort.records.column("record_id").to_pylist() == [3, 5]
    assert cohort.records.column("n_reading").to_pylist() == cohort.records.column("n_lines").to_pylist() == [3, 3]
    assert cohort.offsets.tolist() == [0, 3, 6]
    names = [USHCN.names[v] for v in cohort.variable]
    lines = list(zip(cohort.time_hours.tolist(), names, cohort.value.tolist(), strict=True))
    assert lines == [
        (0.0, "PRCP", -0.3),
        (0.0, "TMAX", 1.5),
        (np.float32(0.4), "TMIN", -2.5),
        (np.float32(0.2), "SNOW", 0.1),
        (np.float32(0.2), "SNWD", 0.2),
        (200.0, "PRCP", 4.0),
    ]


def test_a_plain_file_is_read_as_a_packed_one(tmp_path):
    packed = written(tmp_path, ROWS)
    plain = tmp_path / "series.csv"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    one, other = read_ushcn(packed), read_ushcn(plain)
    assert one.fingerprint == other.fingerprint
    assert np.array_equal(one.value, other.value)


def test_the_line_ends_of_another_system_change_nothing(tmp_path):
    path = tmp_path / "series.csv"
    for end in ("\r\n", "\r"):
        path.write_bytes(end.join([HEADER, *ROWS, ""]).encode())
        assert np.array_equal(read_ushcn(path).value, read_ushcn(written(tmp_path, ROWS)).value)


def test_a_file_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("levyscreen.records.ushcn.MAX_BYTES", 1 << 20)
    (tmp_path / "series.csv.gz").write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(CohortError, match=r"series\.csv\.gz holds more than 1 MiB: give a USHCN file"):
        read_ushcn(tmp_path / "series.csv.gz")


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_negative_values_are_readings_and_time_runs_from_0_to_1(tmp_path, protocol):
    cohort = read_ushcn(written(tmp_path, ROWS))
    assert set(cohort.line_class) == {LineClass.READING}
    variables = USHCN if protocol.name == "ours" else USHCN.without_ranges()
    readings = Preprocessor(variables, protocol, (0.0,) * 5, (1.0,) * 5).apply(cohort)
    assert readings.value.tolist() == pytest.approx([-0.3, 1.5, -2.5, 0.1, 0.2, 4.0])
    assert readings.time.tolist() == pytest.approx([0, 0, 0.002, 0.001, 0.001, 1])
    batch = Batcher(readings, np.array([True, False, False, False, False, True])).batch(np.arange(2))
    assert batch.query_time.tolist() == [[0.0], [1.0]]
    assert batch.target.tolist() == [[np.float32(-0.3)], [4.0]]


def test_a_set_with_negatives_survives_json_and_one_without_is_written_as_ever():
    assert VariableSet.from_json(json.loads(json.dumps(USHCN.to_json()))) == USHCN
    assert USHCN.without_ranges().negatives
    assert PHYSIONET2012.to_json().keys() == {"name", "version", "horizon_hours", "variables"}
    assert table_digest(PHYSIONET2012) == "9a4aea19f5b840aa"  # part of the shipped models' cohort fingerprint
    assert table_digest(USHCN) != table_digest(replace(USHCN, negatives=False))


def test_it_survives_parquet(tmp_path):
    cohort = read_ushcn(written(tmp_path, ROWS))
    write_cohort(cohort, tmp_path / "kept")
    again = read_parquet(tmp_path / "kept", USHCN)
    assert again.records.equals(cohort.records)
    assert np.array_equal(again.value, cohort.value)


def edited(row, cell, text):
    cells = ROWS[row].split(",")
    cells[cell] = text
    return [*ROWS[:row], ",".join(cells), *ROWS[row + 1 :]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (edited(1, 6, "nan"), "line 3: Value_4 is not a finite number; write what was not observed as 0"),
        (edited(1, 6, ""), "line 3: Value_4 is not a finite number"),
        (edited(4, 2, "inf"), "line 6: Value_0 is not a finite number"),
        (edited(1, 3, "1e30"), r"line 3: a value is beyond 1e\+15; write what was not observed as 0 with mask 0"),
        (edited(1, 3, "7_3"), "line 3: Value_1 is not a finite number"),
        (edited(0, 0, "-1e308"), "line 2: the ID is not a whole number from 0 on"),
        (edited(4, 1, "1e308"), r"line 6: the time is outside \[0, 200\]"),
        (edited(3, 1, "noon"), "line 5: Time is not a finite number"),
        (edited(3, 7, "yes"), "line 5: Mask_0 is not a finite number"),
        ([*ROWS[:2], "3.0,0.5", *ROWS[2:]], "line 4 has 2 cells, not 12: mend or delete it"),
        ([*ROWS[:2], "", *ROWS[2:]], "line 4 has 1 cells, not 12: mend or delete it"),
        (edited(2, 0, "3.5"), "line 4: the ID is not a whole number from 0 on; number the series"),
        (edited(0, 0, "-1"), "line 2: the ID is not a whole number from 0 on"),
        (edited(4, 1, "200.1"), r"line 6: the time is outside \[0, 200\]; scale the times to that"),
        (edited(0, 8, "0.5"), "line 2: a mask is neither 0 nor 1; write 1 where the value was observed"),
        (edited(2, 1, "0.3"), "line 4: it comes after a later row; sort the rows by ID, then Time"),
        ([*ROWS[3:], *ROWS[:3]], "line 4: it comes after a later row; sort the rows by ID, then Time"),
        (edited(2, 1, "0.4"), "line 4: ID and Time are those of the line before; merge the two into one row"),
        ([], "no rows below its header: give a USHCN file"),
    ],
)
def test_a_bad_row_is_refused_by_file_line_and_remedy(tmp_path, rows, message):
    with pytest.raises(CohortError, match=rf"series\.csv\.gz.*{message}"):
        read_ushcn(written(tmp_path, rows))


@pytest.mark.parametrize("header", ["ID,Time,Value_0,Mask_0", f"{HEADER},Extra", "", "\ufeff2,1"])
def test_other_columns_are_refused_with_those_it_wants(tmp_path, header):
    with pytest.raises(CohortError, match=r"series\.csv\.gz, line 1 must be ID,Time,Value_0,.*,Mask_4, and is not"):
        read_ushcn(written(tmp_path, ROWS, header))


def test_a_file_that_is_absent_or_cut_off_is_refused_by_name(tmp_path):
    with pytest.raises(CohortError, match=r"nothing\.csv cannot be read"):
        read_ushcn(tmp_path / "nothing.csv")
    path = written(tmp_path, ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CohortError, match=r"series\.csv\.gz cannot be read: .*give a whole"):
        read_ushcn(path)


def test_the_rebuilt_file_has_1101_series_and_381913_values_at_346680_times(whole):
    assert (len(whole), int(whole.offsets[-1])) == (1101, 381_913)
    series = np.repeat(np.arange(len(whole)), np.diff(whole.offsets))
    assert len(np.unique(np.stack([series, whole.time_hours]), axis=1).T) == 346_680
    assert set(whole.line_class) == {LineClass.READING}
    assert (whole.value < 0).sum() > 100_000
    assert (whole.time_hours.min(), whole.time_hours.max()) == (0, 200)


def test_the_rebuilt_file_is_split_and_scaled_under_the_papers_protocol(whole):
    data = prepare(whole, PAPER, 0)
    assert [len(rows) for rows in vars(data.split).values()] == [770, 165, 165]  # one series has under 20 readings
    assert data.preprocessor.mean == pytest.approx([0] * 5, abs=0.1)
    assert data.preprocessor.scale == pytest.approx([1] * 5, abs=0.1)
    assert (data.readings.time.min(), data.readings.time.max()) == (0, 1)
