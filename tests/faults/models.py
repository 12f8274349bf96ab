"""Model folders that are damaged, foreign or hostile."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
