"""docs/cli.md, from what the commands say of themselves: `python -m docs.cli` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from levyscreen.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# Commands

Made of `levyscreen COMMAND --help` by `python -m docs.cli`; a test fails where this page is not what the commands say.
How the commands work together is in the [quickstart](quickstart.md).
"""


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Words of every command, in the order that the help lists them."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield *words, name


def page() -> str:
    """The whole page; at one width, whatever the terminal."""
    runner, parts = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}), [HEAD]
    for words in ((), *commands()):
        said = runner.invoke(app, [*words, "--help"], prog_name="levyscreen").output
        text = "\n".join(line.rstrip() for line in said.strip().splitlines())
        parts.append(f"## {' '.join(('levyscreen', *words))}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
