"""Readings that fall outside their stay: how many, and what would bring them in."""

from __future__ import annotations

import pytest

from tests.records.mapped.small_table import LONG, read


def rows(step: float, hours: int = 48, records: int = 5):
    return [(r, f"{h * step:.6f}", "HR", 80 + h % 7) for r in range(records) for h in range(hours)]


def note(tmp_path, made, head: str = LONG) -> str | None:
    notes = read(tmp_path, made, head).notes
    return notes[0] if notes else None


@pytest.mark.parametrize(
    ("step", "unit"), [(60, "minutes"), (3600, "seconds"), (3.6e6, "milliseconds"), (3.6e9, "microseconds")]
)
def test_where_most_readings_are_outside_the_unit_that_fits_is_named(step, unit, tmp_path):
    assert note(tmp_path, rows(step)) == (
        f'235 of 240 readings (98%) fall outside their stay; with unit = "{unit}" under [time], 100% would be inside; '
        "if stays do last longer than 48 hours, set windows = true, or a longer horizon"
    )


def test_long_stays_are_told_of_windows_and_windows_hold_them(tmp_path):
    made = [(r, h, "HR", 80) for r in range(3) for h in range(0, 4800, 40)]
    said = note(tmp_path, made)
    assert said is not None
    assert "354 of 360 readings (98%) fall outside" in said
    assert said.endswith("if stays do last longer than 48 hours, set windows = true, or a longer horizon")
    assert note(tmp_path, made, "windows = true\n" + LONG) is None


def test_readings_before_hour_0_are_told_of_the_origin(tmp_path):
    assert note(tmp_path, rows(-1)) == (
        "235 of 240 readings (98%) fall outside their stay, most of them before hour 0: look at origin, and at unit, "
        "under [time]"
    )


def test_days_that_are_read_as_hours_are_told_of(tmp_path):
    assert note(tmp_path, rows(1 / 24)) == (
        'nearly all readings fall into the first 3.2 of 48 hours: if their times are in days, set unit = "days" under '
        "[time]"
    )


def test_where_most_readings_are_inside_nothing_is_said(tmp_path):
    assert note(tmp_path, rows(1)) is None
    assert note(tmp_path, rows(1, 90)) is None
