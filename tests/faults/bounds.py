"""Small files that ask for much: more memory or time than they are worth is refused by name, or not taken.

`python -m tests.faults.bounds` prints what each takes, as Markdown.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.mutations import Draw
from tests.faults.row import Row
from tests.faults.same_answer import ROOT

MEMORY_BYTES = 4 << 30  # of addresses, half of which Python and its libraries take at rest
SECONDS = 60
COLUMNS = '[columns]\nrecord = "r"\ntime = "t"\n'
LONG = f'kind = "long"\n{COLUMNS}variable = "c"\nvalue = "v"\n[time]\nunit = "hours"\n'
WIDE = f'kind = "wide"\n{COLUMNS}[time]\nunit = "hours"\n'
HR = '[variables.HR]\nunit = "bpm"\n'
TEXT = "x" * (4 << 20)
READ = r"^$|^note: "


def packed(*parts: tuple[bytes, int]) -> bytes:
    """A text of parts, each so often, packed."""
    stream = io.BytesIO()
    with gzip.open(stream, "wb", 1) as file:
        for part, times in parts:
            for _ in range(times):
                file.write(part)
    return stream.getvalue()


def repeated(rows: int, text: str = TEXT) -> pa.Array:
    """One text in many rows."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def stored(columns: dict[str, pa.Array], **options: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, compression="zstd", store_schema=False, **options)
    return stream.getvalue()


def rows(count: int, **columns: pa.Array) -> dict[str, pa.Array]:
    plain = {"r": pa.array(np.ones(count, np.int8)), "t": pa.array(np.zeros(count, np.float32))}
    return plain | {"c": repeated(count, "HR"), "v": pa.array(np.ones(count, np.float32))} | columns


def lists(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), repeated(count))


PREFIXED = {"use_dictionary": False, "column_encoding": {"c": "DELTA_BYTE_ARRAY"}}
# File, its bytes, the mapping's text after its source, and what validate says.
Bomb = tuple[str, Callable[[], bytes], str, str]
BOMBS: dict[str, Bomb] = {
    "a text in 60,000 rows": ("t.parquet", lambda: stored(rows(60_000, c=repeated(60_000))), LONG + HR, READ),
    "a text in 60,000 lists": ("t.parquet", lambda: stored(rows(60_000, c=lists(60_000))), WIDE + HR, READ),
    "bytes in 60,000 rows": (
        "t.parquet",
        lambda: stored(rows(60_000, c=repeated(60_000).cast(pa.dictionary(pa.int32(), pa.binary())))),
        LONG + HR,
        READ,
    ),
    "a text after the one before": (
        "t.parquet",
        lambda: stored(rows(1_500, c=pa.array([TEXT[: 1 << 20]] * 1_500)), **PREFIXED),
        LONG + HR,
        READ,
    ),
    "rows that take no room": (
        "t.parquet",
        lambda: stored(rows(20_000_000), row_group_size=20_000_000),
        LONG + HR,
        r"has 20,000,000 rows",
    ),
    "a long first line": ("t.csv.gz", lambda: packed((b"x" * (10 << 20), 100)), LONG + HR, "does not end within 4 MB"),
    "empty lines first": ("t.csv.gz", lambda: packed((b"\n" * (10 << 20), 50)), LONG + HR, "does not end within 4 MB"),
    "empty lines": (
        "t.csv.gz",
        lambda: packed((b"r,t,c,v\n", 1), (b"\n" * (10 << 20), 50)),
        LONG + HR,
        "4 MB of empty lines",
    ),
    "short lines": (
        "t.csv.gz",
        lambda: packed((b"r,t,c,v\n", 1), (b"x\n" * (1 << 20), 20)),
        LONG + HR,
        "different numbers of fields",
    ),
    "200,000 columns": (
        "t.csv",
        lambda: ",".join(["r", "t", *map(str, range(200_000))]).encode(),
        WIDE + HR,
        "has 200,002 columns, more than 10,000",
    ),
    "40,000 variables": (
        "t.csv",
        lambda: b"r,t,c,v\n1,1,HR,1\n",
        LONG + "".join(f'[variables.V{i}]\nunit = "x"\n' for i in range(40_000)),
        "names 40,000 variables, more than 5,000",
    ),
    "a mapping without end": ("t.csv", lambda: b"r,t,c,v\n1,1,HR,1\n", LONG + HR + "#" * (5 << 20), "longer than 4 MB"),
    "a pattern of stars": (
        "t.csv",
        lambda: b"r,t,c,v\n1,1," + b"a" * 5_000 + b",1\n",
        f'{LONG}{HR}codes = ["{"a*" * 30}b"]\n',
        READ,
    ),
}


