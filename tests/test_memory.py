"""What does not fit into memory is halved until it does, in its order; any other error is left as it is."""

import numpy as np
import pytest
import torch

from levyscreen.errors import LevyscreenError
from levyscreen.memory import halving, is_out_of_memory

ROWS = np.arange(7)


def room_for(most, error):
    def work(rows):
        if len(rows) > most:
            raise error
        return rows.tolist()

    return work


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_a_batch_is_halved_until_it_fits_and_keeps_its_order(most):
    parts = halving(room_for(most, MemoryError()), ROWS, ROWS)
    assert [row for part in parts for row in part] == ROWS.tolist()
    assert max(map(len, parts)) <= most


def test_a_record_that_does_not_fit_alone_is_said_with_its_readings():
    with pytest.raises(LevyscreenError, match="not enough memory for one record of 1,234 readings: free some"):
        halving(room_for(0, MemoryError()), ROWS, np.full(7, 1234))


def test_another_error_is_left_as_it_is():
    with pytest.raises(RuntimeError, match="shapes"):
        halving(room_for(0, RuntimeError("shapes")), ROWS, ROWS)


@pytest.mark.parametrize("ask", [lambda: torch.empty(1 << 50), lambda: np.empty(1 << 50)])
def test_the_errors_of_torch_and_numpy_are_known_as_lack_of_memory(ask):
    with pytest.raises((MemoryError, RuntimeError)) as error:
        ask()
    assert is_out_of_memory(error.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    full = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    assert is_out_of_memory(RuntimeError(full))
