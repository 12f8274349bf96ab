"""`levyscreen study`: the paper's tables, regenerated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import Device
from levyscreen.errors import UsageError

if TYPE_CHECKING:
    from levyscreen.learn.checkpoint import Progress
    from levyscreen.learn.fit import Watch

STUDIES = ("interpolation", "cohort", "continuum", "stress", "ablations", "beyond")


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="One of " + ", ".join(STUDIES) + ".")],
    dataset: Annotated[str, typer.Option(help="physionet2012, ushcn, or a COHORT of your own.")] = "physionet2012",
    seeds: Annotated[str, typer.Option(help="One seed, several, or a range: 0, 0,2 or 0-4.")] = "0",
    estimators: Annotated[
        str | None, typer.Option(help="Only these estimators, comma-separated. Default: all.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Data folder with physionet2012/ and ushcn/.")] = Path("data"),
    out: Annotated[Path, typer.Option("--out", help="Folder for results, tables and figures.")] = Path("studies"),
    networks: Annotated[Path, typer.Option(help="Folder of trained networks.")] = Path("studies/networks"),
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Skip what needs a network that is not trained yet.")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Only rebuild tables and figures from existing results.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Regenerate the paper's tables: one result per estimator and seed, then tables beside the paper's figures.

    Each result is saved as soon as it is complete, so a second call continues where the first one stopped. Networks
    that do not exist yet are trained.

    Example: levyscreen study interpolation --data DATA --seeds 0-4
    """
    if study not in STUDIES:
        raise UsageError(f"unknown study '{study}': use {', '.join(STUDIES)}")
    from levyscreen import machine
    from levyscreen.study import run

    machine.prepare()
    if not tables:
        chosen = run.Request(study, dataset, run.seed_list(seeds), common.strings(estimators), data, out, networks)
        run.run(chosen, machine.device(device), not no_train, common.stderr, _watch)
    for path in run.report(study, out):
        common.stderr(f"written {path}")


def _watch(what: str) -> Watch:
    """Says how a training goes, a line an epoch."""
    from levyscreen.learn.fit import Watch

    def epoch(progress: Progress) -> None:
        last = progress.history[-1]
        common.stderr(f"{what}: epoch {last.epoch}, validation {last.validation_loss:.4f}, {last.seconds:.0f} s")

    return Watch(epoch=epoch)
