"""Where the command starts: what stops it must find it ready before torch, pandas or even Typer is imported.

A stopped command removes what it has half written and ends there and then. An exception instead would be swallowed by
whatever code happens to run, wait for threads to finish their batches, or come out of an import as a traceback.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from levyscreen.pending import undo_all

PATIENCE_SECONDS = 1.0  # for the main thread to leave an operation that no signal interrupts, a long matrix product
SAID = b"levyscreen: interrupted; nothing was left half written\n"
SHOW_CURSOR = b"\x1b[?25h"  # a progress bar hides it


def main() -> None:
    """The `levyscreen` command."""
    _open_standard_streams()
    stop_cleanly()
    from levyscreen.cli.app import main as run

    try:
        run()
    except SystemExit as ended:
        if ended.code == 0 or ended.code is None or not isinstance(ended.code, int):
            raise
        _end_at_once(ended.code)


def _end_at_once(code: int) -> None:
    """Ends the process after an error, not waiting for Arrow's threads: one that reads on would abort Python's end."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Of a standard stream that the caller had closed, nothing: else the next file that is opened takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (as long as the process)


def stop_cleanly() -> None:
    """Makes Ctrl-C (exit code 130) and SIGTERM (143) end this process at once, with nothing left half written."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_stop_if_busy, args=(read,), name="levyscreen-stop", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None = None) -> None:
    """Ends the process; also if called again in the midst of it."""
    undo_all()
    with suppress(OSError):
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + SAID)
    os._exit(128 + number)


def _stop_if_busy(read: int) -> None:
    """Python calls `_stop` between two instructions of the main thread; this does where the next one takes too long."""
    number = os.read(read, 1)[0]
    time.sleep(PATIENCE_SECONDS)
    _stop(number)
