"""`levyscreen screen`: rank the records of a cohort by how unreliable their predictions are."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levyscreen.cli import common
from levyscreen.cli.common import CohortPath, Device, ModelName, NoCache, Out, ProtocolName, Share
from levyscreen.errors import UsageError
from levyscreen.names import counted

if TYPE_CHECKING:
    import pandas as pd

    from levyscreen.records.cohort import Cohort
    from levyscreen.screen import Screening
    from levyscreen.store import Model

REJECTED_INPUT = 3
COMPARISON = "comparison.csv"


def command(
    context: typer.Context,
    cohort: CohortPath,
    model: ModelName = None,
    top_decile: Annotated[bool, typer.Option("--top-decile", help="Flag and print the least reliable 10 %.")] = False,
    flag: Annotated[float | None, typer.Option(help="Flag and print this fraction instead, 0.05 for 5 %.")] = None,
    signal: Annotated[
        str | None,
        typer.Option(help="Ranking score: calibrated (default), deviation, disagreement, sigma or evidence."),
    ] = None,
    hide: Annotated[float, typer.Option(help="Fraction of a record's readings held out in each masking fold.")] = 0.3,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Disjoint masking folds, one pass each. Default: 3, or 1 with --protocol paper; 1 is faster."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed that draws the held-out readings.")] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run 20 passes of MC dropout, and the ensemble if the model has one.")
    ] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="Also write queries.parquet, one row per held-out reading.")
    ] = False,
    protocol: ProtocolName = None,
    out: Out = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="table, csv, json, ndjson or parquet. Default: table on a terminal, csv in a pipe."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the table to this file; - is stdout.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if any line or record was rejected.")
    ] = False,
    no_cache: NoCache = False,
    share: Share = False,
    device: Device = "auto",
) -> None:
    """Rank the records of COHORT by the model's uncertainty and say why each is uncertain.

    Holds out 30 % of each record's readings, predicts them from the rest, and ranks records by the expected error.
    Prints every record; with --top-decile or --flag, only the flagged ones after those that cannot be ranked. Writes
    scores.parquet, rejects.parquet and timing.json to the output folder, and meds.parquet if records have subjects and
    timestamps.

    Example: levyscreen screen set-b --top-decile
    """
    if top_decile and flag is not None:
        top_decile, flag = _typed_of(context, top_decile, flag)
    common.data_format(format, output)
    common.refuse_source(output, cohort)
    from levyscreen import machine
    from levyscreen.screen import ScreenSettings

    machine.prepare()
    settings = ScreenSettings(hide=hide, seed=seed, flag=0.1 if flag is None else flag, signal=signal, folds=folds)
    where = machine.device(device)
    start = time.perf_counter()
    loaded, name, protocol = common.load(context, model, protocol, where)
    known = time.perf_counter()
    records = common.read(cohort, no_cache)
    times = {"ingest_s": time.perf_counter() - known, "load_s": known - start}
    common.note_left_out(records, loaded)
    common.note_met(records, loaded)
    common.note_uncalibrated(loaded, signal)
    folder = common.folder_for(out, cohort, records.name)
    screening, comparison = _run(records, loaded, settings, queries, compare, protocol)
    files = _write(screening, comparison, records, folder, times)
    _report(screening, comparison, records, folder)
    _note_former(folder, screening)
    from levyscreen.report.screened import note

    note(folder, cohort, _reference(loaded, name), protocol, sys.argv[1:], files)
    common.remember(cohort, name, protocol, folder)
    frame = screening.scores
    if top_decile or flag is not None:
        frame = frame[frame["flagged"] | ~frame["status"].isin(["scored", "too_many"])]
    from levyscreen.report.tables import scores_table

    common.write_frame(frame, format, output, lambda: scores_table(frame, screening.scores, screening.signal))
    _say_finding(screening, records, name)
    if strict and (records.rejected or (screening.scores["status"] == "unreadable").any()):
        raise typer.Exit(REJECTED_INPUT)


def _say_finding(screening: Screening, cohort: Cohort, model: str) -> None:
    """Ends the run with what it found, whether the model fails on this cohort, and what to do next."""
    from levyscreen.report.failing import Failing
    from levyscreen.report.finding import Finding

    finding = Finding.of(screening)
    if finding is not None:
        common.stderr(f"{finding} Next: levyscreen report")
        if fails := Failing.of(screening, cohort.records).line(model):
            common.stderr(fails)


def _typed_of(context: typer.Context, top_decile: bool, flag: float) -> tuple[bool, float | None]:
    """The one of the two that was typed, where the other is a default of the settings file or the environment."""
    match common.typed(context, "top_decile", "flag"):
        case [True, False]:
            return True, None
        case [False, True]:
            return False, flag
    raise UsageError("--top-decile flags a tenth: give either it or --flag")


def _run(
    cohort: Cohort, model: Model, settings: Any, queries: bool, compare: bool, protocol: str | None
) -> tuple[Screening, Any]:
    from levyscreen.compare import ENSEMBLE, Comparison
    from levyscreen.screen import screen
    from levyscreen.store import load_members

    comparison = None
    extra: dict[str, Any] = {}
    if compare:
        members = load_members(model)
        comparison = Comparison(model.network, members, len(cohort), settings.seed)
        extra["beside"] = comparison.beside
        if comparison.ensemble is None:
            common.stderr(
                f"note: model {model.name} has {len(members) + 1} of the {ENSEMBLE} members of a deep ensemble; "
                "the comparison goes on without it (train --members 5, or --protocol paper, has one)"
            )
    most = 512 if protocol == "paper" else None
    with common.progress("screening", len(cohort) * settings.folds_of(model)) as done:
        screening = screen(cohort, model, settings, queries, done, most_readings=most, **extra)
    if comparison is None:
        return screening, None
    return screening, comparison.table(screening.scores, screening.timing["compute_s"])


def _reference(model: Model, name: str) -> str:
    """The shipped model's name, or where the folder is, seen from anywhere."""
    from levyscreen.store import shipped_folder

    return name if model.folder.parent == shipped_folder() else str(model.folder.resolve())


