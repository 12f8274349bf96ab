"""Work that runs out of memory is halved and goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from levyscreen.errors import LevyscreenError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Result = TypeVar("Result")

# A CPU tensor that does not fit is a plain RuntimeError, and so is what oneDNN, without room for its workspace, and
# Arrow, without room for a thread's stack, come up with: told from others by their text alone.
_SIGNS = (
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",  # cuBLAS and cuDNN, where a GPU has no room for their handles
    "bad_alloc",
    "could not create a primitive",
    "can't start new thread",
    "Failed to launch worker thread",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: of Python, numpy, Arrow, or a tensor on any device."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def halving(
    work: Callable[[NDArray[np.int64]], Result], rows: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[Result]:
    """`work` of all rows, or of as large parts of them as memory allows, in their order.

    Raises LevyscreenError where a single record does not fit; `lengths` are the readings of each.
    """
    try:
        return [work(rows)]
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(rows) == 1:
            raise LevyscreenError(
                f"not enough memory for one record of {int(lengths[rows[0]]):,} readings: free some memory, "
                "take --device cpu, or leave that record out"
            ) from error
    # Outside of the handler: until it ends, its traceback holds the tensors of the whole batch.
    middle = len(rows) // 2
    return [*halving(work, rows[:middle], lengths), *halving(work, rows[middle:], lengths)]
