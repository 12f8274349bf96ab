"""Commands as processes of their own, forked from one that has imported everything: a start takes milliseconds.

`python -m tests.faults.forks` is that process: a job a line on its standard input, a JSON object per job out.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from levyscreen.cli.app import app
from levyscreen.cli.entry import main, stop_cleanly
from levyscreen.errors import LevyscreenError
from levyscreen.learn import reader
from levyscreen.records import parquet, spill

ROOT = Path(__file__).parents[2]
MODULES = (
    "levyscreen.screen",
    "levyscreen.compare",
    "levyscreen.continuum",
    "levyscreen.timeline",
    "levyscreen.training",
    "levyscreen.report.tables",
    "levyscreen.records.validate",
    "rich.progress",
    "torch._dynamo",  # which an optimiser loads as it is made
    "tests.faults.scripts",
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int  # minus the signal that killed it
    out: str
    err: str


class Commands:
    """Runs one command at a time, in a folder, its cache in `folder`/cache, temporary files in `folder`/tmp."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        atexit.register(self.close)

    def start(self, folder: Path, *words: object, **limits: Any) -> int:
        """Starts a command and gives its process; `limits` are keys of a job (see _limit)."""
        job = {"folder": str(folder), "words": [str(word) for word in words], **limits}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> Done:
        """Waits for the command that was started last."""
        return Done(**json.loads(self.process.stdout.readline()))

    def run(self, folder: Path, *words: object, **limits: Any) -> Done:
        """Both."""
        self.start(folder, *words, **limits)
        return self.end()

    def close(self) -> None:
        self.process.communicate()


@cache
def commands(number: int = 0) -> Commands:
    """The same one for every attempt; a second where two run at once."""
    return Commands()


def _serve() -> None:
    for name in MODULES:
        import_module(name)
    reader.EPOCHS = 1  # a meta-model need not be good here
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        app(["cache", "list"], standalone_mode=False)  # Typer loads the half of itself only now
    gc.collect()
    gc.freeze()  # else a collection in a child copies every page it shares
    child = None
    for line in sys.stdin:
        if child is not None:
            os.waitpid(child, 0)  # only now: who sends a signal late must not find another process by its number
        pipes = [os.pipe() for _ in "oe"]
        child = os.fork()
        if child == 0:
            _run(json.loads(line), pipes)
        print(child, flush=True)
        for _, write in pipes:
            os.close(write)
        texts = [open(read, encoding="utf-8", errors="replace").read() for read, _ in pipes]  # noqa: SIM115
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        print(json.dumps({"code": code, "out": texts[0], "err": texts[1]}), flush=True)


def _run(job: dict[str, Any], pipes: list[tuple[int, int]]) -> None:
    """The child. It ends without a collection, of pages that are all shared, which would take longer than the rest."""
    code = 0
    try:
        _limit(job, pipes)
        _call(job)
    except SystemExit as ended:
        code = ended.code or 0
    except LevyscreenError as error:  # of a script
        print(f"levyscreen: {error}", file=sys.stderr)
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 70
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def _limit(job: dict[str, Any], pipes: list[tuple[int, int]]) -> None:
    os.chdir(job["folder"])
    os.environ["LEVYSCREEN_CACHE_DIR"] = str(Path(job["folder"]) / "cache")
    tempfile.tempdir = str(Path(job["folder"]) / "tmp")
    os.makedirs(tempfile.tempdir, exist_ok=True)
    if "memory_lines" in job:  # a cohort of more lines than these is large, and stays on disk
        spill.MEMORY_LINES = parquet.MEMORY_LINES = job["memory_lines"]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, (_, write) in enumerate(pipes, start=1):
        os.dup2(write, number)
    if "stdout" in job:
        os.dup2(os.open(job["stdout"], os.O_WRONLY), 1)
    if "file_bytes" in job:  # a write beyond fails as on a full disk: Python ignores SIGXFSZ
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], job["file_bytes"]))
    if job.get("die"):  # there and then, in the midst of that write, instead
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if "more_memory" in job:
        limit = _data_bytes() + job["more_memory"]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _call(job: dict[str, Any]) -> None:
    """The command, or the function of tests.faults.scripts, that the job names."""
    if "script" in job:
        stop_cleanly()
        getattr(import_module("tests.faults.scripts"), job["script"])(*job["words"])
    else:
        sys.argv = ["levyscreen", *job["words"]]
        main()


def _data_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmData")))


if __name__ == "__main__":
    _serve()
