"""Hostile archives and folders."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
