"""Results as Markdown, for model cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levyscreen.names import counted, printable

if TYPE_CHECKING:
    import pandas as pd

    from levyscreen.judging import Evaluation


_LIVE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {c: f"\\{c}" for c in "\\`|[]"})


def evaluation_markdown(name: str, evaluation: Evaluation) -> str:
    """The tables of a model card."""
    facts = evaluation.summary
    head = (
        f"{inert(name)} on {inert(facts['cohort'])}: {counted(facts['records'], 'record')}, "
        f"{facts['targets']:,} hidden readings. MAE {facts['mae']:.4f}, MSE {facts['mse']:.4f} (z-scored)."
    )
    coverage = evaluation.reliability.filter(regex="^(variable|n|patients|coverage_|error_|gaussian_|width_|bounded_)")
    parts = (
        (
            "Error ranking, all signals from the one pass; by patient over all disjoint maskings: Spearman with the "
            "mean error, and the excess error of the least trusted tenth",
            evaluation.ranking,
        ),
        ("CRPS of the calibrated Gaussian", evaluation.distribution),
        (
            "Mean error beside linear interpolation and the last value of the patient's own readings, by how far the "
            "model is ahead of interpolation, with half the 95 % interval of that by patient",
            evaluation.baselines,
        ),
        (
            "Tenths of the readings by their expected error, the smallest first: the error that was made, as a "
            "multiple of the expected one, and coverage",
            evaluation.deciles,
        ),
        (
            "Conformal coverage with its standard error by patient, Gaussian coverage, median width in standard "
            "deviations; worst variable first",
            coverage,
        ),
        (
            "Coverage by kind of patient and by evidence (tenths of the readings, the first with the least), the "
            "standard error of it by patient, and the mean error",
            evaluation.groups,
        ),
    )
    tables = (f"{title}:\n\n{frame_markdown(frame)}" for title, frame in parts if len(frame))
    return "\n\n".join([head, *tables])


def frame_markdown(frame: pd.DataFrame, digits: int = 4) -> str:
    """A frame as a Markdown table."""
    rows = [[inert(name) for name in frame.columns], ["-"] * len(frame.columns)]
    rows += [[_cell(value, digits) for value in row] for row in frame.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(value: Any, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, float) else inert(value)


def inert(value: Any) -> str:
    """A text that holds no HTML, no link, and no end of a cell."""
    return printable(str(value)).translate(_LIVE)
