"""What the subcommands share: options, progress on stderr, data on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levyscreen import names
from levyscreen.errors import UsageError, shortened
from levyscreen.names import cell, printable

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from rich.console import RenderableType

    from levyscreen.judging import Evaluation
    from levyscreen.records.cohort import Cohort
    from levyscreen.store import Model


def expanded(path: Path | None) -> Path | None:
    """`~` as shells have it, where none saw it: within quotes, in a settings file, in the environment."""
    return None if path is None else names.expanded(path)


def shared(on: bool) -> bool:
    """Sets whether what a command writes is for its owner alone."""
    from levyscreen.temporaries import share

    share(on)
    return on


CohortPath = Annotated[
    Path,
    typer.Argument(
        metavar="COHORT", callback=expanded, help="Folder, .tar.gz, .zip, mapping (.toml) or Parquet cohort."
    ),
]
ModelName = Annotated[str | None, typer.Option("--model", help="Name of a shipped model, or a model folder.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="'paper' uses the paper's cleaning, records and model, for comparison with its tables."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Read the source files again; do not use or write the cache.")
]
Share = Annotated[
    bool,
    typer.Option("--share", callback=shared, help="Let other users read the output, as the umask allows."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Output folder. Default: levyscreen-out/<cohort name>.")]

OUT = Path("levyscreen-out")
LAST = OUT / "last.json"
WIDE = 160
ROWS_AT_ONCE = 10_000
FORMATS = ("table", "csv", "json", "ndjson", "parquet")


def stderr(text: str) -> None:
    """One line of bounded length to stderr, whatever name is in it; a full disk there stops no work."""
    with suppress(OSError):
        print(shortened(printable(text)), file=sys.stderr)


def show(renderable: RenderableType) -> None:
    """A Rich table or text on stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE).print(renderable)


def folder_for(out: Path | None, cohort: Path, name: str) -> Path:
    """Where results go: --out, which may not be within the cohort, else a folder by the cohort's name."""
    if out is not None:
        refuse_inside(out, cohort)
    return out or OUT / name


def refuse_inside(folder: Path, cohort: Path) -> None:
    """Raises UsageError where results would lie among the files that they are made from, and be read with them."""
    from levyscreen.records.mapped.mapping import is_mapping, read_mapping

    sources = [part.source for part in read_mapping(cohort).parts] if is_mapping(cohort) else [cohort]
    for source in sources:
        if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"{folder} lies within the cohort, {source}: name a folder outside of it")


def refuse_source(output: Path | None, cohort: Path) -> None:
    """Raises UsageError where a file of results would replace what they are made from, or be read with it later."""
    if output is None or str(output) == "-":
        return
    from levyscreen.records.archives import is_record_name
    from levyscreen.records.mapped.mapping import is_mapping, read_mapping
    from levyscreen.records.mapped.tables import ending_of

    mapped = is_mapping(cohort)
    sources = [part.source for part in read_mapping(cohort).parts] if mapped else [cohort]
    path = output.resolve()
    if path in (cohort.resolve(), *(source.resolve() for source in sources)):
        raise UsageError(f"{output} is the cohort itself: name another file for the output")
    read_as_source = ending_of(path.name) if mapped else is_record_name(path.name)
    for source in sources:
        if source.is_dir() and path.is_relative_to(source.resolve()) and read_as_source:
            raise UsageError(
                f"{output} lies within the cohort, {source}, and would be read with it: name another folder"
            )


def model_name(name: str | None, protocol: str | None) -> str:
    """The model to use. Raises UsageError for an unknown protocol."""
    if protocol not in (None, "ours", "paper"):
        raise UsageError(f"unknown protocol '{protocol}': use ours or paper")
    return name or ("physionet2012-paper" if protocol == "paper" else "physionet2012")


def typed(context: typer.Context, *names: str) -> list[bool]:
    """Whether each option was typed, not taken from the settings file or the environment."""
    sources = [context.get_parameter_source(name) for name in names]
    return [source is not None and source.name == "COMMANDLINE" for source in sources]


def load(
    context: typer.Context, model: str | None, protocol: str | None, device: torch.device
) -> tuple[Model, str, str | None]:
    """The model of --model and --protocol, by which name it was found, and the protocol that is asked for.

    Of the two the typed one counts where they do not go together; if both were, or none was, UsageError is raised.
    """
    from levyscreen.store import load_model

    name = model_name(model, protocol)
    loaded = load_model(name, device)
    own = loaded.preprocessor.protocol.name
    if protocol in (None, own):
        return loaded, name, protocol
    match typed(context, "model", "protocol"):
        case [True, False]:
            return loaded, name, None
        case [False, True]:
            return load(context, None, protocol, device)
    raise UsageError(f"{loaded.name} was trained by the protocol '{own}': leave --protocol out, or --model")


def read(path: Path, no_cache: bool = False) -> Cohort:
    """Reads a cohort, its notes to stderr."""
    from levyscreen.records.cache import read_cohort

    cohort = read_cohort(path, cache=not no_cache)
    also = _passed_over(path)
    for note in (*cohort.notes, *also):
        stderr(f"note: {note}")
    return cohort


def _passed_over(path: Path) -> list[str]:
    from levyscreen.records import archives
    from levyscreen.records.mapped import tables
    from levyscreen.records.mapped.mapping import is_mapping, read_mapping
    from levyscreen.records.parquet import is_parquet_cohort

    if is_parquet_cohort(path):
        return []
    if is_mapping(path):
        said = [tables.passed_over(part.source, part.kind) for part in read_mapping(path).parts]
    else:
        said = [archives.passed_over(path)]
    return [note for note in said if note is not None]


