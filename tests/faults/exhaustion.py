"""Memory that runs out, and runs that are long, killed and started again."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch

from benchmarks.synthetic import record_files, write_tar
from levyscreen import questions
from levyscreen.errors import LevyscreenError
from levyscreen.records.cache import read_cohort
from levyscreen.store import load_model
from levyscreen.timeline import Asker, ContinuumSettings, timelines
from tests.faults.forks import commands
from tests.faults.replacement import left_over, prepared, run, ward
from tests.faults.row import Row

MOST_BYTES = 1_200_000_000  # peak memory of a long run
SETTINGS = ContinuumSettings(grid=4, variables=("HR", "MAP"))


def _no_room() -> None:
    torch.empty(1 << 50)


def _no_room_in_numpy() -> None:
    np.empty(1 << 50)


def _no_room_on_device() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


WAYS = (_no_room, _no_room_in_numpy, _no_room_on_device)


@contextmanager
def little_memory(
    owner: Any, name: str, size: Callable[..., int], most: int, way: Callable[[], None]
) -> Iterator[None]:
    """A function of the library, failing as memory does wherever its batch is larger than `most`."""
    work = getattr(owner, name)

    def limited(*arguments: Any) -> Any:
        if size(*arguments) > most:
            way()
        return work(*arguments)

    with mock.patch.object(owner, name, limited):
        yield


@cache
def _subject() -> tuple[Any, Any]:
    return load_model(), read_cohort(ward(), cache=False)


def _longest() -> int:
    """Readings of the longest record: with room for these, nothing may fail."""
    model, cohort = _subject()
    return int(model.preprocessor.apply(cohort).lengths.max())


def screened() -> dict[str, np.ndarray]:
    from levyscreen import screen

    model, cohort = _subject()
    scores = screen(cohort, model).scores.sort_values("record_id")
    return {name: scores[name].to_numpy() for name in ("uncertainty", "evidence", "disagreement", "deviation", "mae")}


def dense() -> dict[str, np.ndarray]:
    model, cohort = _subject()
    asker = Asker(model, SETTINGS)
    (timeline,) = timelines(asker, [model.preprocessor.apply(cohort)])
    return {"record_id": timeline.record_id, **timeline.columns}


PLACES = (
    (screened, questions, "answer", lambda network, batch: batch.mask.numel()),
    (dense, Asker, "ask", lambda asker, readings: len(readings) * int(readings.lengths.max())),
)
expected = cache(lambda work: work())


def no_memory(rng: np.random.Generator, folder: Path) -> str | None:
    """Batches above a size fail: all are answered in parts, or one record alone is too large and is said to be."""
    work, owner, name, size = PLACES[int(rng.integers(2))]
    whole, way, most = expected(work), WAYS[int(rng.integers(3))], int(rng.integers(20, 1000))
    try:
        with little_memory(owner, name, size, most, way):
            found = work()
    except LevyscreenError as error:
        clear = str(error).startswith("not enough memory for one record of ")
        return None if clear and most < _longest() else f"with room for {most} readings: {error}"
    close = {name: np.allclose(found[name], values, rtol=1e-5, atol=1e-5) for name, values in whole.items()}
    return None if all(close.values()) else f"another answer: {close}"


def little_data(rng: np.random.Generator, folder: Path) -> str | None:
    """The system gives a screening no more than some memory: it is done all the same, or one line says why not."""
    whole = prepared("screen")
    work = Path(shutil.copytree(whole.folder, folder / "work"))
    done = run(work, "screen", 1, more_memory=int(rng.integers(1, 200)) << 20)
    if done.code == 0:
        return _far(work / "table.csv", whole.new["table.csv"]) or left_over(work)
    clear = done.code == 1 and "levyscreen: not enough memory" in done.err and "Traceback" not in done.err
    return whole.wrong(work) or left_over(work) if clear else f"it ended with {done.code}: {done.err[-300:]}"


def _far(table: Path, expected: bytes) -> str | None:
    one, other = pd.read_csv(table), pd.read_csv(io.BytesIO(expected))
    numbers = one.select_dtypes("number").columns
    close = np.allclose(one[numbers], other[numbers], rtol=1e-5, atol=1e-5, equal_nan=True)
    return None if close else "another table"


# Long runs ----------------------------------------------------------------------------------------------------------


def long_run(records: int, kills: int, rng: np.random.Generator, folder: Path) -> str | None:
    """A large cohort, screened without a break, and with many."""
    write_tar(folder / "big.tar", record_files(records, 30, int(rng.integers(1 << 30))))
    whole, broken = folder / "whole", folder / "broken"
    began = time.perf_counter()
    wrong = _screen(whole, folder)
    seconds = time.perf_counter() - began
    broken.mkdir()
    for _ in range(kills):
        process = commands().start(broken, "screen", folder / "big.tar", "-o", "table.csv")
        time.sleep(seconds * rng.random() * rng.random())
        os.kill(process, signal.SIGKILL)
        commands().end()
    return wrong or _screen(broken, folder) or _other(whole, broken) or left_over(broken)


def _screen(work: Path, folder: Path) -> str | None:
    work.mkdir(exist_ok=True)
    done = commands().run(work, "screen", folder / "big.tar", "-o", "table.csv")
    if done.code:
        return f"it ended with {done.code}: {done.err[-300:]}"
    peak = json.loads((work / "levyscreen-out/big/timing.json").read_text())["peak_memory_bytes"]
    return f"it took {peak / 1e9:.2f} GB" if peak > MOST_BYTES else None


def _other(whole: Path, broken: Path) -> str | None:
    for name in ("levyscreen-out/big/scores.parquet", "levyscreen-out/big/rejects.parquet", "table.csv"):
        if (whole / name).read_bytes() != (broken / name).read_bytes():
            return f"{name} is another after the kills"
    return None


ROWS: tuple[Row, ...] = (
    Row("out of memory", "the batch halved, scores within 1e-5; else a clear error", no_memory, 10, 200),
    Row("memory limited by the system", "done within 1e-5, or one clear line, exit 1", little_data, 3, 60),
    Row("1,000 records, killed twice", "the same bytes, bounded memory", partial(long_run, 1_000, 2), 1, 2),
    Row("100,000 records, killed ten times", "the same bytes, bounded memory", partial(long_run, 100_000, 10), 0, 1),
)
