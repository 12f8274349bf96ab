"""Record files with every oddity."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

from levyscreen.config import PROTOCOLS
from levyscreen.errors import RecordError
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from levyscreen.records.grammar import body_of
from levyscreen.records.lines import read_lines, read_lines_one_by_one
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.variables import PHYSIONET2012
from tests.conftest import SAMPLE
from tests.faults import names, tables
from tests.faults.hostile import blocks, pick, write_tar
from tests.faults.mutations import Draw, mutated
from tests.faults.row import Row
from tests.records.record_files import HEAD, accounts, record, slow_cohort, write_folder

SMALL = 6_000  # bytes of the sample's files that are read again and again


@cache
def sample() -> dict[str, bytes]:
    """The short files of the sample."""
    files = {path.name: path.read_bytes() for path in sorted(SAMPLE.iterdir())}
    return {name: data for name, data in files.items() if len(data) < SMALL}


def some(draw: Draw, count: int) -> dict[str, bytes]:
    """A few real record files."""
    return {str(name): sample()[str(name)] for name in draw.choice(sorted(sample()), count, replace=False)}


def unlike(cohort: Cohort, files: dict[str, bytes]) -> str | None:
    """Where a cohort is not what plain Python makes of its files: none missing, no line lost, none let in."""
    found, expected = accounts(cohort), slow_cohort(files, PHYSIONET2012)
    if found.keys() != expected.keys():
        return f"{len(found)} records of {len(expected)} files"
    wrong = [name for name in files if found[name] != expected[name]]
    return f"{wrong[0]} is read as something else" if wrong else None


# Rows ---------------------------------------------------------------------------------------------------------------


def a_mutated_file(draw: Draw, folder: Path) -> str | None:
    files = some(draw, 4)
    victim, other = list(files)[:2]
    files[victim] = mutated(draw, files[victim], files[other])
    cohort = read_cohort(write_folder(folder / "set", files), cache=False)
    return unlike(cohort, files) or _two_paths(files[victim])


def _two_paths(data: bytes) -> str | None:
    """Whether the fast path and the careful one see the same lines, numbers included."""
    try:
        body = body_of(data)
    except RecordError:
        return None
    fast, careful = read_lines([body], PHYSIONET2012), read_lines_one_by_one({0: body}, PHYSIONET2012)
    fine = careful.refusal == 0
    same = np.array_equal(fast.number, careful.number) and np.array_equal(fast.refusal, careful.refusal)
    same &= all(np.array_equal(getattr(fast, f)[fine], getattr(careful, f)[fine]) for f in ("minutes", "code", "value"))
    return None if same else "the fast path and the careful one differ"


def bad_values(draw: Draw, folder: Path) -> str | None:
    """Lines whose value is none, at random places of a real file; the model's input is made of what is left."""
    files = some(draw, 2)
    victim = next(iter(files))
    lines = files[victim].decode().splitlines()
    for place in sorted(draw.integers(1, len(lines) + 1, 12).tolist(), reverse=True):
        lines.insert(place, f"00:07,HR,{BAD_VALUES[int(draw.integers(len(BAD_VALUES)))]}")
    files[victim] = "\n".join(lines).encode()
    cohort = read_cohort(write_folder(folder / "set", files), cache=False)
    numbers = {n for n, line in enumerate(lines, 1) if line.startswith("00:07,HR,") and line[9:] in BAD_VALUES}
    listed = [r for r in cohort.rejects.to_pylist() if r["line_class"] in ("not_a_number", "not_finite")]
    named = {r["line"] for r in listed if r["file"] == victim}
    bad = [r for r in cohort.records.to_pylist() if r["file"] == victim]
    readings = Preprocessor(PHYSIONET2012, PROTOCOLS["ours"], (0.0,) * 36, (1.0,) * 36).apply(cohort)
    wrong = (
        "a line named that is fine" if not named <= numbers else None,
        "no line named" if not named else None,
        "miscounted" if bad[0]["n_not_a_number"] + bad[0]["n_not_finite"] != len(numbers) else None,
        "a non-finite input to the model" if not np.isfinite([readings.value, readings.time]).all() else None,
    )
    return next((w for w in wrong if w), None) or unlike(cohort, files)


BAD_VALUES = ("nan", "NaN", "-inf", "Infinity", "1e400", "-1e400", "", " ", "high", "7_3", "0x1F", "٣٧", "1 2", "=1+1")


