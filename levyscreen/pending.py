"""What is to be undone if this process is stopped now. Imports next to nothing: a command loads it before all else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_pending: dict[object, Callable[[], None]] = {}


@contextmanager
def undoing(undo: Callable[[], None]) -> Iterator[None]:
    """Calls `undo` as the block ends, however it ends, also where a signal ends the whole command in it."""
    key = object()
    _pending[key] = undo
    try:
        yield
    finally:
        undo()
        del _pending[key]


def undo_all() -> None:
    """Every `undo` of the blocks that this process is in, the innermost first; for a process that is about to end."""
    for undo in reversed(list(_pending.values())):
        with suppress(Exception):  # nothing may keep the others from being undone
            undo()
