"""`levyscreen report`: a screening as one HTML file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import Device, ModelName, NoCache, Share


def command(
    out: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OUT]", help="Output folder of levyscreen screen. Default: the last one written from here."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output file; - is stdout. Default: OUT/report.html.")
    ] = None,
    outcomes: Annotated[
        Path | None,
        typer.Option(help="CSV with columns RecordID and In-hospital_death, or record_id and outcome (0 or 1)."),
    ] = None,
    patients: Annotated[
        int | None, typer.Option(min=0, help="Number of flagged patients to draw. Default: as many as fit into 8 MB.")
    ] = None,
    cohort: Annotated[
        Path | None, typer.Option(callback=common.expanded, help="The cohort, if it has moved since the screening.")
    ] = None,
    model: ModelName = None,
    no_cache: NoCache = False,
    share: Share = False,
    device: Device = "auto",
) -> None:
    """Write the findings of a screening as one self-contained HTML file.

    Example: levyscreen report --outcomes Outcomes-b.txt
    """
    from levyscreen.report.page import report, require_jinja, write
    from levyscreen.report.screened import read_screened
    from levyscreen.report.who import read_outcomes

    require_jinja()
    folder = out or Path(common.recall("report OUT")["out"] or common.OUT)
    screened = read_screened(folder)
    if cohort is not None:
        screened = replace(screened, cohort=str(cohort))
    known = None if outcomes is None else read_outcomes(outcomes)
    from levyscreen import machine
    from levyscreen.store import load_model

    machine.prepare()
    where = machine.device(device)
    loaded = load_model(model or screened.model, where)
    found = common.read(Path(screened.cohort), no_cache)
    with common.progress("report", screened.timing["records"]) as done:
        page = report(screened, found, loaded, known, patients, tuple(sys.argv[1:]), done)
    if output is not None and str(output) == "-":
        typer.echo(page, nl=False)
        return
    path = output or folder / "report.html"
    write(path, page)
    size = len(page.encode())
    said = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    common.stderr(f"the screening in {folder}, written to {path}, {said}; it holds patients' data")
