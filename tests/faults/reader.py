"""Record files with every oddity."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
