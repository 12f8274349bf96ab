"""The same answer whatever the machine, its settings and the company of other records."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
