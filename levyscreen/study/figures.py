"""Figures of a study, as SVG: what a table cannot show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen import outputs
from levyscreen.errors import UsageError
from levyscreen.estimators.registry import ESTIMATORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
            path = folder / f"{name}-{dataset}.svg"
            _save(path, partial(panel, runs=of_first), f"{dataset}, seed {seed}")
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


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "interpolation": {"sparsification": sparsification, "coverage": coverage},
    "cohort": {"sparsification": sparsification},
    "stress": {"stress": stress},
}


def _drawn(runs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    by_name = {run["name"]: run for run in runs}
    return [(by_name[name], colour) for name, colour in zip(DRAWN, COLOURS, strict=True) if name in by_name]


def _save(path: Path, draw_on: Callable[[Axes], None], title: str) -> None:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("figures need matplotlib: pip install 'levyscreen[study]'") from None
    with rc_context({"svg.hashsalt": path.name, "font.size": 9}):  # the same figure gives the same bytes
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        draw_on(axes)
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        with outputs.replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
