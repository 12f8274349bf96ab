"""The `levyscreen` command: one file a subcommand; torch is loaded only inside them."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from levyscreen.cli import (
    cache,
    calibrate,
    continuum,
    crash,
    evaluate,
    map,
    plot,
    report,
    screen,
    study,
    train,
    validate,
)
from levyscreen.cli.common import stderr
from levyscreen.cli.defaults import SETTINGS_FILE, read_defaults
from levyscreen.cli.environment import notes
from levyscreen.errors import LevyscreenError, UsageError
from levyscreen.memory import is_out_of_memory
from levyscreen.temporaries import share

app = typer.Typer(
    name="levyscreen",
    help="For which patients are a model's predictions unreliable, and why?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "LEVYSCREEN"},
)
app.command("screen")(screen.command)
app.command("continuum")(continuum.command)
app.command("train")(train.command)
app.command("calibrate")(calibrate.command)
app.command("evaluate")(evaluate.command)
app.command("plot")(plot.command)
app.command("report")(report.command)
app.command("study")(study.command)
app.command("map")(map.command)
app.command("validate")(validate.command)
app.add_typer(cache.app, name="cache")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"levyscreen {version('levyscreen')}")
        raise typer.Exit


@app.callback()
def settings(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of defaults, one [table] per command. Default: levyscreen.toml in the current folder."
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """For which patients are a model's predictions unreliable, and why?"""
    for note in notes(os.environ, context.command):
        stderr(f"note: {note}")
    path = config or (SETTINGS_FILE if SETTINGS_FILE.is_file() else None)
    if path is not None:
        context.default_map = read_defaults(path, context.command)


def main() -> None:
    """Entry point: errors that were meant, or of a lack of room, become one line on stderr, others their places."""
    crash.prepare()
    os.environ.pop("LEVYSCREEN_VERSION", None)  # whoever sets it means the package, not what to print
    try:
        app()
    except UsageError as error:
        stderr(f"levyscreen: {error}")
        raise SystemExit(2) from None
    except LevyscreenError as error:
        stderr(f"levyscreen: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        stderr("levyscreen: interrupted; nothing was left half written")
        raise SystemExit(130) from None
    except BrokenPipeError:
        _drop_stdout()
        raise SystemExit(0) from None
    except OSError as error:
        _drop_stdout()
        stderr(f"levyscreen: standard output or a file could not be written or read: {error}")
        raise SystemExit(1) from None
    except Exception as error:
        if is_out_of_memory(error):
            stderr("levyscreen: not enough memory: free some, take --device cpu, or screen the cohort in parts")
        else:
            crash.report(error)
        raise SystemExit(1) from None
    finally:
        share(False)  # which was for that command


def _drop_stdout() -> None:
    """What could not be written is not tried again as Python ends, which would print a traceback of its own."""
    with suppress(OSError):  # a stdout without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
