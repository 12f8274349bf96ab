"""`levyscreen continuum`: every record asked for every variable at every time of a grid."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levyscreen.cli import common
from levyscreen.cli.common import Device, ModelName, NoCache, Out, ProtocolName, Share
from levyscreen.errors import UsageError
from levyscreen.names import counted

if TYPE_CHECKING:
    from levyscreen.store import Model

_ID = re.compile(r"[0-9]{1,18}")  # as many as every id that is a number may have


def command(
    context: typer.Context,
    cohort: Annotated[
        Path | None,
        typer.Argument(
            metavar="[COHORT]",
            callback=common.expanded,
            help="Default: the cohort last screened from this folder.",
        ),
    ] = None,
    model: ModelName = None,
    grid: Annotated[
        int, typer.Option(help="Number of evenly spaced times; 288 is one every ten minutes of 48 hours.")
    ] = 288,
    variables: Annotated[str | None, typer.Option(help="Only these variables, comma-separated: HR,MAP.")] = None,
    records: Annotated[
        str | None, typer.Option(help="Only these record ids, comma-separated, or a file with one id per line.")
    ] = None,
    level: Annotated[float, typer.Option(help="Nominal coverage of the interval from lower to upper.")] = 0.9,
    deviation: Annotated[
        bool,
        typer.Option(
            "--deviation", help="Also compute the deviation and base the intervals on it; takes about twice as long."
        ),
    ] = False,
    half: Annotated[bool, typer.Option("--half", help="Write float16 instead of float32: half the size.")] = False,
    protocol: ProtocolName = None,
    out: Out = None,
    no_cache: NoCache = False,
    share: Share = False,
    device: Device = "auto",
) -> None:
    """Write prediction, interval and signals for every record, variable and time to continuum/part-*.parquet.

    Example: levyscreen continuum --grid 288 --variables HR,MAP
    """
    from levyscreen import machine, outputs
    from levyscreen.continuum import ContinuumSettings, continuum

    machine.prepare()
    if cohort is None:
        from levyscreen.report.screened import require_one_run

        last = common.recall()
        cohort = Path(last["cohort"])
        if last["out"] is not None:
            require_one_run(Path(last["out"]))
        if model is None and protocol in (None, last["protocol"] or "ours"):
            model, protocol = last["model"], last["protocol"]
        common.stderr(
            f"the cohort last screened from this folder: {cohort}, by model {common.model_name(model, protocol)}"
        )
    chosen = _ids(records)
    settings = ContinuumSettings(grid, common.strings(variables), level, deviation, half)
    where = machine.device(device)
    start = time.perf_counter()
    loaded, _, protocol = common.load(context, model, protocol, where)
    known = time.perf_counter()
    found = common.read(cohort, no_cache)
    times = {"ingest_s": time.perf_counter() - known, "load_s": known - start}
    common.note_left_out(found, loaded)
    _note_intervals(loaded, deviation)
    folder = common.folder_for(out, cohort, found.name)
    most = 512 if protocol == "paper" else None
    with common.progress("continuum", len(found) if chosen is None else len(chosen)) as done:
        written = continuum(found, loaded, folder / "continuum", settings, chosen, done, most)
    timing: dict[str, Any] = {**times, **written.timing, "peak_memory_bytes": machine.peak_memory_bytes()}
    outputs.write_json(folder / "continuum-timing.json", timing, shared=False)
    _report(written, timing)


def _note_intervals(model: Model, deviation: bool) -> None:
    """Says where the intervals are too narrow by far on what little is known of; `calibrate` once fitted them so."""
    if model.timeline_calibration(deviation).signal == "disagreement":
        common.stderr(
            "note: this model's intervals rest on the disagreement, which does not respond to missing evidence: "
            f"recalibrate with levyscreen calibrate {model.folder} COHORT"
        )


def _ids(records: str | None) -> list[int] | None:
    if records is None:
        return None
    if not os.path.isfile(records):  # a list of ids may be longer than any path, which Path.is_file does not bear
        return _numbers(enumerate(records.split(","), 1), "its item")
    from levyscreen import outputs
    from levyscreen.records import quoting

    try:
        lines = outputs.read_text(Path(records), "utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"--records {records} cannot be read as UTF-8 text: {quoting.reason(error)}") from error
    words = ((number, word) for number, line in enumerate(lines, 1) for word in line.replace(",", " ").split())
    return _numbers(words, f"{records}, line")


def _numbers(words: Iterable[tuple[int, str]], where: str) -> list[int]:
    """Record ids; which word is none is said by its place, for an id belongs in no message."""
    found = []
    for place, word in words:
        if not _ID.fullmatch(word.strip()):
            raise UsageError(
                f"--records takes a file of record ids or ids separated by commas, and {where} {place} is no id"
            )
        found.append(int(word))
    if not found:
        raise UsageError("--records names no record: leave it out for all of them")
    return found


def _report(written: Any, timing: dict[str, Any]) -> None:
    for why, count in written.left_out.items():
        common.stderr(f"note: {counted(count, 'record')} not in it: {why}")
    common.stderr(
        f"{counted(written.records, 'record')}, {counted(written.rows, 'row')}, "
        f"{timing['bytes'] / 1e6:,.0f} MB in {written.folder}"
    )
    common.stderr(
        f"compute {timing['compute_s']:.1f} s ({timing['queries_per_s']:,.0f} queries a second), "
        f"write {timing['write_s']:.1f} s beside it, total {timing['total_s']:.1f} s, "
        f"peak memory {timing['peak_memory_bytes'] / 1e9:.2f} GB"
    )
