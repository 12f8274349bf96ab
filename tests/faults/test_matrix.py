import pytest

from tests.faults.matrix import ROWS
from tests.faults.row import failures


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_a_fault_has_no_consequence_but_the_one_it_must_have(row):
    assert [(seed, wrong) for seed, wrong in failures(row, row.short) if wrong is not None] == []
