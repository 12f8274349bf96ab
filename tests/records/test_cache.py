from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from levyscreen.errors import CohortError, LevyscreenError, UsageError
from levyscreen.records import cache, parquet
from levyscreen.records.archives import open_source
from levyscreen.records.cache import cache_entries, cache_folder, cache_key, clear_cache, read_cohort, write_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.variables import PHYSIONET2012
from tests.records.record_files import record, same, write_folder
from tests.records.test_physionet2012 import EVERY_CLASS

PAPER = PHYSIONET2012.without_ranges()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    many = {f"{i}.txt": record(i, *(f"{h:02d}:07,HR,{70 + (h * i) % 9}" for h in range(48))) for i in range(20, 40)}
    return write_folder(tmp_path / "set", {"7.txt": record(7, *EVERY_CLASS), "8.txt": "x", **many})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a cohort's name whenever record files, and not the cache, are read."""
    names: list[str] = []
    read = cache._read

    def counted(source: cache.Source, variables: cache.VariableSet) -> Cohort:
        names.append(source.name)
        return read(source, variables)

    monkeypatch.setattr(cache, "_read", counted)
    return names


def everything(cohort: Cohort) -> tuple[object, ...]:
    return cohort.name, cohort.fingerprint, cohort.variables, cohort.notes


# What is kept -------------------------------------------------------------------------------------------------------


def test_a_second_reading_comes_from_the_cache_and_is_the_same(folder: Path, reads: list[str]) -> None:
    first, second = read_cohort(folder), read_cohort(folder)
    assert reads == ["set"]
    assert same(first, second)
    assert everything(first) == everything(second)
    assert second.time_hours.flags.writeable


def test_without_cache_nothing_is_looked_up_or_kept(folder: Path, reads: list[str]) -> None:
    read_cohort(folder, cache=False)
    read_cohort(folder, cache=False)
    assert len(reads) == 2
    assert not list(cache_folder().iterdir())


def test_entries_are_for_their_owner_alone(folder: Path) -> None:
    read_cohort(folder)
    modes = {p.stat().st_mode & 0o777 for p in cache_folder().rglob("*") if p.is_file()}
    assert modes == {0o600}
    assert {p.stat().st_mode & 0o777 for p in cache_folder().rglob("*") if p.is_dir()} == {0o700}


def test_the_cache_stands_in_the_users_own_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEVYSCREEN_CACHE_DIR")
    assert cache_folder().name == "levyscreen"


def test_a_moved_cohort_is_found_again_under_its_new_name(folder: Path, reads: list[str]) -> None:
    read_cohort(folder)
    moved = folder.rename(folder.with_name("other"))
    assert read_cohort(moved).name == "other"
    assert reads == ["set"]


# What makes it read again -------------------------------------------------------------------------------------------


def edit(folder: Path) -> None:
    (folder / "7.txt").write_text(record(7, "00:07,HR,74"))


def edit_and_hide_it(folder: Path) -> None:
    """The same size and the same modification time."""
    times = (folder / "7.txt").stat()
    (folder / "7.txt").write_text((folder / "7.txt").read_text().replace("HR,73", "HR,74"))
    os.utime(folder / "7.txt", ns=(times.st_atime_ns, times.st_mtime_ns))


def rename(folder: Path) -> None:
    (folder / "7.txt").rename(folder / "9.txt")


def add(folder: Path) -> None:
    (folder / "9.txt").write_text(record(9))


def remove(folder: Path) -> None:
    (folder / "7.txt").unlink()


@pytest.mark.parametrize("change", [edit, edit_and_hide_it, rename, add, remove])
def test_any_change_of_the_source_is_seen(folder: Path, reads: list[str], change: object) -> None:
    before = read_cohort(folder)
    change(folder)  # type: ignore[operator]
    after = read_cohort(folder)
    assert len(reads) == 2
    assert after.fingerprint != before.fingerprint
    assert same(after, read_cohort(folder, cache=False))


def test_an_edit_at_once_after_reading_is_seen_every_time(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "set", {"7.txt": record(7)})
    for value in range(10, 40):
        (folder / "7.txt").write_text(record(7, f"00:07,HR,{value}"))
        assert read_cohort(folder).value.tolist() == [value]


def test_another_variable_table_has_an_entry_of_its_own(folder: Path, reads: list[str]) -> None:
    ours, paper = read_cohort(folder), read_cohort(folder, variables=PAPER)
    assert len(reads) == 2
    assert ours.fingerprint.split("-")[0] == paper.fingerprint.split("-")[0]
    assert ours.fingerprint != paper.fingerprint
    assert len(cache_entries()) == 2


# Damage -------------------------------------------------------------------------------------------------------------


def entry() -> Path:
    return cache_entries()[0].folder


