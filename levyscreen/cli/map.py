"""`levyscreen map`: a first mapping of one's own tables, to be looked at and edited."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levyscreen.cli import common
from levyscreen.cli.defaults import SETTINGS_FILE
from levyscreen.errors import CohortError, UsageError

if TYPE_CHECKING:
    from levyscreen.records.drafted.several import Several

NAMED_FOLDERS = 3


def command(
    cohort: Annotated[
        Path,
        typer.Argument(
            metavar="COHORT",
            callback=common.expanded,
            help="MEDS folder, .csv, .psv, .tsv, .parquet or .xlsx file, or a folder of them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Mapping file; - is stdout. Default: <name>.toml in the current folder."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing mapping file.")] = False,
) -> None:
    """Draft a mapping of COHORT's tables, with uncertain guesses marked CHECK; other commands accept it as COHORT.

    Example: levyscreen map chart.csv -o chart.toml
    """
    from levyscreen.records.drafted.draft import CHECK, NAMED_FILES, draft
    from levyscreen.records.drafted.draft_several import draft_several
    from levyscreen.records.drafted.guess import guess
    from levyscreen.records.drafted.several import guess_several

    path = _target(cohort, output, force)
    several = guess_several(cohort)
    if several is not None:
        _say_several(several, _written(path, draft_several(several, _folder(path))))
        _say_next(path)
        return
    found = guess(cohort)
    text = _written(path, draft(found, _folder(path)))
    codes = sum(len(entry.seen) for entries in found.variables.values() for entry in entries)
    common.stderr(
        f"{found.roles.kind}: {len(found.variables)} variables of {codes} codes, {len(found.facts)} descriptors, "
        f"{len(found.ignored)} codes ignored, {len(found.left)} left out; "
        f"{text.count(CHECK) - 1} guesses marked {CHECK}"
    )
    profile = found.profile
    if profile.source != cohort:
        common.stderr(f"of {cohort} only {os.path.relpath(profile.source, cohort)} is looked at, and read")
    if profile.skipped:
        named = ", ".join(profile.skipped[:NAMED_FILES]) + (", ..." if len(profile.skipped) > NAMED_FILES else "")
        common.stderr(
            f"of other columns, and not looked at: {named}; set source to one file, and make each its mapping"
        )
    _say_next(path)


def _folder(path: Path | None) -> Path:
    """Where the mapping will stand, from where its sources are named."""
    return path.parent if path is not None else Path()


def _written(path: Path | None, text: str) -> str:
    """The text of a mapping, which is in its file now, or on stdout."""
    from levyscreen.outputs import write_text

    if path is None:
        typer.echo(text, nl=False)
    else:
        write_text(path, text)
    return text


def _say_several(found: Several, text: str) -> None:
    from levyscreen.records.drafted.draft import CHECK, NAMED_FILES

    variables = {name for guess in found.readings for name in guess.variables}
    facts = {name for guess in found.readings for name in guess.facts}
    facts |= {name for static in found.static for name in static.facts}
    common.stderr(
        f"{len(found.names)} tables, joined by their ids ({', '.join(found.names)}): variables: {len(variables)}, "
        f"descriptors: {len(facts)}; {text.count(CHECK) - 1} guesses marked {CHECK}"
    )
    if found.left:
        named = ", ".join(list(found.left)[:NAMED_FILES]) + (", ..." if len(found.left) > NAMED_FILES else "")
        common.stderr(f"not mapped, the mapping says why: {named}")


def _say_next(path: Path | None) -> None:
    if path is not None:
        common.stderr(f"written to {path}; look at it, then: levyscreen validate {path}")


def _what_then(cohort: Path) -> str:
    """What to give in place of something that is no table."""
    from levyscreen.records.archives import ENDINGS
    from levyscreen.records.mapped.folders import folders_of_tables

    inside = [str(cohort / name) for name in folders_of_tables(cohort)]
    if inside:
        return f"; did you mean {' or '.join(inside[:NAMED_FOLDERS])}, which holds tables?"
    if cohort.name.lower().endswith(ENDINGS):
        return (
            ", but an archive: if tables are in it, unpack it and map their folder; record files are read as they are"
        )
    return ": map takes CSV and Parquet; record files, their archives and mappings are read as they are, without one"


def _target(cohort: Path, output: Path | None, force: bool) -> Path | None:
    """Where the mapping goes; None for stdout. Raises UsageError where it would replace what somebody has edited."""
    from levyscreen.names import file_name, printable
    from levyscreen.records.mapped.folders import may_be_tables

    if not os.path.exists(cohort):
        raise CohortError(f"{cohort}: no such file or folder")
    if any("\udc80" <= character <= "\udcff" for character in str(cohort)):
        raise UsageError(f"{printable(str(cohort))}: its name is not UTF-8, and no mapping can say it: rename it")
    if not may_be_tables(cohort) and not cohort.name.lower().endswith((".txt", ".txt.gz")):
        raise UsageError(f"{cohort} is no table{_what_then(cohort)}")
    if output is not None and str(output) == "-":
        return None
    name = os.path.basename(os.path.abspath(cohort))  # its own, not that of what it links to
    path = output or Path(f"{file_name(name.split('.')[0] or 'cohort')}.toml")
    if path.name == SETTINGS_FILE.name:
        raise UsageError(f"{path} is the file of defaults of every command: name the mapping otherwise with -o")
    if path.suffix != ".toml":
        raise UsageError(f"{path}: a mapping is known by its ending; name it .toml")
    if path.exists() and not force:
        raise UsageError(
            f"{path} is there, and may have been edited: name another file with -o, or replace it with --force"
        )
    return path
