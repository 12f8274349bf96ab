"""The figures of docs/method.md: `python -m docs.figures` writes docs/figures/*.svg anew, the same bytes each time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.figure import Figure

from levyscreen.operator import Field, Grid, build_field, draw, phi, read, read_beam, unit

DOCS = Path(__file__).parent
CARD = DOCS.parent / "models" / "physionet2012" / "card.json"
TAU, FREQUENCIES = 0.1, 8
BLUE, RED, GREY = "#2a6f97", "#c1440e", "#8d99ae"
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "levyscreen", "font.size": 9, "axes.spines.top": False}
STYLE |= {"axes.spines.right": False, "legend.frameon": False}


def readings() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Times, values and channels (n,): agreement early, then nothing for a while, then two sources at odds."""
    agreed, torn = torch.linspace(0.04, 0.34, 12), torch.linspace(0.66, 0.96, 12)
    source = torch.arange(12) % 2
    value = torch.cat([0.5 + 0.4 * torch.sin(9 * agreed), 0.2 + 0.9 * source])
    return torch.cat([agreed, torn]), value, torch.cat([torch.full((12,), 0.5), 0.1 + 0.8 * source])


def embedded(time: torch.Tensor) -> torch.Tensor:
    """Sines and cosines of a few frequencies, unit vectors: alike where times are near, (..., 2 F)."""
    phase = time.unsqueeze(-1) * 2 * math.pi * torch.linspace(0.5, 3.5, FREQUENCIES)
    return unit(torch.cat([phase.sin(), phase.cos()], dim=-1))


def field_of(time: torch.Tensor, value: torch.Tensor, channel: torch.Tensor, grid: Grid) -> Field:
    """One record, one head, values of one dimension."""
    shape = (1, 1, len(time))
    return build_field(
        embedded(time).view(*shape, -1), value.view(*shape, 1), time.view(shape), channel.view(shape), grid
    )


def beam_figure() -> Figure:
    """One query: what it lights up, the atoms of one draw, and the value field that they read."""
    grid, (time, value, channel) = Grid(24, 1), readings()
    field, asked = field_of(time[:12], value[:12], channel[:12], grid), torch.tensor([0.22])
    beam = read_beam(embedded(asked).view(1, 1, 1, -1), field, TAU)
    intensity = (TAU * beam.intensity).flatten()  # (L,)
    centre = (torch.arange(grid.time_cells) + 0.5) / grid.time_cells
    atoms = torch.poisson(intensity, torch.Generator().manual_seed(1))
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.bar(
        centre.numpy(), intensity.numpy(), 0.9 / grid.time_cells, color=BLUE, alpha=0.35, label="intensity, a cell"
    )
    for cell, count in zip(centre.tolist(), atoms.int().tolist(), strict=True):
        above.plot([cell] * count, [0.7 * (i + 0.5) for i in range(count)], ".", color=RED, markersize=3)
    above.plot([], [], ".", color=RED, label="atoms of one draw")
    above.axvline(float(asked), color="black", linewidth=0.8, linestyle=":")
    above.set_ylabel("expected atoms")
    above.legend(loc="upper right")
    below.plot(time[:12], value[:12], "o", color=GREY, markersize=4, label="readings")
    below.plot(centre, (field.value + field.centre).flatten(), color=BLUE, label="value field")
    below.plot(asked, beam.reading.mean.flatten(), "s", color="black", label="answer: mean under the intensity")
    below.set_ylabel("value")
    below.set_xlabel("time, the horizon being 1")
    below.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.25), fontsize=8)
    return figure


def signals_figure() -> Figure:
    """All queries: answer and deviation, evidence, disagreement; with the spread of 400 draws as a check."""
    time, value, channel = readings()
    asked = torch.linspace(0, 1, 201)
    query, field = embedded(asked).view(1, 1, len(asked), -1), field_of(time, value, channel, Grid(24, 4))
    reading = read(query, field, TAU)
    mean, deviation = reading.mean.flatten(), reading.sigma_hat.flatten()
    sample = draw(read_beam(query, field, TAU), field, 400, 0, torch.tensor([1]), torch.arange(len(asked))[None])
    spread = (sample[:, 0, 0, :, 0] - mean).square().mean(0).sqrt()
    figure = Figure(figsize=(6.5, 4.6), layout="constrained")
    answer, evidence, conflict = figure.subplots(3, sharex=True, height_ratios=(2, 1, 1))
    answer.fill_between(asked, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.25, linewidth=0)
    answer.plot(asked, mean, color=BLUE, label="answer, and two deviations about it")
    answer.plot(asked[::10], (mean + 2 * spread)[::10], "x", color=RED, markersize=4, label="the same from 400 draws")
    answer.plot(time, value, "o", color=GREY, markersize=4, label="readings")
    answer.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.2), fontsize=8)
    evidence.plot(asked, reading.evidence.flatten(), color=BLUE)
    evidence.set_ylabel("evidence")
    conflict.plot(asked, reading.disagreement.flatten(), color=BLUE)
    conflict.set_ylabel("disagreement")
    conflict.set_xlabel("time, the horizon being 1")
    for axes in (evidence, conflict):
        axes.set_ylim(bottom=0)
    return figure


def phi_figure() -> Figure:
    """phi, its maximum, and the reciprocal that it is taken for."""
    evidence = torch.logspace(-1.5, 2.5, 200, dtype=torch.float64)
    figure = Figure(figsize=(6.5, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.semilogx(evidence, phi(evidence), color=BLUE, label="φ(Λ) = E[1/Z; Z ≥ 1], Z ~ Poisson(Λ)")
    axes.semilogx(evidence, (1 / evidence).clamp(max=0.7), color=GREY, linestyle="--", label="1/Λ")
    axes.set_ylim(0, 0.6)
    axes.set_xlabel("evidence Λ")
    axes.legend()
    return figure


def groups_figure() -> Figure:
    """Coverage of the 90 % interval by group, from the default model's card."""
    (result,) = json.loads(CARD.read_text(encoding="utf-8"))["KeyMetrics"]["FairnessEquity"]["Results"]["MetricResult"]
    rows: list[dict[str, Any]] = result["ValueJson"]
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.subplots()
    names = [f"{row['by']} {row['group']}" for row in rows]
    errors = [2 * row["error_90"] for row in rows]
    axes.errorbar([row["coverage_90"] for row in rows], names, xerr=errors, fmt="o", color=BLUE, markersize=4)
    axes.axvline(0.9, color="black", linewidth=0.8, linestyle=":")
    axes.invert_yaxis()
    axes.set_xlabel("coverage of the 90 % interval, with two standard errors by patient")
    axes.tick_params(axis="y", labelsize=8)
    return figure


FIGURES = {"beam": beam_figure, "signals": signals_figure, "phi": phi_figure, "groups": groups_figure}


def main(folder: Path = DOCS / "figures") -> None:
    """Writes all of them."""
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, make in FIGURES.items():
            make().savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
