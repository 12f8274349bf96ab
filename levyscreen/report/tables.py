"""Rich tables and one-line summaries of what the library returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.table import Table
from rich.text import Text

from levyscreen import schema
from levyscreen.names import counted, printable
from levyscreen.types import LineClass

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult

    from levyscreen.records.cohort import Cohort

MOST_ROWS = 60


def frame_table(frame: pd.DataFrame, title: str, digits: int = 3) -> Table:
    """Any frame, floats rounded; numbers right-aligned, text inert."""
    table = Table(title=_inert(title), title_justify="left")
    for name in frame.columns:
        table.add_column(_inert(name), justify="left" if frame[name].dtype.kind in "OSU" else "right")
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(value, digits) for value in row))
    return table


def _cell(value: Any, digits: int) -> str | Text:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.{digits}f}"
    return _inert(value)


def _inert(value: Any) -> Text:
    """Text that holds neither markup nor anything else that a terminal obeys."""
    return Text(printable(str(value)))


def scores_table(shown: pd.DataFrame, scores: pd.DataFrame, signal: str) -> ScoresTable:
    """The records to look at first: what cannot be ranked, then the least trusted."""
    flagged, scored = int(scores["flagged"].sum()), int((scores["status"] == "scored").sum())
    not_ranked = len(scores) - scored
    title = f"{flagged} of {counted(scored, 'ranked record')} flagged, {not_ranked} not ranked; signal: {signal}"
    return ScoresTable(shown, title, signal)


@dataclass(frozen=True)
class ScoresTable:
    """Scores as wide as the terminal: nothing of an id is cut, and where there is no room, columns are left out."""

    shown: pd.DataFrame
    title: str
    signal: str

    # How each cell is had from a row of schema.SCORES, in the order of the columns.
    CELLS: ClassVar[dict[str, Callable[[Any], str | Text]]] = {
        "rank": lambda row: str(row.trust_rank) if row.status == "scored" else "-",
        "record": lambda row: str(row.record_id).replace("<NA>", "-"),
        "readings": lambda row: str(row.n_readings),
        "uncertainty": lambda row: _number(row.uncertainty, ".3f"),
        "interval width": lambda row: _number(row.interval_width, ".2f"),
        "evidence": lambda row: _number(row.evidence, ".0f"),
        "mae": lambda row: _number(row.mae, ".3f"),
        "reason": lambda row: _reason(row),
        "worst variables": lambda row: _variables(row.worst_variables),
    }
    LEFT_OUT: ClassVar = ("readings", "evidence", "interval width", "mae")  # in this order
    LEAST_VARIABLES = 12  # characters that a line of them takes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """For Rich."""
        rows: list[Any] = list(self.shown.head(MOST_ROWS).itertuples(index=False))
        cells = {name: [cell(row) for row in rows] for name, cell in self.CELLS.items()}
        names, left_out = list(cells), list(self.LEFT_OUT)
        while left_out and sum(self._width(name, cells[name]) + 3 for name in names) + 1 > options.max_width:
            names.remove(left_out.pop(0))
        table = Table(
            title=self.title,
            title_justify="left",
            caption=_caption(len(self.shown), self.signal),
            caption_justify="left",
        )
        for name in names:
            wraps = name == "worst variables"
            table.add_column(
                name.replace(" ", "\n"),
                justify="left" if wraps or name == "reason" else "right",
                no_wrap=not wraps,
                min_width=self._width(name, cells[name]),
            )
        for row, *in_row in zip(rows, *(cells[name] for name in names), strict=True):
            table.add_row(*in_row, style="bold" if row.status == "scored" and row.flagged else None)
        yield table

    def _width(self, name: str, cells: Sequence[str | Text]) -> int:
        """Of the longest cell, or word of the title."""
        if name == "worst variables":
            return self.LEAST_VARIABLES
        return max(len(text) for text in [*name.split(), *cells])


def in_deviations(signal: str) -> bool:
    """Whether a signal that ranks is in standard deviations of the variable; the others are in units of the layer."""
    return signal in ("calibrated", "deviation")


def _caption(rows: int, signal: str) -> str:
    what = "uncertainty, width and mae" if in_deviations(signal) else "width and mae"
    text = f"{what} in standard deviations of the variable; rank 1 is the least reliable"
    return text if rows <= MOST_ROWS else f"{text}; the first {MOST_ROWS} of {rows}, all of them in scores.parquet"


def _number(value: Any, form: str) -> str:
    return "-" if value != value or value is None else format(value, form)


def _reason(row: Any) -> str:
    """Why a record is flagged, or is not ranked."""
    if row.status != "scored":
        return str(row.status)
    return row.reason if isinstance(row.reason, str) else ""  # pandas may hold a missing one as NaN


def _variables(value: Any) -> Text:
    return _inert(value.replace(";", " ") if isinstance(value, str) else "")


def comparison_table(comparison: pd.DataFrame) -> Table:
    """The upper block of the paper's tab:cohort, for this cohort."""
    table = Table(title="Patient-level triage quality", title_justify="left")
    table.add_column("trust signal")
    for name in ("passes", "wall-clock", "ratio", "Spearman", "flagged decile", "cohort MAE"):
        table.add_column(name, justify="right")
    rows: list[Any] = list(comparison.itertuples(index=False))
    for row in rows:
        table.add_row(
            row.signal,
            str(row.passes),
            f"{row.wall_clock_s:.1f} s",
            f"{row.ratio:.1f}",
            f"{row.spearman:.3f}",
            f"{100 * row.flagged_decile_excess:+.1f} %",
            f"{row.cohort_mae:.3f}",
        )
    return table


def rejects_line(cohort: Cohort) -> str:
    """How many lines are not readings, by class; empty where all are."""
    kept = (LineClass.READING, LineClass.DESCRIPTOR)
    counts = {c: cohort.count(c) for c in schema.COUNTED_CLASSES if c not in kept}
    said = [f"{count:,} {c.name.lower().replace('_', ' ')}" for c, count in counts.items() if count]
    return "rejected lines: " + ", ".join(said) if said else ""


def timing_line(timing: dict[str, Any]) -> str:
    """Wall-clock by stage, and peak memory."""
    stages = [
        f"{name.removesuffix('_s')} {timing[name]:.2f} s"
        for name in timing
        if name.endswith("_s") and "per" not in name
    ]
    memory = f"peak memory {timing['peak_memory_bytes'] / 1e9:.2f} GB"
    passes = counted(timing["passes"], "pass")
    asked = f"{counted(timing['records'], 'record')}, {timing['queries']:,} queries, {passes}"
    return f"{asked}: {', '.join([*stages, memory])}"
