"""The course of each flagged patient, as the screening saw it.

Only the readings left to the model are its context here, so that the picture shows the questions that made the patient
stand out, with their answers, and not how well the model follows readings that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.plot import Panel, most_read
from levyscreen.report.chart import Frame, span
from levyscreen.timeline import WINDOW, Asker, ContinuumSettings, Timeline, timelines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.preprocessor import Preprocessor
    from levyscreen.records.readings import Readings
    from levyscreen.report.asking import Asked
    from levyscreen.store import Model

GRID = 96  # times: every half hour of 48
DRAWN = ("prediction", "lower", "upper", "evidence")
PARTS = 8  # of the stay, between its ticks: six hours of 48
# In units of the picture, some 0.6 pixels each on a screen.
WIDTH, LEFT, RIGHT, TITLE, TALL, FLAT, GAP, BOTTOM = 1600, 120, 20, 44, 190, 36, 22, 70


@dataclass(frozen=True)
class Course:
    """What is drawn of one variable of one patient; the panel's readings are those left to the model."""

    panel: Panel
    hidden_time: NDArray[np.float32]  # (h,) hours
    hidden: NDArray[np.float32]  # (h,) in the variable's unit


def courses(
    model: Model, asked: Asked, variables: Mapping[int, tuple[str, ...]], level: float
) -> Iterator[tuple[int, list[Course]]]:
    """Id and courses of each flagged record, the least trusted first, a few computed at a time.

    `variables` names those to draw of each record; without a name, those with the most hidden readings. Raises
    CalibrationError where the model has no calibration or none at `level`.
    """
    asker = Asker(model, ContinuumSettings(grid=GRID, level=level, with_deviation=True))
    count = len(asked.seen)
    windows = (asked.seen.take(np.arange(first, min(first + WINDOW, count))) for first in range(0, count, WINDOW))
    row = 0
    for timeline in timelines(asker, windows):
        for place, record_id in enumerate(timeline.record_id.tolist()):
            seen, hidden = (part.take(np.array([row])) for part in (asked.seen, asked.hidden))
            names = variables.get(record_id) or most_read(hidden, model.preprocessor)
            yield record_id, [_course(model.preprocessor, timeline, place, name, seen, hidden) for name in names]
            row += 1


def _course(
    preprocessor: Preprocessor, timeline: Timeline, place: int, name: str, seen: Readings, hidden: Readings
) -> Course:
    index = preprocessor.variables.names.index(name)
    columns = {column: timeline.columns[column][place, index] for column in DRAWN}
    panel = Panel(
        preprocessor.variables.variables[index],
        *_readings(preprocessor, index, seen),
        time=timeline.time_hours,
        **columns,
    )
    return Course(panel, *_readings(preprocessor, index, hidden))


def _readings(
    preprocessor: Preprocessor, index: int, readings: Readings
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Hours and values, in its unit, of one variable."""
    of_it = readings.variable == index
    hours = readings.time[of_it] * np.float32(preprocessor.variables.horizon_hours)
    return hours, preprocessor.to_units(readings.variable[of_it], readings.value[of_it])


def picture(record_id: int, drawn: list[Course], hours: float) -> dict[str, Any]:
    """The courses one below the other, for the template; `hours` is the length of the stay."""
    most = max(float(course.panel.evidence.max()) for course in drawn)
    step = TITLE + TALL + GAP + FLAT
    panels = [_panel(course, place * step + TITLE, most, hours) for place, course in enumerate(drawn)]
    return {
        "width": WIDTH,
        "height": len(drawn) * step + BOTTOM,
        "title": f"Record {record_id}: {', '.join(course.panel.variable.name for course in drawn)}",
        "description": "; ".join(_in_words(course) for course in drawn),
        "panels": panels,
        "hours": [(LEFT + (WIDTH - LEFT - RIGHT) * i // PARTS, f"{hours * i / PARTS:g}") for i in range(PARTS + 1)],
    }


def _panel(course: Course, top: int, most_evidence: float, hours: float) -> dict[str, Any]:
    panel, wide = course.panel, WIDTH - LEFT - RIGHT
    values = span(panel.prediction, panel.lower, panel.upper, panel.reading, course.hidden)
    above = Frame(LEFT, top, wide, TALL, (0.0, hours), values)
    below = Frame(LEFT, top + TALL + GAP, wide, FLAT, (0.0, hours), (0.0, most_evidence or 1.0))
    return {
        "title": _title(course),
        "above": above,
        "below": below,
        "band": above.band(panel.time, panel.lower, panel.upper),
        "prediction": above.line(panel.time, panel.prediction),
        "seen": above.dots(panel.reading_time, panel.reading),
        "hidden": above.dots(course.hidden_time, course.hidden),
        "evidence": below.band(panel.time, np.zeros(len(panel.time)), panel.evidence),
        "most_evidence": f"{most_evidence:,.0f}" if most_evidence >= 10 else f"{most_evidence:.2g}",
    }


def _title(course: Course) -> str:
    variable = course.panel.variable
    same = variable.name.lower() == variable.meaning.lower()
    named = [variable.name, *([] if same or not variable.meaning else [variable.meaning])]
    notes = [] if len(course.panel.reading) else ["no reading of it was given to the model"]
    notes += [] if np.isfinite(course.panel.upper).any() else ["too rare in the calibration for an interval"]
    title = ", ".join([*named, *([variable.unit] if variable.unit else [])])
    return f"{title} ({'; '.join(notes)})" if notes else title


def _in_words(course: Course) -> str:
    """For those who do not see the picture."""
    left, asked = len(course.panel.reading), len(course.hidden)
    return f"{course.panel.variable.name}: {left} readings given to the model, {asked} held out"
