"""Hostile archives and folders."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from levyscreen.errors import CohortError
from levyscreen.records import archives
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import Cohort
from tests.faults.hostile import BLOCK, KINDS, NAMED, READ, REFUSED, Members, blocks, honest, pick, write_tar
from tests.faults.mutations import Draw
from tests.faults.row import Row
from tests.records.record_files import record, same, write_folder

FREE = 1 << 20  # bytes unpacked before the ratio is asked; smaller than in earnest, so that an attempt is quick
SECONDS = 20.0


_opened: list[str] | None = None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so")):
        _opened.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else str(arguments[0]))


@contextmanager
def opened() -> Iterator[list[str]]:
    """What this process opens meanwhile, the interpreter's own modules aside."""
    global _opened
    if not getattr(opened, "hooked", False):
        sys.addaudithook(_hook)  # for good: there is no way to take one off
        opened.hooked = True  # type: ignore[attr-defined]
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def tree(folder: Path) -> list[tuple[str, int]]:
    """Everything under a folder, with its time of change."""
    return sorted((str(path), path.lstat().st_ctime_ns) for path in folder.rglob("*"))


def peak_bytes() -> int:
    """Most memory that this process ever held."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def judged(path: Path) -> tuple[str, Cohort | None]:
    """Whether an archive is refused, or read with a member named, or read."""
    try:
        cohort = read_cohort(path, cache=False)
    except CohortError as error:
        return (REFUSED if str(path) in str(error) else f"an error that names no file: {error}"), None
    except Exception as error:
        return f"raised {error!r}", None
    return (NAMED if cohort.records["problem"].null_count < len(cohort) else READ), cohort


@cache
def _warm() -> None:
    """What libraries open once and for all is opened before anybody looks."""
    with tempfile.TemporaryDirectory() as folder:
        read_cohort(write_folder(Path(folder), {"7.txt": record(7, "x")}), cache=False)


def a_hostile_archive(draw: Draw, folder: Path) -> str | None:
    _warm()
    name, files, build, fine = KINDS[int(draw.integers(len(KINDS)))]
    path, members = folder / "in" / pick(draw, *files), honest(draw)
    path.parent.mkdir()
    build(draw, path, members)
    before, memory, start = tree(folder), peak_bytes(), time.monotonic()
    with mock.patch.object(archives, "FREE_BYTES", FREE), opened() as touched:
        what, cohort = judged(path)
    took, more = time.monotonic() - start, peak_bytes() - memory
    outside = [p for p in touched if p != str(path)]
    wrong = (
        f"{what}, not {fine}" if what not in fine else None,
        f"opened {outside[0]}" if outside else None,
        "something was written" if tree(folder) != before else None,
        f"{took:.0f} s" if took > SECONDS else None,
        f"{more >> 20} MB" if more > 300 << 20 else None,
        _others(cohort, members) if cohort is not None else None,
    )
    return next((f"{name}, {path.name}: {w}" for w in wrong if w), None)


def _others(cohort: Cohort, members: Members) -> str | None:
    """Whether the honest records are there, each readable and whole or named."""
    found = {r["file"]: r for r in cohort.records.to_pylist()}
    whole = [n for n in ("7.txt", "8.txt", "9.txt") if n in found and found[n]["problem"] is None]
    if not {"7.txt", "8.txt", "9.txt"} <= found.keys() or len(whole) < 2:
        return f"honest records lost, {sorted(found)} found"
    hit = [n for n in whole if found[n]["n_reading"] != 2]
    return f"{hit[0]} has other lines" if hit else None


def _whole(draw: Draw, folder: Path) -> tuple[Path, Cohort]:
    """An archive of four records, and what is in it."""
    path = folder / pick(draw, "x.tar", "x.tar.gz", "x.zip", "y.zip")
    members = {**honest(draw), "set/ä.txt": record(10, *[f"{h:02d}:00,HR,{60 + h}" for h in range(40)]).encode()}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if path.stem == "y" else zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        write_tar(draw, path, blocks(members), b"")
    return path, read_cohort(path, cache=False)


def _only_refused_or_named(path: Path, whole: Cohort) -> str | None:
    """Of a damaged archive: refused, or every record as it was, or those that are not are named."""
    _, cohort = judged(path)
    if cohort is None or same(cohort, whole):
        return None
    if len(cohort) != len(whole):
        return f"{path.name}: {len(cohort)} records of {len(whole)}"
    before = {tuple(r.values()) for r in whole.records.to_pylist()}
    changed = [
        r["file"] for r in cohort.records.to_pylist() if r["problem"] is None and tuple(r.values()) not in before
    ]
    return f"{path.name}: {changed[0]} changed in silence" if changed else None


def an_archive_cut_short(draw: Draw, folder: Path) -> str | None:
    path, whole = _whole(draw, folder)
    data = path.read_bytes()
    unit = BLOCK if path.suffix == ".tar" and draw.integers(3) else 1
    path.write_bytes(data[: int(draw.integers(-(-len(data) // unit))) * unit])
    return _only_refused_or_named(path, whole)


def an_archive_with_a_flipped_bit(draw: Draw, folder: Path) -> str | None:
    path, whole = _whole(draw, folder)
    data = bytearray(path.read_bytes())
    # What a plain tar says of its data is their length: a flip there is seen by nobody, so it hits a header.
    starts = [i for i in range(0, len(data), BLOCK) if data[i + 257 : i + 262] == b"ustar"]
    place = (
        starts[draw.integers(len(starts))] + int(draw.integers(BLOCK))
        if path.suffix == ".tar"
        else int(draw.integers(len(data)))
    )
    data[place] ^= 1 << int(draw.integers(8))
    path.write_bytes(data)
    return _only_refused_or_named(path, whole)


ROWS: tuple[Row, ...] = (
    Row(
        "an archive with ../, absolute path, link, device, bomb, forged header, odd name",
        "refused, or that member rejected by name; nothing written, nothing else opened; bounded time and memory",
        a_hostile_archive,
        60,
        1000,
    ),
    Row("an archive cut short, at every block", "refused, or nothing is missing", an_archive_cut_short, 60, 1000),
    Row(
        "a flipped bit in a tar's header, a gzip or a zip",
        "refused, or that member named; never another value, never a record less",
        an_archive_with_a_flipped_bit,
        100,
        1000,
    ),
)
