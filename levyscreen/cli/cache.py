"""`levyscreen cache`: the kept copies of cohorts."""

from __future__ import annotations

import typer

from levyscreen.names import printable

app = typer.Typer(help="List or clear the kept copies of cohorts.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_() -> None:
    """Print name, size and time of each kept copy."""
    import datetime

    from levyscreen.records.cache import cache_entries, cache_folder

    for entry in cache_entries():
        when = datetime.datetime.fromtimestamp(entry.time).isoformat(" ", "seconds")
        typer.echo(f"{printable(entry.name)}\t{entry.bytes / 1e6:.1f} MB\t{when}")
    typer.echo(f"in {printable(str(cache_folder()))}", err=True)


@app.command("clear")
def clear() -> None:
    """Delete every kept copy."""
    from levyscreen.records.cache import clear_cache

    typer.echo(f"{len(clear_cache())} deleted", err=True)