def two_of_one_record(draw: Draw, folder: Path) -> str | None:
    """A file whose RecordID is another's, or unlike its name, or two at once."""
    files = some(draw, 4)
    one, two, three, _ = files
    copy = f"{pick(draw, 'copy-', '0', '', ' ')}{one}"
    files[copy if copy != one else f"x{one}"] = files[one]
    said = f"RecordID,{int(draw.integers(200_000, 300_000))}".encode()
    files[two] = files[two].replace(f"RecordID,{two[:-4]}".encode(), said)
    files[three] = files[three] + b"00:00," + said + b"\n"
    cohort = read_cohort(write_folder(folder / "set", files), cache=False)
    records = cohort.records.to_pylist()
    notes, named = " ".join(cohort.notes), [r["file"] for r in records if r["problem"] is not None]
    counted = [r["record_id"] for r in records if r["problem"] is None]
    wrong = (
        "a record counted twice" if len(set(counted)) < len(counted) else None,
        f"{named} named" if len(named) != 2 or three not in named else None,
        f"not noted: {notes}" if not all(name in notes for name in (*named, two)) else None,
    )
    return next((w for w in wrong if w), None) or unlike(cohort, files)


def no_regular_file(draw: Draw, folder: Path) -> str | None:
    """Whatever else may stand in a folder under a record's name: none of it is opened, and each is named."""
    files = some(draw, 3)
    where = write_folder(folder / "set", files)
    odd = [f"{i}{pick(draw, '.txt', 'x.txt')}" for i in range(1, 9)]
    with socket.socket(socket.AF_UNIX) as bound:
        makers = (
            lambda path: os.mkfifo(path),
            lambda path: path.mkdir(),
            lambda path: path.symlink_to(path.name),
            lambda path: path.symlink_to("nowhere.txt"),
            lambda path: path.symlink_to("/dev/zero"),
            lambda path: path.symlink_to(".."),
            lambda path: bound.bind(str(path)),
            lambda path: path.write_bytes(draw.bytes(2000)),
        )
        for name, make in zip(odd, draw.permutation(len(makers)).tolist(), strict=True):
            makers[make](where / name)
        (where / odd[0]).chmod(0) if (where / odd[0]).is_file() else None
        cohort = read_cohort(where, cache=False)
    problems = {r["file"]: r["problem"] for r in cohort.records.to_pylist()}
    silent = [name for name in odd if problems.get(name) is None]
    expected = {**files, **dict.fromkeys(odd, b"")}
    return f"{silent[0]} is no record, but has no problem" if silent else unlike(cohort, expected)


# A process of its own: what memory it took at most is told by the system, and nothing else has been in it.
READ_ALONE = """
import sys
from levyscreen.records.cache import read_cohort
cohort = read_cohort(sys.argv[1], cache=False)
print(*[r["file"] for r in cohort.records.to_pylist() if r["problem"] is not None], *cohort.value.tolist())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
ROWS_OF_ONE_RECORD = 10_000_000
MOST_BYTES = 500_000_000


def ten_million_rows(draw: Draw, folder: Path) -> str | None:
    """In a folder or an archive, beside a record that is read."""
    block = b"".join(b"%02d:%02d,HR,%d\n" % (i // 60 % 48, i % 60, 60 + i % 40) for i in range(100_000))
    big = HEAD.encode() + block * (ROWS_OF_ONE_RECORD // 100_000)
    members = {"7.txt": record(7, "00:07,HR,73").encode(), "8.txt": big}
    kind = pick(draw, "set", "x.tar", "x.tar.gz", "x.zip")
    path = folder / kind
    if kind == "set":
        write_folder(path, members)
    elif kind == "x.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        write_tar(draw, path, blocks(members), b"")
    done = subprocess.run([sys.executable, "-c", READ_ALONE, path], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    found, kilobytes = done.stdout.splitlines()
    if found != "8.txt 73.0":
        return f"{kind}: {found}"
    peak = int(kilobytes) << 10
    return f"{kind}: {peak / 1e6:.0f} MB" if peak > MOST_BYTES else None


ROWS: tuple[Row, ...] = (
    Row(
        "a record file damaged in any way",
        "every line of every file counted once, the other files untouched; fast, careful and naive reader agree",
        a_mutated_file,
        50,
        2000,
    ),
    Row(
        "NaN, Inf, 1e400, blank, text value",
        "that line rejected with file and line; no non-finite input to the model",
        bad_values,
        25,
        500,
    ),
    Row(
        "two files with one RecordID; file name unlike RecordID; two RecordIDs in a file",
        "named; nothing counted twice",
        two_of_one_record,
        25,
        500,
    ),
    Row(
        "a link loop, dangling link, device, fifo, socket, folder, unreadable or non-UTF-8 file under a record's name",
        "that record rejected by name, the others scored; none of them opened",
        no_regular_file,
        25,
        500,
    ),
    Row(
        "a record of 10 million rows",
        "under 500 MB; that record rejected by name, the others scored",
        ten_million_rows,
        1,
        8,
    ),
    *tables.ROWS,
    *names.ROWS,
)
