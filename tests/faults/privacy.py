"""No reading and no id where it does not belong.

A canary is a value, an id and a text that no real record has; whatever happens to the records that hold them, nothing
of it may come out but where it was asked for: a score under its record id.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from levyscreen.records.cache import FOLDER_VARIABLE, cache_folder, clear_cache, read_cohort
from tests.faults.mutations import Draw
from tests.faults.names import run
from tests.faults.row import Row
from tests.records.record_files import record, write_folder

VALUE, ID, TEXT = "137.531249", 987654321, "canaryword"
HOURS = [f"{h:02d}:{m:02d}" for h in range(24) for m in (3, 33)]


def canaries(folder: Path) -> Path:
    """Three records that can be scored, one with the canary as a value, as its id, and in lines of each kind."""
    plain = {f"{i}.txt": record(i, *(f"{t},HR,{70 + i}" for t in HOURS)) for i in (11, 12)}
    odd = [f"05:00,Temp,{VALUE}", f"06:00,HR,{TEXT}", f"{TEXT},HR,80", f"07:00,{TEXT},{VALUE}", f"99:99,pH,{VALUE}"]
    marked = record(ID, *(f"{t},HR,{VALUE}" for t in HOURS), *odd)
    return write_folder(folder, {**plain, "13.txt": marked, "14.txt": TEXT})


def leaked(text: str) -> str | None:
    return next((f"{word} came out" for word in (VALUE, str(ID), TEXT, VALUE[:6]) if str(word) in text), None)


# Faults -------------------------------------------------------------------------------------------------------------


class _Bug(Exception):
    """What a mistake in the code would raise, quoting what it stumbled over."""


def _raises(quoting: Callable[..., str]) -> Callable[..., Any]:
    def stumble(*arguments: Any, **named: Any) -> Any:
        raise _Bug(f"could not make sense of {quoting(*arguments)}: {VALUE}, {ID}, {TEXT}")

    return stumble


BUGS = (
    "levyscreen.records.cache.assemble",
    "levyscreen.records.physionet2012.read_lines",
    "levyscreen.records.preprocessor.Preprocessor.apply",
    "levyscreen.screen._rank",
    "levyscreen.questions.answer",
    "levyscreen.outputs.with_provenance",
    "levyscreen.model.network.Network.predict",
)


def quiet_failures(draw: Draw, folder: Path) -> str | None:
    """A command on the canaries, with a mistake in the code at a place or without one: what it prints and writes."""
    cohort = canaries(folder / "ward")
    place = BUGS[int(draw.integers(len(BUGS)))] if draw.random() < 0.7 else None
    words: list[str | Path] = ["screen", cohort, "--out", folder / "out", "--no-cache", "-o", folder / "printed.csv"]
    words += [w for w in ("--strict", "--queries") if draw.random() < 0.5]
    with ExitStack() as stack:
        stack.enter_context(mock.patch("levyscreen.machine.prepare", return_value=None))
        if place is not None:
            stack.enter_context(mock.patch(place, _raises(lambda *a: repr(a)[:200])))
        code, said = run(*words)
    if place is None and code not in (0, None, 3):
        return f"exit code {code}: {said}"
    if place is not None and (code != 1 or "an unexpected fault, _Bug" not in said):
        return f"{place}: exit code {code}: {said}"
    return leaked(said) or _files_leak(folder / "out")


def _files_leak(out: Path) -> str | None:
    """Nothing of it in any file but the id and values that were asked for: of a score, with --queries of a truth."""
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            footer = " ".join(str(v) for v in (table.schema.metadata or {}).values())
            asked = {"record_id", "truth", "prediction", "lower", "upper"}
            columns = [name for name in table.column_names if name not in asked]
            wrong = leaked(footer + str(table.select(columns).to_pylist()))
        else:
            wrong = leaked(path.read_text())
        if wrong:
            return f"{path.name}: {wrong}"
    return None


# The cache ----------------------------------------------------------------------------------------------------------


@contextmanager
def _own_cache(folder: Path, umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        with mock.patch.dict(os.environ, {FOLDER_VARIABLE: str(folder)}):
            yield
    finally:
        os.umask(before)


def _open_to_others(folder: Path) -> list[str]:
    return [str(p) for p in [folder, *folder.rglob("*")] if p.exists() and stat.S_IMODE(p.stat().st_mode) & 0o077]


def for_its_owner_alone(draw: Draw, folder: Path) -> str | None:
    """The cache under any umask, while it is written and after; and once it is cleared."""
    cohort, found, rename = canaries(folder / "ward"), [], os.rename

    def watched(*names: Any, **options: Any) -> None:
        found.extend(_open_to_others(folder / "cache"))
        rename(*names, **options)

    with _own_cache(folder / "cache", int(draw.integers(0o100))), mock.patch("os.rename", watched):
        for _ in range(int(draw.integers(1, 3))):
            read_cohort(cohort)
            (cohort / "11.txt").write_text(record(11, f"0{draw.integers(10)}:00,HR,80"))
        found.extend(_open_to_others(folder / "cache"))
        clear_cache()
        left = [str(p) for p in cache_folder().rglob("*") if p.is_file()]
    if found:
        return f"open to others: {found[:3]}"
    return f"left after it was cleared: {left[:3]}" if left else None


def no_temporary_left(draw: Draw, folder: Path) -> str | None:
    """A cohort too large for memory, read and screened or stumbled over: nothing of it stays behind."""
    cohort, temporary = canaries(folder / "ward"), folder / "tmp"
    temporary.mkdir()
    bug = BUGS[int(draw.integers(len(BUGS)))] if draw.random() < 0.5 else None
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(temporary)))
        stack.enter_context(mock.patch("levyscreen.records.spill.MEMORY_LINES", 10))
        stack.enter_context(mock.patch("levyscreen.machine.prepare", return_value=None))
        if bug is not None:
            stack.enter_context(mock.patch(bug, _raises(lambda *a: "")))
        run("screen", cohort, "--out", folder / "out", "--no-cache", "-o", folder / "printed.csv")
    left = [p.name for p in temporary.rglob("*")] + [p.name for p in (folder / "out").rglob(".*")]
    return f"left: {json.dumps(left)}" if left else None


ROWS: tuple[Row, ...] = (
    Row(
        "a record with canaries screened, with a mistake in the code or without",
        "no reading, text or id of it on stderr, in timings, rejects or provenance; a fault says where, not what",
        quiet_failures,
        short=12,
        long=300,
    ),
    Row(
        "the cache under any umask",
        "folders 0700 and files 0600, temporaries too; nothing left by cache clear",
        for_its_owner_alone,
        short=6,
        long=300,
    ),
    Row(
        "a spilled cohort, screened or stumbled over",
        "nothing left in the temporary folder or beside the results",
        no_temporary_left,
        short=6,
        long=200,
    ),
)