@pytest.mark.parametrize("name", ["readings.parquet", "records.parquet", "rejects.parquet", "B2SUMS"])
def test_a_damaged_entry_is_read_again_and_said(folder: Path, reads: list[str], name: str) -> None:
    first = read_cohort(folder)
    data = bytearray((entry() / name).read_bytes())
    data[len(data) // 2] ^= 4
    (entry() / name).write_bytes(data)
    second = read_cohort(folder)
    assert len(reads) == 2
    assert same(first, second)
    assert second.notes[-1] == "the cached copy of this cohort was damaged; the files were read again"
    assert read_cohort(folder).notes == first.notes
    assert len(reads) == 2


def test_an_entry_that_lacks_a_file_is_read_again(folder: Path, reads: list[str]) -> None:
    first = read_cohort(folder)
    (entry() / "B2SUMS").unlink()
    assert same(first, read_cohort(folder))
    assert len(reads) == 2


def test_no_flipped_bit_is_silent(folder: Path) -> None:
    """The contract's thousand flips, over all files by their size, footers included."""
    read_cohort(folder)
    where, draw = entry(), random.Random(0)
    files = {p: p.read_bytes() for p in sorted(where.iterdir())}
    for path in draw.choices(list(files), [len(data) for data in files.values()], k=1000):
        data = bytearray(files[path])
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        with pytest.raises(CohortError, match="damaged, or of another version"):
            parquet.read_parquet(where, PHYSIONET2012)
        path.write_bytes(files[path])
    parquet.read_parquet(where, PHYSIONET2012)


def test_page_checksums_are_written(folder: Path) -> None:
    """They tell of damage even where B2SUMS was made anew after it."""
    read_cohort(folder)
    path = entry() / "readings.parquet"
    data = bytearray(path.read_bytes())
    data[60] ^= 4
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        parquet._opened(pa.BufferReader(bytes(data)), parquet.READINGS).read()


# Interrupted, crowded, full -----------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_cohort_read_and_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(stream: object, data: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet._Summed, "write", full)
    cohort = read_cohort(folder)
    assert cohort.notes[-1] == "not cached, the cache folder cannot be written: No space left on device"
    assert same(cohort, read_cohort(folder, cache=False))
    assert not list((cache_folder() / "cohorts").iterdir())


def test_a_cache_folder_that_cannot_be_made_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVYSCREEN_CACHE_DIR", str(folder / "7.txt"))
    assert read_cohort(folder).notes[-1].startswith("not cached, the cache folder cannot be written: ")


def test_a_process_that_finished_first_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = parquet.write_files

    def late(cohort: Cohort, where: Path) -> None:
        write(cohort, where)
        target = where.parent / cache_key(open_source(folder), PHYSIONET2012)
        shutil.copytree(where, target)
        (target / "first").touch()

    monkeypatch.setattr(cache, "write_files", late)
    assert read_cohort(folder).notes == read_cohort(folder, cache=False).notes
    assert [p.name for p in (cache_folder() / "cohorts").iterdir()] == [entry().name]
    assert (entry() / "first").exists()


def test_temporaries_that_no_process_holds_are_swept(folder: Path) -> None:
    stray = cache_folder() / "cohorts" / f".x.levyscreen-{'0' * 16}.tmp"
    stray.mkdir(parents=True)
    read_cohort(folder)
    assert not stray.exists()


LOOP = """
import sys
from levyscreen.records.cache import clear_cache, read_cohort
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    clear_cache()
    read_cohort(sys.argv[1])
"""


def start(folder: Path, rounds: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LOOP, str(folder), str(rounds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_process_killed_at_any_moment_leaves_the_cache_whole(folder: Path) -> None:
    plain = read_cohort(folder, cache=False)
    for delay in (0.02, 0.05, 0.09):
        process = start(folder, 10_000)
        time.sleep(delay)
        process.kill()
        process.communicate()
        assert not [e for e in cache_entries() if e.name == "(damaged)"]
        assert read_cohort(folder).notes == plain.notes
        assert same(read_cohort(folder), plain)


def test_two_processes_share_one_cache(folder: Path) -> None:
    pair = [start(folder, 40) for _ in range(2)]
    for process in pair:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert same(read_cohort(folder), read_cohort(folder, cache=False))


# Looking after it ---------------------------------------------------------------------------------------------------


def test_entries_are_listed_and_cleared(folder: Path) -> None:
    assert cache_entries() == []
    read_cohort(folder)
    (listed,) = cache_entries()
    assert listed.name == "set"
    assert listed.bytes == sum(p.stat().st_size for p in listed.folder.iterdir())
    assert abs(listed.time - time.time()) < 60
    (cache_folder() / "mine").touch()
    assert clear_cache() == [listed]
    assert cache_entries() == []
    assert (cache_folder() / "mine").exists()


# A Parquet cohort ---------------------------------------------------------------------------------------------------


def test_a_written_cohort_is_opened_again(folder: Path, tmp_path: Path) -> None:
    cohort = read_cohort(folder)
    write_cohort(cohort, tmp_path / "out" / "parquet")
    again = read_cohort(tmp_path / "out" / "parquet")
    assert same(cohort, again)
    assert everything(cohort) == everything(again)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["parquet"]


def test_the_same_cohort_is_written_in_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_cohort(read_cohort(folder, cache=False), tmp_path / name)
    assert (tmp_path / "a" / "B2SUMS").read_bytes() == (tmp_path / "b" / "B2SUMS").read_bytes()


def test_each_footer_names_the_variables_and_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    cohort = read_cohort(folder)
    write_cohort(cohort, tmp_path / "out")
    for name in parquet.FILES:
        facts = parquet._footer(pq.read_schema(tmp_path / "out" / name))
        assert facts["fingerprint"] == cohort.fingerprint
        assert facts["variables"] == PHYSIONET2012.to_json()


def test_a_parquet_cohort_is_judged_anew_by_other_ranges(folder: Path, tmp_path: Path) -> None:
    write_cohort(read_cohort(folder), tmp_path / "out")
    direct, again = read_cohort(folder, variables=PAPER), read_cohort(tmp_path / "out", variables=PAPER)
    arrays = ("offsets", "time_hours", "variable", "value", "line_class")
    assert all(np.array_equal(getattr(direct, f), getattr(again, f)) for f in arrays)
    assert direct.records.equals(again.records)
    assert direct.fingerprint == again.fingerprint


def test_a_parquet_cohort_of_other_variables_is_refused(folder: Path, tmp_path: Path) -> None:
    write_cohort(read_cohort(folder), tmp_path / "out")
    other = PHYSIONET2012.from_json({**PHYSIONET2012.to_json(), "name": "other", "horizon_hours": 72.0})
    with pytest.raises(CohortError, match="its variables are those of physionet2012, not of other"):
        read_cohort(tmp_path / "out", variables=other)


def test_a_parquet_cohort_whose_name_leads_away_is_refused(folder: Path, tmp_path: Path) -> None:
    """Results go to a folder of that name."""
    for number, name in enumerate(("../x", "/etc", "..", "a\nb")):
        where = tmp_path / str(number)
        write_cohort(replace(read_cohort(folder), name=name), where)
        with pytest.raises(CohortError, match="damaged, or of another version"):
            read_cohort(where)


def test_a_parquet_cohort_with_a_value_that_is_not_finite_is_refused(folder: Path, tmp_path: Path) -> None:
    cohort = read_cohort(folder)
    value = cohort.value.copy()
    value[1] = np.nan
    write_cohort(replace(cohort, lines=replace(cohort.load(), value=value)), tmp_path / "out")
    with pytest.raises(CohortError, match="damaged, or of another version"):
        read_cohort(tmp_path / "out")


def test_a_damaged_parquet_cohort_is_refused(folder: Path, tmp_path: Path) -> None:
    write_cohort(read_cohort(folder), tmp_path / "out")
    with open(tmp_path / "out" / "records.parquet", "ab") as stream:
        stream.write(b"x")
    with pytest.raises(CohortError, match="damaged, or of another version; make it again from the record files"):
        read_cohort(tmp_path / "out")


def test_a_cohort_is_never_written_over_something(folder: Path, tmp_path: Path) -> None:
    cohort = read_cohort(folder)
    with pytest.raises(UsageError, match="exists already; name a new folder"):
        write_cohort(cohort, folder)
    (tmp_path / "empty").mkdir()
    write_cohort(cohort, tmp_path / "empty")
    with pytest.raises(LevyscreenError, match="cannot be written: "):
        write_cohort(cohort, folder / "7.txt" / "x")


def test_a_cache_folder_that_cannot_be_listed_is_said_with_the_way_out(monkeypatch, tmp_path):
    (tmp_path / "cohorts").write_text("a file")
    monkeypatch.setenv("LEVYSCREEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(CohortError, match=r"cohorts: the cache cannot be read: .*; set \$LEVYSCREEN"):
        clear_cache()


def test_a_home_of_nobody_is_a_folder_that_is_not_there():
    with pytest.raises(CohortError, match=r"~nosuchuser/set: no such folder or archive"):
        read_cohort("~nosuchuser/set")


def test_a_cohort_that_a_notebook_shows_is_a_line_without_a_patients_values(sample):
    lines = len(sample.load())
    assert repr(sample) == f"<Cohort set-b-sample: 31 records, {lines:,} lines of 36 variables>"
