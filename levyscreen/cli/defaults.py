"""The TOML file of defaults: a table a command, a key an option; what it holds besides is an error, never ignored."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from levyscreen.errors import UsageError

SETTINGS_FILE = Path("levyscreen.toml")  # in the working folder
MOST_NAMED = 3


def read_defaults(path: Path, group: Any) -> dict[str, Any]:
    """Defaults of each command of a group, as typer makes one, by the names of its parameters.

    Raises UsageError if the file cannot be read, or names a command or an option that there is not.
    """
    from levyscreen.outputs import read_text

    try:
        tables = tomllib.loads(read_text(path, "utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a readable TOML file: {error}") from error
    loose = [name for name, table in tables.items() if not isinstance(table, dict)]
    if loose:
        raise UsageError(f"{path} has '{loose[0]}' outside a table: put it under its command, for instance [screen]")
    _refuse_unknown(f"{path} has a table [{{}}], but there is no such command", tables, group.commands)
    return {name: _of_command(path, group.commands[name], name, table) for name, table in tables.items()}


def _of_command(path: Path, command: Any, name: str, table: dict[str, Any]) -> dict[str, Any]:
    options = [str(parameter.name).replace("_", "-") for parameter in command.params]
    plain = {key.replace("_", "-"): value for key, value in table.items()}
    _refuse_unknown(f"{path} has '{{}}' in [{name}], which has no such option", plain, options)
    if len(plain) < len(table):
        raise UsageError(f"{path} has one option twice in [{name}], once with - and once with _: delete one of them")
    odd = [key for key, value in plain.items() if not isinstance(value, str | int | float)]
    if odd:
        raise UsageError(f"{path} has neither a text nor a number nor true or false as '{odd[0]}' in [{name}]")
    return {key.replace("-", "_"): value for key, value in plain.items()}


def _refuse_unknown(message: str, found: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(known)
    for word in found:
        if word not in names:
            near = difflib.get_close_matches(word, names, MOST_NAMED) or names
            said = f"use {', '.join(near)}" if near else "delete it"
            raise UsageError(f"{message.format(word)}: {said}")
