"""Rich tables and one-line summaries of what the library returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from levyscreen import schema
from levyscreen.names import printable
from levyscreen.types import LineClass

if TYPE_CHECKING:
    import pandas as pd

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


def scores_table(shown: pd.DataFrame, scores: pd.DataFrame, signal: str) -> Table:
    """The records to look at first: what cannot be ranked, then the least trusted."""
    flagged, scored = int(scores["flagged"].sum()), int((scores["status"] == "scored").sum())
    table = Table(
        title=f"{flagged} of {scored} ranked records flagged, {len(scores) - scored} not ranked (by {signal})",
        title_justify="left",
        caption=_caption(len(shown)),
        caption_justify="left",
    )
    for name in ("rank", "record"):
        table.add_column(name, justify="right")
    table.add_column("status")
    for name in ("readings", "uncertainty", "width 90%", "evidence", "error"):
        table.add_column(name, justify="right")
    table.add_column("reason")
    table.add_column("worst variables")
    for row in shown.head(MOST_ROWS).itertuples(index=False):
        table.add_row(*_score_cells(row), style="bold" if row.flagged else None)
    return table


def _caption(rows: int) -> str:
    text = "uncertainty, width and error in standard deviations of the variable; rank 1 is the least trusted"
    return text if rows <= MOST_ROWS else f"{text}; the first {MOST_ROWS} of {rows}, all of them in scores.parquet"


def _score_cells(row: Any) -> list[str | Text]:
    def number(value: Any, form: str) -> str:
        return "-" if value != value or value is None else format(value, form)

    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""  # pandas may hold a missing one as NaN

    ranked = row.status == "scored"
    return [
        str(row.trust_rank) if ranked else "-",
        str(row.record_id).replace("<NA>", "-"),
        row.status,
        str(row.n_readings),
        number(row.uncertainty, ".3f"),
        number(row.interval_width, ".2f"),
        number(row.evidence, ".0f"),
        number(row.mae, ".3f"),
        text(row.reason).replace("_", " "),
        _inert(text(row.worst_variables).replace(";", " ")),
    ]


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
    return "lines that are not readings as they stand: " + ", ".join(said) if said else ""


def timing_line(timing: dict[str, Any]) -> str:
    """Wall-clock by stage, and peak memory."""
    stages = [
        f"{name.removesuffix('_s')} {timing[name]:.2f} s"
        for name in timing
        if name.endswith("_s") and "per" not in name
    ]
    memory = f"peak memory {timing['peak_memory_bytes'] / 1e9:.2f} GB"
    asked = f"{timing['records']:,} records, {timing['queries']:,} queries, {timing['passes']} pass"
    return f"{asked}: {', '.join([*stages, memory])}"
