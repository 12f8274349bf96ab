"""`levyscreen validate`: what is in a cohort, what is odd, what would be rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import CohortPath, NoCache, Share
from levyscreen.names import counted, printable


def command(
    cohort: CohortPath,
    write: Annotated[Path | None, typer.Option(help="Also write the cohort as Parquet to this new folder.")] = None,
    no_cache: NoCache = False,
    share: Share = False,
) -> None:
    """Summarise COHORT: readings by variable, rejected lines, and anything suspicious. Needs no model.

    Example: levyscreen validate set-b
    """
    from rich.console import Group

    from levyscreen.records.cache import write_cohort
    from levyscreen.records.validate import summarise
    from levyscreen.report.tables import frame_table

    found = common.read(cohort, no_cache)
    summary = summarise(found)
    parts = [
        frame_table(summary.records, f"{found.name}: {counted(len(found), 'record')}"),
        frame_table(summary.classes, "Lines by what became of them"),
        frame_table(summary.variables, "Readings by variable"),
    ]
    if len(summary.problems):
        parts.append(frame_table(summary.problems, "Records that cannot be read"))
    typer.echo(common.rendered(Group(*parts)).decode(), nl=False)
    for note in summary.notes:
        typer.echo(printable(note))
    if write is not None:
        common.refuse_inside(write, cohort)
        write_cohort(found, write)
        common.stderr(f"written to {write}")
