"""`levyscreen train`: a model of one's own, calibrated, in a folder that the other commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import CohortPath, Device, NoCache
from levyscreen.errors import UsageError

if TYPE_CHECKING:
    from levyscreen.learn.checkpoint import Progress
    from levyscreen.learn.fit import Watch


def command(
    cohort: CohortPath,
    out: Annotated[
        Path | None, typer.Option("--out", help="Model folder. Default: runs/<cohort>-<decode>-<seed>.")
    ] = None,
    decode: Annotated[
        str, typer.Option(help="levy, its controls softmax or cosine, or tnp-d, a Transformer Neural Process.")
    ] = "levy",
    head: Annotated[str, typer.Option(help="Output head: point, nll or beta-nll.")] = "point",
    seed: Annotated[int, typer.Option(help="Seed of the split, the held-out targets and the initial weights.")] = 0,
    members: Annotated[
        int, typer.Option(help="Number of models trained on the same split: 5 make a deep ensemble.")
    ] = 1,
    teacher: Annotated[
        str | None,
        typer.Option(help="Model trained on COHORT with --members: start from it and learn the mean of its ensemble."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Maximum epochs (early stopping applies).")] = 30,
    protocol: Annotated[
        str, typer.Option(help="ours, or paper for the paper's cleaning, limits, network and loss.")
    ] = "ours",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted training in this folder.")] = False,
    no_cache: NoCache = False,
    device: Device = "auto",
) -> None:
    """Train a model on COHORT: 70 % of its records to fit, 15 % to stop and calibrate, 15 % held back for evaluation.

    Example: levyscreen train set-a --out my-model
    """
    from levyscreen import machine
    from levyscreen.config import OUR_NETWORK, OUR_TRAINING, PROTOCOLS, SEEDS, ModelConfig, TrainingConfig
    from levyscreen.store import CONFIG, load_model
    from levyscreen.training import member_seeds, train, train_member, train_student

    _refuse_unknown(decode, head, protocol)
    if members < 1 or epochs < 1:
        raise UsageError("--members and --epochs take 1 or more")
    if not 0 <= seed < SEEDS:
        raise UsageError(f"a seed must lie between 0 and 2^32 - 1, got {seed}")
    if teacher and (decode, head, seed, members, protocol) != ("levy", "point", 0, 1, "ours"):
        raise UsageError("a student is as its teacher: leave out --decode, --head, --seed, --members and --protocol")
    machine.prepare()
    where = machine.device(device)
    found = common.read(cohort, no_cache)
    if out is not None:
        common.refuse_inside(out, cohort)
    folder = out or Path("runs") / f"{found.name}-{'student' if teacher else decode}-{seed}"
    if not resume and (folder / CONFIG).exists():
        raise UsageError(f"{folder} holds a model: name another folder with --out, or go on with it by --resume")
    network, recipe = (OUR_NETWORK, OUR_TRAINING) if protocol == "ours" else ({}, {})
    settings = ModelConfig(len(found.variables), decode, head, **network)  # type: ignore[arg-type]
    config = TrainingConfig(seed=seed, epochs=epochs, **recipe)
    watch, close = _watch(epochs)
    try:
        if teacher:
            model = train_student(found, load_model(teacher, where), folder, epochs, resume, watch)
        else:
            model = train(found, folder, PROTOCOLS[protocol], settings, config, where, resume, watch)
        for member in member_seeds(seed, members):
            common.stderr(f"member {member}")
            train_member(found, model, member, where, resume, watch)
    finally:
        close()
    common.stderr(f"model written to {folder}")
    common.warn_of_signals(model)
    common.write_card(model, found if model.calibration else None, f"decoding by {decode}, it emits no signals")


def _refuse_unknown(decode: str, head: str, protocol: str) -> None:
    from levyscreen.config import PROTOCOLS

    if decode not in ("levy", "softmax", "cosine", "tnp-d"):
        raise UsageError(f"unknown decode layer '{decode}': use levy, softmax, cosine or tnp-d")
    if head not in ("point", "nll", "beta-nll"):
        raise UsageError(f"unknown head '{head}': use point, nll or beta-nll")
    if protocol not in PROTOCOLS:
        raise UsageError(f"unknown protocol '{protocol}': use {' or '.join(PROTOCOLS)}")


def _watch(epochs: int) -> tuple[Watch, Callable[[], None]]:
    """Prints an epoch a line; on a terminal also a bar of the steps in this one."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    from levyscreen.learn.fit import Watch

    console = Console(stderr=True, highlight=False)
    bar = Bar(console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("epoch", total=None)
    bar.start()

    def step(done: int, steps: int, loss: float) -> None:
        bar.update(task, completed=done, total=steps, description=f"loss {loss:.4f}")

    def epoch(progress: Progress) -> None:
        last = progress.history[-1]
        left = (epochs - last.epoch) * sum(e.seconds for e in progress.history) / last.epoch
        console.print(
            f"epoch {last.epoch}/{epochs}  train {last.train_loss:.4f}  validation {last.validation_loss:.4f} "
            f"(best {progress.best_loss:.4f} in {progress.best_epoch})  rate {last.rate:.1e}  {last.seconds:.0f} s, "
            f"{left / 60:.0f} min left",
            soft_wrap=True,
        )

    return Watch(step, epoch), bar.stop
