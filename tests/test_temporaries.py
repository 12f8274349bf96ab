"""A file appears whole or not at all, and what a dead process left is swept while what a living one writes is not."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from levyscreen import temporaries
from levyscreen.errors import LevyscreenError
from levyscreen.pending import undo_all, undoing
from levyscreen.temporaries import folder_beside, replacing, share, sweep, together

SCRIPT = """
import sys, time
from pathlib import Path
from levyscreen.temporaries import folder_beside, replacing
kind = {"file": replacing, "folder": folder_beside}[sys.argv[1]]
with kind(Path(sys.argv[2]) / "a.txt") as temporary:
    print(temporary, flush=True)
    time.sleep(600)
"""


@contextmanager
def living(kind, folder):
    """A process with a temporary in a folder, killed at the end; its temporary."""
    words = [sys.executable, "-c", SCRIPT, kind, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield Path(process.stdout.readline().strip())
        process.kill()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_living_process_writes_is_left_alone_however_old_and_what_a_killed_one_left_is_swept(tmp_path, kind):
    with living(kind, tmp_path) as temporary:
        os.utime(temporary, (0, 0))
        sweep(tmp_path)
        assert temporary.exists()
    with replacing(tmp_path / "b.txt") as name:
        name.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["b.txt"]


def test_a_temporary_that_is_swept_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    made, flock = [], temporaries.fcntl.flock

    def swept_first(descriptor, flags):
        if not made:
            made.extend(tmp_path.iterdir())
            made[0].unlink()
        flock(descriptor, flags)

    monkeypatch.setattr(temporaries.fcntl, "flock", swept_first)
    with replacing(tmp_path / "a.txt") as name:
        assert name.exists()
        assert name not in made
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("planted", ["link", "file"])
def test_what_lies_under_a_temporarys_name_is_not_written_to(tmp_path, monkeypatch, planted):
    names = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr(temporaries.secrets, "token_hex", lambda _: next(names))
    other, trap = tmp_path / "other", tmp_path / f".a.txt.levyscreen-{'0' * 16}.tmp"
    other.write_text("kept")
    if planted == "link":
        trap.symlink_to(other)
    else:
        trap.write_text("kept")
        trap.chmod(0o666)
    monkeypatch.setattr(temporaries, "sweep", lambda folder: None)
    with pytest.raises(LevyscreenError, match=r"a\.txt could not be written"), replacing(tmp_path / "a.txt") as name:
        name.write_text("new")
    assert trap.read_text() == other.read_text() == "kept"


def test_a_link_by_a_temporarys_name_is_not_followed_by_the_sweep(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    (tmp_path / f".a.levyscreen-{'0' * 16}.tmp").symlink_to(tmp_path / "folder")
    sweep(tmp_path)
    assert (tmp_path / "folder" / "kept").exists()


@pytest.mark.parametrize(
    ("sharing", "shared", "mode"), [(False, False, 0o600), (False, True, 0o644), (True, False, 0o644)]
)
def test_what_may_hold_patients_values_is_for_its_owner_alone_unless_all_is_shared(tmp_path, sharing, shared, mode):
    before = os.umask(0o022)
    share(sharing)
    try:
        with replacing(tmp_path / "new" / "a.txt", shared) as name:
            assert stat.S_IMODE(name.stat().st_mode) == mode
        assert stat.S_IMODE((tmp_path / "new" / "a.txt").stat().st_mode) == mode
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == (0o700 if mode == 0o600 else 0o755)
    finally:
        share(False)
        os.umask(before)


def test_a_users_own_hidden_files_are_never_swept(tmp_path):
    for name in (
        ".tmp",
        ".a.tmp",
        ".a.levyscreen-1.tmp",
        ".levyscreen-0123456789abcdef.tmp",
        "a.levyscreen-0123456789abcdef.tmp",
    ):
        (tmp_path / name).touch()
    sweep(tmp_path)
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
