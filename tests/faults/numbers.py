"""Extreme values through the whole pipeline."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
