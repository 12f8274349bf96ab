"""A cohort too large for memory is the same cohort: spilled, cached, opened again and cut into windows."""

from __future__ import annotations

import errno
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError, LevyscreenError
from levyscreen.records import assemble, parquet, physionet2012, spill, validate
from levyscreen.records.archives import RecordFile
from levyscreen.records.cache import cache_entries, clear_cache, read_cohort, write_cohort
from levyscreen.records.cohort import COLUMNS, LINE, Cohort, Judged, NumericLines, records_of
from levyscreen.records.parquet import StoredLines
from levyscreen.records.physionet2012 import read_parts
from levyscreen.records.spill import Spill, Spilled
from levyscreen.types import LineClass
from levyscreen.variables import PHYSIONET2012
from tests.records.record_files import HEAD, record, same, write_folder
from tests.records.test_physionet2012 import EVERY_CLASS

PAPER = PHYSIONET2012.without_ranges()


def texts() -> dict[str, str]:
    """Records of 0 to 40 readings; unreadable files, and second files of a record, among them."""
    draw = random.Random(0)
    lines = [[f"{h:02d}:{draw.randrange(60):02d},HR,{draw.randrange(320)}" for h in range(i % 41)] for i in range(90)]
    files = {f"{i}.txt": record(i, *of_record) for i, of_record in enumerate(lines, 100)}
    twins = {f"{i}b.txt": record(i, "00:07,HR,73", "00:09,pH,735") for i in range(100, 190, 7)}
    return {**files, **twins, "50.txt": record(50, *EVERY_CLASS), "60.txt": "x", "y.txt": f"{HEAD}00:07,HR,73\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "set", texts())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every cohort too large for memory, and its batches, row groups and windows small."""

    def shrink() -> None:
        monkeypatch.setattr(physionet2012, "BATCH_BYTES", 4000)
        monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
        for module in (spill, parquet):
            monkeypatch.setattr(module, "MEMORY_LINES", 200)
        for module in (assemble, validate):
            monkeypatch.setattr(module, "WINDOW_RECORDS", 10)

    return shrink


def check_parts(whole: Cohort, cohort: Cohort) -> None:
    """Every window of `cohort` is the same slice of `whole`, which is in memory."""
    for records in (1, 7, 64, len(whole), 1000):
        rows = 0
        for start, part in cohort.windows(records):
            assert start == rows
            rows += len(part)
            stop = min(start + records, len(whole))
            assert len(part) == stop - start
            assert part.records.equals(whole.records.slice(start, records))
            lines = slice(whole.offsets[start], whole.offsets[stop])
            assert np.array_equal(part.offsets, whole.offsets[start : stop + 1] - whole.offsets[start])
            assert all(np.array_equal(getattr(part, name), getattr(whole, name)[lines]) for name in COLUMNS)
            assert (part.fingerprint, part.notes, part.rejects.num_rows) == (whole.fingerprint, whole.notes, 0)
        assert rows == len(whole)


# The same cohort ----------------------------------------------------------------------------------------------------


def test_a_cohort_in_memory_is_cut_without_a_copy(folder: Path) -> None:
    cohort = read_cohort(folder, cache=False)
    assert isinstance(cohort.lines, NumericLines)
    check_parts(cohort, cohort)
    assert np.shares_memory(cohort.part(3, 9).value, cohort.lines.value)
    assert np.shares_memory(cohort.value, cohort.lines.value)


def test_a_part_is_counted_as_a_slice_is(folder: Path) -> None:
    cohort = read_cohort(folder, cache=False)
    rows = list(range(len(cohort)))
    for start, stop in ((0, 5), (3, 3), (9, 4), (-4, 10**6), (10**6, 10**7)):
        assert len(cohort.part(start, stop)) == len(rows[start:stop])
    with pytest.raises(ValueError, match="must not be zero"):
        next(cohort.windows(0))


def test_a_spilled_cohort_is_the_same_and_so_are_its_parts(folder: Path, small: Callable[[], None]) -> None:
    whole = read_cohort(folder, cache=False)
    small()
    cohort = read_cohort(folder, cache=False)
    assert isinstance(cohort.lines, Spilled)
    assert same(whole, cohort)
    assert (whole.fingerprint, whole.notes) == (cohort.fingerprint, cohort.notes)
    check_parts(whole, cohort)


def test_files_in_any_order_are_spilled_to_the_same_cohort(small: Callable[[], None]) -> None:
    files = [RecordFile(name, text.encode(), path=name) for name, text in texts().items()]
    whole = assemble.assemble(read_parts(files, PHYSIONET2012), "x", PHYSIONET2012)
    small()
    for seed in range(5):
        random.Random(seed).shuffle(files)
        cohort = assemble.assemble(read_parts(files, PHYSIONET2012), "x", PHYSIONET2012)
        assert same(whole, cohort)
        assert (whole.fingerprint, whole.notes) == (cohort.fingerprint, cohort.notes)
        check_parts(whole, cohort)


def test_a_cohort_is_cached_in_the_same_bytes_from_memory_and_from_a_spill(
    folder: Path, small: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    whole = read_cohort(folder)
    sums = (cache_entries()[0].folder / "B2SUMS").read_bytes()
    clear_cache()
    small()
    assert isinstance(read_cohort(folder).lines, Spilled)
    assert (cache_entries()[0].folder / "B2SUMS").read_bytes() == sums
    again = read_cohort(folder)
    assert isinstance(again.lines, StoredLines)
    assert same(whole, again)
    check_parts(whole, again)


def test_a_stored_cohort_can_be_written_anew(folder: Path, small: Callable[[], None], tmp_path: Path) -> None:
    small()
    read_cohort(folder)
    write_cohort(read_cohort(folder), tmp_path / "out")
    sums = [(where / "B2SUMS").read_bytes() for where in (tmp_path / "out", cache_entries()[0].folder)]
    assert sums[0] == sums[1]


def test_a_stored_cohort_is_judged_anew_as_it_is_read(folder: Path, small: Callable[[], None], tmp_path: Path) -> None:
    whole = read_cohort(folder, cache=False, variables=PAPER)
    write_cohort(read_cohort(folder, cache=False), tmp_path / "out")
    small()
    cohort = read_cohort(tmp_path / "out", variables=PAPER)
    assert isinstance(cohort.lines, Judged)
    assert cohort.records.equals(whole.records)
    assert cohort.fingerprint == whole.fingerprint
    check_parts(whole, cohort)


def test_whether_anything_was_rejected_is_of_the_ranges_that_judge_and_not_of_those_before(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "7.txt").write_text("Time,Parameter,Value\n00:00,RecordID,7\n00:05,HR,80\n00:10,HR,90\n")
    narrow = replace(PHYSIONET2012, variables=tuple(replace(v, high=85) for v in PHYSIONET2012.variables))
    for first, then, rejected in ((narrow, PHYSIONET2012, False), (PHYSIONET2012, narrow, True)):
        out = tmp_path / f"out-{rejected}"
        write_cohort(read_cohort(tmp_path / "set", cache=False, variables=first), out)
        anew = read_cohort(out, variables=then)
        assert read_cohort(out, variables=first).rejected != rejected
        assert anew.rejected == rejected
        assert anew.count(LineClass.IMPLAUSIBLE) == int(rejected)
        assert len(anew.rejects) == 0


def test_a_summary_is_the_same_of_a_cohort_on_disk(folder: Path, small: Callable[[], None]) -> None:
    plain = validate.summarise(read_cohort(folder, cache=False))
    small()
    streamed = validate.summarise(read_cohort(folder, cache=False))
    for name in ("classes", "variables", "records", "problems"):
        assert getattr(plain, name).equals(getattr(streamed, name)), name
    assert (plain.same_time, plain.notes) == (streamed.same_time, streamed.notes)


# What can go wrong --------------------------------------------------------------------------------------------------


def test_a_cohort_outlives_its_cache_entry(folder: Path, small: Callable[[], None]) -> None:
    small()
    whole = read_cohort(folder)
    cohort = read_cohort(folder)
    clear_cache()
    assert same(whole, cohort)


def test_a_changed_byte_of_a_stored_cohort_is_found_when_it_is_opened(folder: Path, small: Callable[[], None]) -> None:
    small()
    whole = read_cohort(folder)
    path = cache_entries()[0].folder / "readings.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    again = read_cohort(folder)
    assert again.notes[-1] == "the cached copy of this cohort was damaged; the files were read again"
    assert same(whole, again)


def test_a_byte_that_changes_once_it_is_open_is_found_when_it_is_read(folder: Path, small: Callable[[], None]) -> None:
    small()
    read_cohort(folder)
    cohort = read_cohort(folder)
    path = cache_entries()[0].folder / "readings.parquet"
    values = pq.read_metadata(path).row_group(2).column(3)
    place = values.dictionary_page_offset + values.total_compressed_size - 2
    with open(path, "r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 4]))
    assert len(cohort.part(0, 2)) == 2
    with pytest.raises(CohortError, match="damaged, or of another version"):
        cohort.load()


def test_a_spill_that_finds_no_room_is_an_error(
    folder: Path, small: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    small()
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(LevyscreenError, match="folder for temporary files: No space left on device; TMPDIR names"):
        read_cohort(folder, cache=False)


def test_a_spill_that_is_cut_short_is_an_error(folder: Path, small: Callable[[], None]) -> None:
    small()
    cohort = read_cohort(folder, cache=False)
    assert isinstance(cohort.lines, Spilled)
    cohort.lines.file._file.truncate(1000)
    with pytest.raises(CohortError, match="the temporary file of a large cohort cannot be read: cut short"):
        cohort.load()


# Memory -------------------------------------------------------------------------------------------------------------


def test_no_more_than_a_window_of_lines_is_held_at_a_time(folder: Path, small: Callable[[], None]) -> None:
    """Writing asks for a row group, a window for its own lines."""
    asked: list[int] = []

    class Counting(NumericLines):
        def read(self, start: int, stop: int) -> NumericLines:
            asked.append(stop - start)
            return super().read(start, stop)

    small()
    whole = read_cohort(folder, cache=False)
    cohort = Cohort(**{**vars(whole), "lines": Counting(**vars(whole.load()))})
    parquet.write_files(cohort, folder)
    assert sum(asked) == whole.offsets[-1]
    assert max(asked) == parquet.ROW_GROUP_ROWS
    asked.clear()
    assert [len(part) for _, part in cohort.windows(5)][:-1] == [5] * (len(whole) // 5)
    assert max(asked) == np.diff(whole.offsets[::5]).max()


def test_a_spill_lets_go_of_what_it_has_written(small: Callable[[], None]) -> None:
    held = Spill()
    small()
    for _ in range(9):
        held.add(NumericLines.empty(spill.MEMORY_LINES // 2 + 1))
        assert sum(map(len, held._waiting)) <= spill.MEMORY_LINES


# Pieces -------------------------------------------------------------------------------------------------------------


def test_the_records_of_some_lines_are_found_as_a_loop_finds_them() -> None:
    offsets = np.array([0, 0, 3, 3, 3, 5, 9, 9])
    record = np.repeat(np.arange(7), np.diff(offsets))
    for start in range(10):
        for stop in range(start, 10):
            first, lengths = records_of(offsets, start, stop)
            assert np.repeat(np.arange(first, first + len(lengths)), lengths).tolist() == record[start:stop].tolist()


def test_a_packed_line_has_a_column_for_each_field_of_numeric_lines() -> None:
    assert list(NumericLines.__dataclass_fields__) == list(COLUMNS)
    assert parquet.READINGS.names == ["record", *COLUMNS]
    assert LINE.itemsize == 15
