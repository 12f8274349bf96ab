"""`levyscreen calibrate`: fit a model's scale and intervals on hidden readings of records it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import CohortPath, Device, NoCache
from levyscreen.errors import UsageError
from levyscreen.names import counted


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, or the name of a shipped model.")],
    cohort: CohortPath,
    level: Annotated[
        str, typer.Option(help="Nominal coverages of the intervals; 0.9 is always included.")
    ] = "0.8,0.9,0.95",
    by: Annotated[
        str, typer.Option(help="variable: one scale per variable; nothing: one scale for all, as in the paper.")
    ] = "variable",
    signal: Annotated[
        str | None,
        typer.Option(
            help="Signal that gives the scale: meta_model (default), deviation, sigma, disagreement or evidence."
        ),
    ] = None,
    rich: Annotated[
        bool,
        typer.Option("--rich", help="As --signal meta_model, which is the default for all but the paper's protocol."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write a calibrated copy of MODEL to this new folder; MODEL stays unchanged."),
    ] = None,
    no_cache: NoCache = False,
    device: Device = "auto",
) -> None:
    """Fit the scale and the conformal intervals of MODEL on COHORT and write them to the model folder or to a copy.

    If the model was trained on COHORT, only its validation records are used, and a reliability table on its test
    records is printed. Updates the model card. calibration.json stores the ids of the records used.

    Example: levyscreen calibrate physionet2012 my-records --out my-model
    """
    from levyscreen import machine
    from levyscreen.judging import calibrate
    from levyscreen.report.tables import frame_table
    from levyscreen.store import load_model

    if rich and signal is not None:
        raise UsageError("--rich is --signal meta_model: leave --signal out")
    chosen = "meta_model" if rich else signal
    machine.prepare()
    where = machine.device(device)
    levels = [_level(word) for word in common.strings(level) or ()]
    loaded = load_model(model, where)
    loaded.network.levy()  # what emits no signals cannot be calibrated
    found = common.read(cohort, no_cache)
    common.note_left_out(found, loaded)
    calibrated = calibrate(loaded, found, chosen, by, levels, out)
    for name, fitted in calibrated.calibrations.items():
        facts = fitted.provenance
        common.stderr(
            f"{name} by {fitted.by}: a = {fitted.pooled.a:.4g}, b = {fitted.pooled.b:.4g} over all, "
            f"{counted(facts['targets'], 'target')} of {counted(facts['records'], 'record')}"
        )
    common.warn_of_signals(calibrated)
    common.stderr(f"written to {calibrated.folder}")
    own = found.fingerprint == calibrated.remembered("cohort_fingerprint")
    evaluation = common.write_card(calibrated, found if own else None, "it was calibrated on another cohort")
    if evaluation is not None:
        table = evaluation.reliability
        title = "Reliability on test records: coverage and median width, overall, then the worst variable first"
        common.write_frame(table, None, None, lambda: frame_table(table, title))
    else:
        command = f"levyscreen evaluate {calibrated.folder} OTHER-COHORT --card"
        common.stderr(f"its reliability is to be seen on records that it never saw: {command}")


def _level(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise UsageError(f"--level takes numbers between 0 and 1, separated by commas; '{word}' is none") from None
