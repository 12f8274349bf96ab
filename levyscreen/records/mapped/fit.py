"""How many readings fall outside their stay, and under which unit of time, or with which key, they would not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levyscreen.records.mapped.mapping import UNITS, Mapping

MOSTLY = 0.5  # of the readings: if more are outside, the mapping is likely wrong
FITS = 0.8  # of the readings that another unit would bring inside
FIRST_PART = 1 / 15  # of the stay, in which nearly all readings of a stay are seldom
NEARLY_ALL = 0.99
MANY = 200  # readings, from which on it is no chance that all come early
COARSER = {"seconds": "minutes", "minutes": "hours", "hours": "days"}


class Fit:
    """Counts readings by where they fall; of times that are numbers, under every unit."""

    def __init__(self, mapping: Mapping, scale: tuple[float, float]) -> None:
        self._horizon, self._windows = mapping.variables.horizon_hours, mapping.windows
        self._unit = mapping.time.unit if mapping.time.unit in UNITS and scale == mapping.time.scale else None
        self._hour = scale[0] / scale[1]
        self._count = self._before = self._after = self._early = 0
        self._inside = dict.fromkeys(UNITS, 0)

    def see(self, hours: NDArray[np.float64]) -> None:
        """Hours since hour 0 of some readings, (N,)."""
        self._count += len(hours)
        self._before += int((hours < 0).sum())
        self._after += int((hours > self._horizon).sum())
        self._early += int(((hours >= 0) & (hours <= FIRST_PART * self._horizon)).sum())
        if self._unit is not None:
            for unit, (times, by) in UNITS.items():
                there = hours / self._hour * times / by
                self._inside[unit] += int(((there >= 0) & (there <= self._horizon)).sum())

    def note(self) -> str | None:
        """What is odd about where readings fall, and what to look at; None where nothing is."""
        outside = self._before + (0 if self._windows else self._after)
        if outside > MOSTLY * self._count:
            return self._outside(outside)
        return self._too_early()

    def _outside(self, outside: int) -> str:
        said = f"{outside:,} of {self._count:,} readings ({outside / self._count:.0%}) fall outside their stay"
        if self._before > self._after:
            return f"{said}, most of them before hour 0: look at origin, and at unit, under [time]"
        unit = self._fitting()
        if unit is not None:
            said += f'; with unit = "{unit}" under [time], {self._inside[unit] / self._count:.0%} would be inside'
        longer = f"if stays do last longer than {self._horizon:g} hours, set windows = true, or a longer horizon"
        return f"{said}; {longer}"

    def _fitting(self) -> str | None:
        """The coarsest finer unit under which most readings are inside."""
        finer = (u for u, (times, by) in UNITS.items() if self._unit and times / by < self._hour)
        return next((unit for unit in finer if self._inside[unit] >= FITS * self._count), None)

    def _too_early(self) -> str | None:
        """Readings that all come so early that another unit is likely the right one."""
        coarser = COARSER.get(self._unit or "")
        if coarser is None or self._count < MANY or self._early < NEARLY_ALL * self._count:
            return None
        if self._inside[coarser] < NEARLY_ALL * self._count:
            return None
        return (
            f"nearly all readings fall into the first {FIRST_PART * self._horizon:.2g} of {self._horizon:g} hours: "
            f'if their times are in {coarser}, set unit = "{coarser}" under [time]'
        )


class Fits:
    """The readings of several tables, each by its own unit."""

    def __init__(self, tables: Sequence[Fit], of_files: Sequence[int]) -> None:
        """`of_files` says of each file of the register, of which table it is."""
        self._tables, self._of_files = tables, np.array(of_files, dtype=np.int64)

    def see(self, hours: NDArray[np.float64], file: NDArray[np.int64]) -> None:
        """Hours since hour 0 of some readings, and the file of each, (N,) both."""
        table = self._of_files[file]
        for number, fit in enumerate(self._tables):
            fit.see(hours[table == number])

    def notes(self) -> list[list[str]]:
        """What is odd about each table, a sentence or none."""
        return [[note] if (note := fit.note()) else [] for fit in self._tables]