def _write(
    screening: Screening, comparison: pd.DataFrame | None, cohort: Cohort, folder: Path, times: dict[str, float]
) -> dict[str, str]:
    """Writes the results; gives the digest of each file."""
    import pyarrow as pa

    from levyscreen import machine, outputs, schema
    from levyscreen.records.mapped.meds import has_meds_scores, meds_scores
    from levyscreen.temporaries import together

    start, provenance = time.perf_counter(), outputs.with_run(screening.provenance)
    former = outputs.read_footer(folder / "scores.parquet").get("cohort_fingerprint")
    scores = pa.Table.from_pandas(screening.scores, schema.SCORES, preserve_index=False)
    tables = {"scores.parquet": scores, "rejects.parquet": cohort.rejects}
    if has_meds_scores(cohort):
        tables["meds.parquet"] = meds_scores(cohort, scores)
    if screening.queries is not None:
        tables["queries.parquet"] = pa.Table.from_pandas(screening.queries, schema.QUERIES, preserve_index=False)
    with together(folder) as whole:
        for name, table in tables.items():
            outputs.write_parquet(whole / name, table, provenance)
        if comparison is not None:
            outputs.write_text(whole / COMPARISON, comparison.to_csv(index=False), shared=False)
        peak = machine.peak_memory_bytes()
        screening.timing.update(times, write_s=time.perf_counter() - start, peak_memory_bytes=peak)
        outputs.write_json(whole / "timing.json", screening.timing, shared=False)
        digests = {path.name: outputs.digest(path) for path in sorted(whole.iterdir())}
    if former not in (None, provenance["cohort_fingerprint"]):
        common.stderr(
            f"note: overwrites the results in {folder} of another cohort, or of this one before it changed; "
            "--out FOLDER keeps both"
        )
    of_this_one = tables.keys() | ({COMPARISON} if comparison is not None else set())
    for name in {"meds.parquet", "queries.parquet", COMPARISON} - of_this_one:
        if (folder / name).is_file():  # another screening's, which would be taken for this one's
            (folder / name).unlink()
            common.stderr(f"note: {folder / name} belonged to an earlier screening and was removed")
    return digests


def _of_too_little_hidden(screening: Screening) -> str:
    """A note on records that have readings enough, but so few are hidden that it is none; "" where there are none."""
    from levyscreen.config import OURS
    from levyscreen.records.hiding import hidden_count

    hide, scores = screening.provenance["hide"], screening.scores
    enough = scores.loc[(scores["status"] == "too_few") & (scores["n_readings"] >= OURS.min_readings), "n_readings"]
    none = int((hidden_count(enough.to_numpy(), hide) == 0).sum())
    if not none:
        return ""
    least = math.ceil(1 / hide)
    return f"note: --hide {hide:g} holds out no reading of {counted(none, 'record')} with fewer than {least:,} readings"


def _note_former(folder: Path, screening: Screening) -> None:
    """Says what lies there of something else: these files are for whoever made them to take away."""
    from levyscreen.outputs import read_footer

    if (folder / "report.html").is_file():
        common.stderr(f"note: {folder / 'report.html'} is stale; re-run levyscreen report")
    for part in sorted((folder / "continuum").glob("part-*.parquet"))[:1]:
        about, same = read_footer(part), ("cohort_fingerprint", "model_digest", "calibration_digest")
        if any(about.get(key) != screening.provenance[key] for key in same):
            common.stderr(f"note: {part.parent} is of another cohort or model; re-run levyscreen continuum")


def _report(screening: Screening, comparison: Any, cohort: Cohort, folder: Path) -> None:
    from levyscreen.report.tables import comparison_table, rejects_line, timing_line

    status = screening.scores["status"]
    left_out = int((status == "too_many").sum())
    note = f"note: {counted(left_out, 'record')} over 512 readings left out, as the paper does" if left_out else ""
    degenerate = int((status == "degenerate").sum())
    alike = f"note: {counted(degenerate, 'record')} not ranked, status degenerate: readings that repeat each other"
    ranked = bool((status == "scored").any())
    none = "" if ranked else "note: no record could be ranked: levyscreen validate says what is read"
    notes = note, alike if degenerate else "", _of_too_little_hidden(screening) or none
    for line in (rejects_line(cohort), *notes, timing_line(screening.timing), f"written to {folder}"):
        if line:
            common.stderr(line)
    if comparison is not None:
        common.show(comparison_table(comparison))
