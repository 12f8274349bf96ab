"""Kills, full disks, interrupts, two at once, flipped bits: as processes."""

from tests.faults.row import Row

ROWS: tuple[Row, ...] = ()
