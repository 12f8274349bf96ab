"""Figures of a study, as SVG: what a table cannot show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import outputs
from levyscreen.errors import UsageError
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.plot import BLUE, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from levyscreen.study.results import Results

# Of the cast, those whose curves are drawn: more cannot be told apart.
DRAWN = ("disagreement", "deviation", "dropout", "ensemble", "variance-head", "nll")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito


def draw(results: Results, folder: Path) -> list[Path]:
    """Writes a figure for each dataset of the study's runs; paths of them. Raises UsageError without matplotlib."""
    runs, drawn = results.read(), []
    for dataset in sorted({run["dataset"] for run in runs}):
        of_first = [run for run in runs if run["dataset"] == dataset]
        seed = min(run["seed"] for run in of_first)
        of_first = [run for run in of_first if run["seed"] == seed]
        for name, panel in PANELS.get(results.study, {}).items():
            if panel in OF_DRAWN and not _drawn(of_first):
                continue
            path = folder / f"{name}-{dataset}.svg"
            _save(path, partial(_single, panel=panel, runs=of_first, title=f"{dataset}, seed {seed}"))
            drawn.append(path)
        for run in of_first:
            if "drawn" in run:
                path = folder / f"{run['name']}-{dataset}.svg"
                _save(path, partial(bands, run=run))
                drawn.append(path)
    return drawn


def sparsification(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """Error of what is left as the least trusted queries go, each beside the oracle of its own errors (dotted)."""
    for run, colour in _drawn(runs):
        curve = run["curve"]
        share = [i / len(curve["signal"]) for i in range(len(curve["signal"]))]
        axes.plot(share, curve["signal"], color=colour, label=ESTIMATORS[run["name"]].title)
        axes.plot(share, curve["oracle"], color=colour, linestyle=":", linewidth=1)
    axes.set(xlabel="queries left out, least trusted first", ylabel="error of the rest / error of all", ylim=(0, None))


def coverage(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """Share of targets inside the Gaussian interval of each nominal level, one scale for all variables."""
    axes.plot([0.5, 1], [0.5, 1], color="#888888", linewidth=1)
    for run, colour in _drawn(runs):
        found = run["global"]["coverage"]
        axes.plot(
            [float(x) for x in found], list(found.values()), "o-", color=colour, label=ESTIMATORS[run["name"]].title
        )
    axes.set(xlabel="nominal level", ylabel="targets inside")


def stress(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """Error and the model's own scales as context is hidden, over their values with all of it; evidence in figures."""
    (run,) = runs
    levels, full = run["levels"], run["levels"][0]
    hidden = [1 - level["kept"] for level in levels]
    shown = (("mae", "true error"), ("sigma-hat_scale", "sigma_hat, scaled"), ("deviation_scale", "deviation, scaled"))
    for (key, title), colour in zip(shown, ("#222222", *COLOURS), strict=False):
        axes.plot(hidden, [level[key] / full[key] for level in levels], "o-", color=colour, label=title)
    for x, level in zip(hidden, levels, strict=True):
        axes.annotate(
            f"{level['evidence']:.0f}",
            (x, 1),
            xytext=(0, -14),
            textcoords="offset points",
            fontsize=7,
            ha="center",
            color="#888888",
        )
    axes.set(xlabel="share of the context hidden; below the curves, mean evidence", ylabel="times that of full context")


def bands(figure: Figure, run: dict[str, Any]) -> None:
    """A column a record: readings, prediction, the calibrated band and, dashed, that of MC dropout (fig:demo)."""
    records, level = run["drawn"], f"{run['level']:.0%} interval"
    rows = max(len(record["panels"]) for record in records)
    figure.set_size_inches(4.2 * len(records), 2.3 * rows + 0.7)
    axes = figure.subplots(rows, len(records), squeeze=False)
    for column, record in zip(axes.T, records, strict=True):
        for axis, panel in zip(column, record["panels"], strict=False):
            _band(axis, panel, f"{level} of one pass", f"{level} of {run['passes']} dropout passes")
        for axis in column[len(record["panels"]) :]:
            axis.set_axis_off()
        column[0].set_title(f"record {record['record_id']}\n{column[0].get_title(loc='left')}", loc="left", color=INK)
    for axis in axes[-1]:
        axis.set_xlabel("hours since admission" if run["dataset"] == "physionet2012" else "time")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(f"{run['dataset']}, seed {run['seed']}", x=0, ha="left", color=INK)


def _band(axis: Axes, panel: dict[str, Any], of_one_pass: str, of_dropout: str) -> None:
    def values(found: list[float | None]) -> NDArray[np.float64]:
        return np.array(found, dtype=np.float64)  # None becomes NaN, which is not drawn

    time, ours, theirs = values(panel["time"]), panel["deviation"], panel["dropout"]
    axis.fill_between(
        time, values(ours["lower"]), values(ours["upper"]), color=BLUE, alpha=0.2, linewidth=0, label=of_one_pass
    )
    for end, label in (("lower", of_dropout), ("upper", None)):
        axis.plot(time, values(theirs[end]), "--", color=COLOURS[1], linewidth=0.9, label=label)
    axis.plot(time, panel["prediction"], color=BLUE, linewidth=1.3, label="prediction")
    axis.plot(
        panel["reading_time"],
        panel["reading"],
        "o",
        color=INK,
        markersize=2.5,
        label="readings, all known to the model",
    )
    axis.set_title(panel["variable"], loc="left", color=INK)
    axis.set_ylabel(panel["unit"], color=INK)
    axis.spines[["top", "right"]].set_visible(False)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "interpolation": {"sparsification": sparsification, "coverage": coverage},
    "cohort": {"sparsification": sparsification},
    "stress": {"stress": stress},
}
OF_DRAWN = sparsification, coverage  # a curve for each run of DRAWN that is there


def _drawn(runs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    by_name = {run["name"]: run for run in runs}
    return [(by_name[name], colour) for name, colour in zip(DRAWN, COLOURS, strict=True) if name in by_name]


def _single(figure: Figure, panel: Callable[..., None], runs: list[dict[str, Any]], title: str) -> None:
    axes = figure.add_subplot()
    panel(axes, runs=runs)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _save(path: Path, draw_on: Callable[[Figure], None]) -> None:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("figures need matplotlib: pip install 'levyscreen[study]'") from None
    with rc_context({"svg.hashsalt": path.name, "font.size": 9}):  # the same figure gives the same bytes
        figure = Figure(figsize=(6, 4), layout="constrained")
        draw_on(figure)
        with outputs.replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
