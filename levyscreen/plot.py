"""The picture of one record: its readings, the model's prediction and the calibrated band over the stay (fig:demo)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levyscreen.errors import UsageError
from levyscreen.names import printable
from levyscreen.timeline import Asker, ContinuumSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort
    from levyscreen.records.preprocessor import Preprocessor
    from levyscreen.records.readings import Readings
    from levyscreen.store import Model
    from levyscreen.variables import Variable

GRID = 288  # times: every ten minutes of 48 hours
PANELS = 3  # variables drawn where none are named
INK, BLUE, GREY = "#222222", "#0072B2", "#888888"  # blue and black stay apart for every kind of colour vision
WIDTH_INCHES, PANEL_INCHES = 9.0, 2.7
EVIDENCE_SHARE = 0.16  # of a panel's height


@dataclass(frozen=True)
class Panel:
    """What is drawn of one variable, in its unit; times in hours."""

    variable: Variable
    reading_time: NDArray[np.float32]  # (n,)
    reading: NDArray[np.float32]  # (n,)
    time: NDArray[np.float32]  # (T,)
    prediction: NDArray[np.float32]  # (T,)
    lower: NDArray[np.float32]  # (T,), -inf where the calibration knows too little of the variable
    upper: NDArray[np.float32]  # (T,)
    evidence: NDArray[np.float32]  # (T,)


def draw(
    cohort: Cohort,
    model: Model,
    record_id: int,
    variables: Sequence[str] | None = None,
    level: float = 0.9,
) -> Figure:
    """A matplotlib figure of one record, a panel a variable: `variables`, or the three with the most readings.

    The band is the interval calibrated at `level`. Under each panel stands the evidence found at each time. Raises
    UsageError where matplotlib is absent, the record is not in the cohort, has too few readings or cannot be read, or a
    variable is unknown; CalibrationError where the model has no calibration or none at `level`.
    """
    _require_matplotlib()
    panels = ask(cohort, model, record_id, variables, level)
    figure, slots = _figure(len(panels), model.preprocessor.variables.horizon_hours)
    for panel, (above, below) in zip(panels, slots, strict=True):
        _draw_values(above, panel, level)
        _draw_evidence(below, panel, max(float(p.evidence.max()) for p in panels))
    handles, labels = slots[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    title = printable(f"Record {record_id} of {cohort.name}, model {model.name}")
    figure.suptitle(title, color=INK, parse_math=False)
    return figure


def ask(
    cohort: Cohort,
    model: Model,
    record_id: int,
    variables: Sequence[str] | None = None,
    level: float = 0.9,
) -> list[Panel]:
    """What `draw` draws, one panel a variable, in the order of `variables`; raises the same."""
    preprocessor = model.preprocessor
    record = _record(cohort, model, record_id)
    names = tuple(dict.fromkeys(variables)) if variables else most_read(record, preprocessor)
    settings = ContinuumSettings(grid=GRID, variables=names, level=level, with_deviation=True)
    timeline = Asker(model, settings).ask(record)
    place = {int(variable): i for i, variable in enumerate(timeline.variable)}
    panels = []
    for index in map(preprocessor.variables.names.index, names):
        of_variable = record.variable == index
        columns = {name: values[0, place[index]] for name, values in timeline.columns.items()}
        panels.append(
            Panel(
                variable=preprocessor.variables.variables[index],
                reading_time=record.time[of_variable] * np.float32(preprocessor.variables.horizon_hours),
                reading=preprocessor.to_units(record.variable[of_variable], record.value[of_variable]),
                time=timeline.time_hours,
                **{name: columns[name] for name in ("prediction", "lower", "upper", "evidence")},
            )
        )
    return panels


def _record(cohort: Cohort, model: Model, record_id: int) -> Readings:
    """The readings of the record. Raises UsageError, without the id, where it cannot be asked."""
    rows = np.flatnonzero(cohort.records.column("record_id").fill_null(-1).to_numpy() == record_id)
    problems = cohort.records.column("problem").take(rows).to_pylist()
    readable = [int(row) for row, problem in zip(rows, problems, strict=True) if problem is None]
    if record_id < 0 or not len(rows):
        raise UsageError(
            f"no such record in cohort {cohort.name}: its ids are in the column record_id that levyscreen screen "
            "prints; another cohort is named by --cohort"
        )
    if not readable:
        raise UsageError(f"this record is unreadable: {problems[0]}")
    record = model.preprocessor.apply(cohort.part(readable[0], readable[0] + 1))
    least = model.preprocessor.protocol.min_readings
    if record.lengths[0] < least:
        raise UsageError(
            f"this record has fewer than {least} readings, too few for model {model.name} to claim an uncertainty: "
            "choose one whose status is scored"
        )
    return record


def most_read(record: Readings, preprocessor: Preprocessor) -> tuple[str, ...]:
    """Names of the variables that one record has the most readings of, PANELS at most; none that never varies."""
    count = np.bincount(record.variable[record.may_be_target], minlength=len(preprocessor.variables))
    most = np.argsort(-count, kind="stable")[:PANELS]
    return tuple(preprocessor.variables.names[i] for i in most if count[i])


# Drawing ------------------------------------------------------------------------------------------------------------


def _require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("plot needs matplotlib: pip install 'levyscreen[plot]'") from None


def _figure(panels: int, hours: float) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """A figure that no global state knows and that needs no display, and a tall and a flat axis a panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_INCHES, PANEL_INCHES * panels + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 * panels, 1, sharex=True, squeeze=False, height_ratios=[1, EVIDENCE_SHARE] * panels)[:, 0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
    axes[-1].set(xlim=(0, hours), xticks=np.arange(0, hours + 1, hours / 8), xlabel="hours since admission")
    return figure, list(zip(axes[::2], axes[1::2], strict=True))


def _draw_values(axis: Axes, panel: Panel, level: float) -> None:
    variable, bounded = panel.variable, np.isfinite(panel.lower) & np.isfinite(panel.upper)
    axis.set_title(_title(panel, bool(bounded.any())), loc="left", fontsize="medium", color=INK, parse_math=False)
    axis.set_ylabel(variable.unit, color=INK, parse_math=False)
    axis.fill_between(
        panel.time,
        panel.lower,
        panel.upper,
        where=bounded,
        color=BLUE,
        alpha=0.2,
        linewidth=0,
        label=f"interval calibrated at {100 * level:g} %",
    )
    axis.plot(panel.time, panel.prediction, color=BLUE, linewidth=1.4, label="prediction")
    axis.plot(
        panel.reading_time,
        panel.reading,
        "o",
        color=INK,
        markersize=3,
        label="readings, all known to the model",
    )


def _title(panel: Panel, bounded: bool) -> str:
    variable = panel.variable
    same = variable.name.lower() == variable.meaning.lower()
    notes = [] if len(panel.reading) else ["never measured in this record"]
    notes += [] if bounded else ["too rare in the calibration for a band at this level"]
    return ", ".join([variable.name, *([] if same else [variable.meaning])]) + (
        f" ({'; '.join(notes)})" if notes else ""
    )


def _draw_evidence(axis: Axes, panel: Panel, most: float) -> None:
    axis.fill_between(panel.time, panel.evidence, color=GREY, alpha=0.6, linewidth=0)
    axis.set(ylim=(0, most), yticks=[0, most], yticklabels=["0", f"{most:,.0f}" if most >= 10 else f"{most:.2g}"])
    axis.set_ylabel("evidence", color=GREY, fontsize="small", rotation=0, ha="right", va="center")
    axis.tick_params(axis="y", colors=GREY, labelsize="small")
