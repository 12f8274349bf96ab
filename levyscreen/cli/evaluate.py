"""`levyscreen evaluate`: the numbers of a model's card, on records that it never saw."""

from __future__ import annotations

from typing import Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import CohortPath, Device, NoCache
from levyscreen.errors import UsageError


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, or the name of a shipped model.")],
    cohort: CohortPath,
    card: Annotated[
        bool, typer.Option("--card", help="Also write the model card, README.md and card.json, to the model folder.")
    ] = False,
    no_cache: NoCache = False,
    device: Device = "auto",
) -> None:
    """Evaluate MODEL on its test records of COHORT, or on a cohort it never saw: error, ranking, CRPS and coverage.

    Prints Markdown to stdout.

    Example: levyscreen evaluate physionet2012 set-b
    """
    from levyscreen import machine
    from levyscreen.card import calibrated_on, judged_apart
    from levyscreen.judging import evaluate
    from levyscreen.report.markdown import evaluation_markdown
    from levyscreen.store import load_model

    machine.prepare()
    where = machine.device(device)
    loaded = load_model(model, where)
    loaded.require_calibration()
    if card and loaded.shipped:
        raise UsageError(
            f"{loaded.name} comes with levyscreen, and its card stays as it is: leave out --card, or copy "
            f"{loaded.folder} and name the copy"
        )
    found = common.read(cohort, no_cache)
    common.note_left_out(found, loaded)
    if card:
        judged_apart(loaded, found)
    elif calibrated_on(loaded, found):
        common.stderr(
            f"warning: {loaded.name} was calibrated on these records: its scales and intervals are not judged by them"
        )
    evaluation = common.write_card(loaded, found) if card else evaluate(loaded, found)
    assert evaluation is not None
    typer.echo(evaluation_markdown(loaded.name, evaluation))
