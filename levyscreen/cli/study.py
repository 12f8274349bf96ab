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
    seeds: Annotated[str, typer.Option(help="One, several or a range: 0, 0,2 or 0-4.")] = "0",
    estimators: Annotated[str | None, typer.Option(help="Only these, by comma; all by default.")] = None,
    data: Annotated[Path, typer.Option(help="Folder with physionet2012/ and ushcn/.")] = Path("data"),
    out: Annotated[Path, typer.Option("--out", help="Folder of results, tables and figures.")] = Path("studies"),
    networks: Annotated[Path, typer.Option(help="Folder of the trained networks.")] = Path("studies/networks"),
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Leave out what needs a network that is not trained yet.")
    ] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Only make tables and figures of what is there.")] = False,
    device: Device = "auto",
) -> None:
    """Regenerate the paper's tables: a result for each estimator and seed, then tables with the paper's beside ours.

    Every result is written as it is done; a second call goes on where the first one stopped. What is not trained yet is
    trained.
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
