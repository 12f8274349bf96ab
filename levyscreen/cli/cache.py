"""`levyscreen cache`: the cache of cohorts."""

from __future__ import annotations

import typer

from levyscreen.names import printable

app = typer.Typer(help="List or clear the cache of cohorts.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_() -> None:
    """List the cached cohorts with name, size and time."""
    import datetime

    from levyscreen.records.cache import cache_entries, cache_folder

    for entry in cache_entries():
        when = datetime.datetime.fromtimestamp(entry.time).isoformat(" ", "seconds")
        typer.echo(f"{printable(entry.name)}\t{entry.bytes / 1e6:.1f} MB\t{when}")
    typer.echo(f"in {printable(str(cache_folder()))}", err=True)


@app.command("clear")
def clear() -> None:
    """Delete all cached cohorts."""
    from levyscreen.records.cache import clear_cache

    typer.echo(f"{len(clear_cache())} deleted", err=True)
