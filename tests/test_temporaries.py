"""A file appears whole or not at all, and what a dead process left is swept while what a living one writes is not."""

import os
import platform
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from levyscreen import temporaries
from levyscreen.errors import LevyscreenError
from levyscreen.pending import undo_all, undoing
from levyscreen.temporaries import folder_beside, replacing, sweep, together


@pytest.fixture(scope="module")
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def stray(folder, pid, machine=None):
    path = folder / f".scores.parquet.{pid}@{machine or platform.node()}.tmp"
    path.write_text("half")
    return path


def test_what_a_dead_process_left_is_swept_by_the_next_write_beside_it(tmp_path, dead):
    stray(tmp_path, dead)
    stray(tmp_path, dead).with_suffix(".tmp").rename(tmp_path / f".continuum-x.{dead}@{platform.node()}.tmp")
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_what_a_living_process_or_another_machine_writes_is_left_alone_for_a_day(tmp_path, dead):
    kept = [stray(tmp_path, os.getppid()), stray(tmp_path, dead, "elsewhere.example.org")]
    sweep(tmp_path)
    assert all(path.exists() for path in kept)
    for path in kept:
        os.utime(path, (0, 0))
    sweep(tmp_path)
    assert not any(path.exists() for path in kept)


def test_a_users_own_hidden_files_are_never_swept(tmp_path):
    for name in (".tmp", ".a.tmp", ".a.1.tmp", ".a.99999999.tmp", "a.99999999@b.tmp"):
        (tmp_path / name).touch()
    sweep(tmp_path, 0)
    assert len(list(tmp_path.iterdir())) == 5


def test_a_failed_write_leaves_the_old_file_and_says_which(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as name:
            name.write_text("ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(LevyscreenError, match=r"a\.txt could not be written: No space left"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path, there):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk/target.csv", tmp_path / "link.csv"
    if there:
        target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as name:
        name.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list((tmp_path / "disk").iterdir()) == [target]


@pytest.mark.parametrize("name", ["/proc/self/fd/{}", "/dev/fd/{}", "linked"])
def test_what_stands_for_an_open_file_is_written_to(tmp_path, name):
    with (tmp_path / "out.txt").open("w") as file:
        before = os.fstat(file.fileno()).st_ino
        (tmp_path / "linked").symlink_to(f"/dev/fd/{file.fileno()}")
        with replacing(tmp_path / name.format(file.fileno())) as there:
            there.write_text("rows")
    assert (tmp_path / "out.txt").read_text() == "rows"
    assert (tmp_path / "out.txt").stat().st_ino == before
    assert (tmp_path / "linked").is_symlink()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no disk in memory")
def test_a_disk_in_memory_is_a_disk():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "a.txt"
        path.write_text("old")
        with suppress(RuntimeError), replacing(path) as name:
            name.write_text("ne")
            raise RuntimeError
        assert path.read_text() == "old"


def test_a_loop_of_links_leads_nowhere_and_is_replaced(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with replacing(tmp_path / "loop") as name:
        name.write_text("rows")
    assert (tmp_path / "loop").read_text() == "rows"


def test_a_failure_names_the_file_as_it_was_to_be(tmp_path):
    def fail():
        with together(tmp_path) as whole, replacing(whole / "a.txt"):
            raise OSError(28, "No space left on device")

    with pytest.raises(LevyscreenError) as failed:
        fail()
    assert str(failed.value) == f"{tmp_path}/a.txt could not be written: No space left on device"


def test_files_are_put_in_place_together_or_not_at_all(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with suppress(RuntimeError), together(tmp_path) as whole:
        (whole / "a.txt").write_text("new")
        raise RuntimeError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}
    with together(tmp_path) as whole:
        (whole / "a.txt").write_text("new")
        (whole / "b.txt").write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "new", "b.txt": "new"}


def test_a_pipe_is_written_to_and_not_replaced_by_a_file(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    with replacing(pipe) as name:
        name.write_text("rows")
    reader.join()
    assert found == ["rows"]
    assert pipe.is_fifo()


def test_a_stopped_process_undoes_what_it_is_in_the_midst_of_innermost_first(tmp_path):
    undone = []
    with undoing(lambda: undone.append("outer")), undoing(lambda: undone.append("inner")):
        undo_all()
        assert undone == ["inner", "outer"]
    undo_all()
    assert undone == ["inner", "outer", "inner", "outer"]


def test_what_stands_in_a_temporary_folder_is_removed_as_a_process_is_stopped(tmp_path):
    with folder_beside(tmp_path / "c") as folder, replacing(tmp_path / "a.txt") as name:
        (folder / "part").touch()
        name.write_text("half")
        undo_all()
        assert list(tmp_path.iterdir()) == []
        name.write_text("whole after all")


def test_a_temporary_name_tells_whose_it_is(tmp_path):
    assert temporaries._NAME.fullmatch(temporaries.aside(tmp_path / "c").name)
    with folder_beside(tmp_path / "c") as folder:
        assert temporaries._NAME.fullmatch(folder.name).group(1) == str(os.getpid())