def lay(name: str, folder: Path) -> str:
    """Writes a bomb and its mapping; returns the name of its file."""
    file, data, mapping, _ = BOMBS[name]
    (folder / file).write_bytes(data())
    (folder / "m.toml").write_text(f'source = "{file}"\n{mapping}')
    return file


def a_bomb(draw: Draw, folder: Path) -> str | None:
    """One of them, by turns, to `validate` in a process of bounded memory and time."""
    name = list(BOMBS)[_turn(draw, len(BOMBS))]
    file, wanted = lay(name, folder), BOMBS[name][3]
    code, err, _ = bounded(folder, "validate", "m.toml", "--no-cache")
    if code not in (0, 1) or not re.search(wanted, err) or (code == 1 and file not in err and "m.toml" not in err):
        return f"{name}: exit code {code}: {err[-300:]}"
    return None


def a_dense_grid(draw: Draw, folder: Path) -> str | None:
    """A grid of any size: done within the same memory, or refused."""
    (folder / "ward").mkdir()
    first = sorted((ROOT / "examples/set-b-sample").glob("[0-9]*.txt"))[0]
    (folder / "ward" / first.name).write_bytes(first.read_bytes())
    grid = [10**8, 2 * 10**9, 20_001, 5_000][_turn(draw, 4)]
    code, err, _ = bounded(folder, "continuum", "ward", "--grid", str(grid))
    wanted = (0, "rows") if grid <= 20_000 else (2, "the grid has 20,000 times at most")
    return None if code == wanted[0] and wanted[1] in err else f"grid {grid}: exit code {code}: {err[-300:]}"


def _turn(draw: Draw, count: int) -> int:
    """By turns, since an attempt's draws depend on its number alone."""
    seed = draw.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
    return int(seed) % count


def bounded(folder: Path, *words: str) -> tuple[int, str, int]:
    """Exit code, stderr and peak memory in bytes of levyscreen within MEMORY_BYTES and SECONDS; 137 beyond them."""
    limit = f"import resource as r; r.setrlimit(r.RLIMIT_AS, ({MEMORY_BYTES},) * 2)"
    program = f"{limit}; from levyscreen.cli.entry import main; main()"
    with tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env={"PYTHONPATH": str(ROOT), "LEVYSCREEN_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        )
        clock = threading.Timer(SECONDS, child.kill)
        clock.start()
        _, status, used = os.wait4(child.pid, 0)
        clock.cancel()
        code = os.waitstatus_to_exitcode(status)
        child.returncode = code  # it was waited for here
        err.seek(0)
        return 137 if code == -signal.SIGKILL else code, err.read().decode(), used.ru_maxrss * 1024


def main() -> None:
    """Of each bomb its size, what it took, and how it ended."""
    print("| table | kB | peak MB | seconds | exit code |\n|-|-|-|-|-|")
    for name in BOMBS:
        with tempfile.TemporaryDirectory() as where:
            folder = Path(where)
            # Elsewhere, for a child's peak is at least what its parent once took.
            laid = "import sys; from tests.faults.bounds import *; lay(sys.argv[1], Path(sys.argv[2]))"
            subprocess.run([sys.executable, "-c", laid, name, where], check=True)
            size = sum(path.stat().st_size for path in folder.iterdir())
            began = time.perf_counter()
            code, _, peak = bounded(folder, "validate", "m.toml", "--no-cache")
            print(f"| {name} | {size / 1e3:,.0f} | {peak / 1e6:,.0f} | {time.perf_counter() - began:.1f} | {code} |")


ROWS: tuple[Row, ...] = (
    Row(
        "a small table that unpacks to much, or of absurdly many columns, lines or variables",
        "read, or refused by its name, within 4 GB of addresses and a minute",
        a_bomb,
        len(BOMBS),
        3 * len(BOMBS),
    ),
    Row("a grid of any number of times", "done within 4 GB of addresses and a minute, or refused", a_dense_grid, 2, 8),
)


if __name__ == "__main__":
    main()