def note_left_out(cohort: Cohort, model: Model) -> None:
    """Says on stderr what the model does not see of the cohort. Raises ModelError where it can see nothing."""
    from levyscreen.records.alignment import left_out

    for note in left_out(cohort, model.preprocessor.variables):
        stderr(f"note: {note}")


def note_met(cohort: Cohort, model: Model) -> None:
    """Says on stderr where the model was made with records of this cohort, and so looks better than it is."""
    if met := model.met(cohort.fingerprint):
        stderr(
            f"note: {model.name} was {met} on records of this cohort: errors, ranking and intervals are better here "
            "than on others"
        )


def note_uncalibrated(model: Model, signal: str | None) -> None:
    """Says on stderr that a model has no calibration, where it is ranked by the signal that then stands in for it."""
    if model.calibration is None and signal is None and model.network.config.decode == "levy":
        stderr(
            f"note: {model.name} has no calibration, so records are ranked by the raw deviation and have no intervals: "
            f"levyscreen calibrate {model.folder} COHORT gives it one"
        )


def warn_of_signals(model: Model) -> None:
    """Says which calibrated signals no screening can rank by."""
    for name, fitted in model.calibrations.items():
        if not fitted.rankable:
            stderr(
                f"warning: a = 0, so {name} says nothing about error here; screening will refuse to rank by it: "
                "train longer, or on more records"
            )


def write_card(model: Model, cohort: Cohort | None, why_not: str = "") -> Evaluation | None:
    """Judges a model on its held-out records of `cohort`, if there is one, and writes its card. Says what it takes."""
    from levyscreen.card import write_card as written
    from levyscreen.judging import evaluate

    evaluation = None
    if cohort is not None:
        stderr("judging it on records that it never saw, for its card: a pass over them for each masking")
        evaluation = evaluate(model, cohort)
    stderr(f"card written to {written(model, evaluation, why_not)}")
    return evaluation


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that counts records; silent off a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda records: bar.advance(task, records)


def write_frame(
    frame: pd.DataFrame, form: str | None, output: Path | None, table: Callable[[], RenderableType]
) -> None:
    """Data to stdout or `output`: a table on a terminal, CSV when piped, unless `form` says otherwise."""
    blocks = _encode(frame, data_format(form, output), table)
    if output is not None and str(output) != "-":
        from levyscreen.outputs import replacing

        with replacing(output, shared=False) as temporary, temporary.open("wb") as file:
            file.writelines(blocks)
    else:
        sys.stdout.buffer.writelines(blocks)
        sys.stdout.buffer.flush()


def data_format(form: str | None, output: Path | None) -> str:
    """The format of `write_frame`. Raises UsageError for an unknown one; to be asked before a long computation."""
    if form is None and output is not None and str(output) != "-":
        return _by_suffix(output)
    form = form or ("table" if sys.stdout.isatty() else "csv")
    if form not in FORMATS:
        raise UsageError(f"unknown format '{form}': use {', '.join(FORMATS)}")
    return form


def _by_suffix(path: Path) -> str:
    known = {".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".parquet": "parquet"}
    if path.suffix not in known:
        raise UsageError(f"give {path.name} a format by --format, or one of the endings {', '.join(known)}")
    return known[path.suffix]


def _encode(frame: pd.DataFrame, form: str, table: Callable[[], RenderableType]) -> Iterator[bytes]:
    """Blocks of bytes; by lines where the format has lines, so that a large cohort is never held as text."""
    import io

    if form == "table":
        yield rendered(table())
    elif form == "json":
        yield (frame.to_json(orient="records", indent=1) + "\n").encode()
    elif form == "parquet":
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False, compression="zstd")
        yield buffer.getvalue()
    else:
        for start in range(0, max(1, len(frame)), ROWS_AT_ONCE):
            rows = frame.iloc[start : start + ROWS_AT_ONCE]
            if form == "csv":
                yield _inert(rows).to_csv(index=False, header=start == 0, lineterminator="\n").encode()
            else:
                yield rows.to_json(orient="records", lines=True).encode()


def _inert(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows with text that no spreadsheet runs."""
    texts = frame.select_dtypes(["object", "string"])
    return frame.assign(
        **{str(name): texts[name].map(lambda v: cell(v) if isinstance(v, str) else v) for name in texts}
    )


def rendered(renderable: RenderableType) -> bytes:
    """A Rich renderable as it would stand on stdout: coloured on a terminal only."""
    from rich.console import Console

    # Off a terminal there is no width to keep to: nothing is cut short.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get().encode()


def remember(cohort: Path, model: str, protocol: str | None, out: Path | None = None) -> None:
    """Notes what was screened last from this folder, for `continuum` without a COHORT and `report` without an OUT.

    Where the folder cannot be written to, says so: the results lie elsewhere, and are whole.
    """
    from levyscreen.errors import LevyscreenError
    from levyscreen.outputs import sealed, write_json

    asked = {"cohort": str(cohort.resolve()), "model": model, "protocol": protocol}
    try:
        write_json(LAST, sealed(asked | {"out": None if out is None else str(out.resolve())}), shared=False)
    except LevyscreenError as error:
        stderr(f"note: {error}; name cohort and folder to continuum and report")


def recall(instead: str = "continuum COHORT") -> dict[str, Any]:
    """What `remember` noted. Raises UsageError, saying what to type instead, where nothing was screened from here."""
    from levyscreen.outputs import is_whole, read_text

    try:
        found = json.loads(read_text(LAST))
        if is_whole(found):
            return {name: found[name] for name in ("cohort", "model", "protocol")} | {"out": found.get("out")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    raise UsageError(f"no cohort was screened from this folder yet: type levyscreen {instead}, or screen one first")


def strings(text: str | None) -> tuple[str, ...] | None:
    """Comma-separated names; None for none given."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())
