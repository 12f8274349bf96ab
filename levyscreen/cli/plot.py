"""`levyscreen plot`: readings, prediction and band of one record over its stay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.common import Device, ModelName, NoCache, Share
from levyscreen.errors import UsageError

PICTURES = ".png", ".svg", ".pdf", ".jpg"


def command(
    record: Annotated[int, typer.Argument(metavar="RECORD", help="Record id.")],
    cohort: Annotated[
        Path | None,
        typer.Option(
            callback=common.expanded, help="Cohort of the record. Default: the one last screened from this folder."
        ),
    ] = None,
    variables: Annotated[
        str | None, typer.Option(help="Variables, comma-separated. Default: the three with the most readings.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Picture file. Default: record-<id>.png.")
    ] = None,
    level: Annotated[float, typer.Option(help="Nominal coverage of the band.")] = 0.9,
    model: ModelName = None,
    no_cache: NoCache = False,
    share: Share = False,
    device: Device = "auto",
) -> None:
    """Plot a record: its readings, the model's prediction over the stay, and the calibrated interval.

    Example: levyscreen plot 143126 --cohort set-b --variables HR,MAP
    """
    from levyscreen import machine
    from levyscreen.outputs import replacing
    from levyscreen.plot import draw
    from levyscreen.store import load_model

    machine.prepare()
    path = output or Path(f"record-{record}.png")
    if path.suffix not in PICTURES:
        raise UsageError(f"{path.name} must end in one of {', '.join(PICTURES)}")
    if cohort is None:
        last = common.recall("plot RECORD --cohort COHORT")
        cohort, model = Path(last["cohort"]), model or last["model"]
    where = machine.device(device)
    loaded = load_model(common.model_name(model, None), where)
    figure = draw(common.read(cohort, no_cache), loaded, record, common.strings(variables), level)
    with replacing(path, shared=False) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.lstrip("."))
    common.stderr(f"written to {path}")
