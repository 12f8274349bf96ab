"""No reading and no id where it does not belong."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
