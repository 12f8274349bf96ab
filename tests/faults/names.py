"""Names and settings that others chose: shown, written and obeyed no further than they may be."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import sys
from functools import cache
from pathlib import Path
from unittest import mock

import pandas as pd
import typer.main

from levyscreen.cli import common
from levyscreen.cli.app import app, main
from levyscreen.cli.continuum import _ids
from levyscreen.cli.defaults import read_defaults
from levyscreen.errors import UsageError
from levyscreen.records.archives import open_source
from levyscreen.report.markdown import frame_markdown
from levyscreen.report.tables import frame_table
from tests.faults.hostile import pick
from tests.faults.mutations import Draw, mutated
from tests.faults.row import Row
from tests.records.record_files import record, write_folder

# What a terminal, Rich, a spreadsheet, a browser, a Markdown reader or a log would obey.
LIVE = (
    *("=1+1", "+1", "-1+1", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "\r=1", "\n=1", "\x1b[31m", "\x1b]0;owned\x07"),
    *("\x9b31m", "\x08\x08", "\x7f", "a\nlevyscreen: done", "\u202egpj.exe", "\u2028", "\u2066x", "[red]", "[/b]"),
    *("[/]", "[link=x]y", ":smile:", "<script>x</script>", "<img src=x>", "|x|y|", "`x`", "[x](javascript:y)", "\\"),
    *("&lt;", "$x$", "$\\frac{$", "{x}", "%s", "..", "...", " ", "~", "\udcff", "'; DROP"),
)
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")


def a_name(draw: Draw) -> str:
    """One or two of these, one after the other, without what no name of a file can have."""
    return "".join(LIVE[int(draw.integers(len(LIVE)))] for _ in range(int(draw.integers(1, 3)))).replace("/", "∕")


def run(*words: str | Path) -> tuple[object, str]:
    """Exit code of a command and all that it prints, as a terminal without colour would get it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2))
    with mock.patch.object(sys, "argv", ["levyscreen", *map(str, words)]), contextlib.redirect_stdout(out):
        try:
            with contextlib.redirect_stderr(err):
                main()
        except SystemExit as stopped:
            code = stopped.code
    out.flush()
    err.flush()
    return code, "".join(s.buffer.getvalue().decode("utf-8", "surrogateescape") for s in (out, err))


def live_names(draw: Draw, folder: Path) -> str | None:
    return _files_and_folders(draw, folder) or _tables(draw)


def _files_and_folders(draw: Draw, folder: Path) -> str | None:
    """A cohort and two of its files with such names: what is printed of them, and where the results would lie."""
    name = a_name(draw)
    where = folder / name if name.strip(".") else folder / f"x{name}"
    shown = [f"{a_name(draw)}.txt".lstrip(".") for _ in range(2)]
    odd = {name: record(8, "00:07,HR,x") for name in shown}
    write_folder(where, {"7.txt": record(7, "00:07,HR,73"), **odd, "y.txt": "x"})
    code, said = run("validate", where, "--no-cache")
    missing, missing_said = run("validate", folder / f"no {name}")
    found, packed = open_source(where).name, folder / f"{name}.zip"
    packed.touch()
    homes = [(common.OUT / n).resolve().parent for n in (found, open_source(packed).name)]
    wrong = (
        f"exit codes {code} and {missing}" if (code or 0, missing) != (0, 1) else None,
        "a control character is printed" if CONTROL.search(said + missing_said) else None,
        "a line is forged" if len(missing_said.splitlines()) != 1 else None,
        "the cohort is not named as it is" if found not in said else None,
        "its results would lie elsewhere" if set(homes) != {common.OUT.resolve()} else None,
    )
    return next((f"{name!r}: {w}" for w in wrong if w), None)


def _tables(draw: Draw) -> str | None:
    """Names of variables and files in every form that a table takes."""
    names = [a_name(draw).replace("\udcff", "x") for _ in range(4)]  # a frame holds text alone
    frame = pd.DataFrame({"name": names, "value": [1.0, -1.0, 0.0, 2.0]})
    printed = common.rendered(frame_table(frame, names[0])).decode("utf-8", "surrogateescape")
    cells = frame_markdown(frame).splitlines()
    text = b"".join(common._encode(frame, "csv", lambda: "")).decode("utf-8", "surrogatepass")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    wrong = (
        "a control character in a table" if CONTROL.search(printed) else None,
        "markup is gone from a table" if any(n.isprintable() and n.strip() not in printed for n in names) else None,
        "a Markdown row torn" if len(cells) != 6 or any(len(re.findall(r"(?<!\\)\|", c)) != 3 for c in cells) else None,
        "live Markdown" if re.search(r"[<>]|(?<!\\)[`\[]", "".join(cells)) else None,
        "a live formula" if any(row[0].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows) else None,
        "a CSV row torn" if len(rows) != 5 or any(len(row) != 2 for row in rows) else None,
    )
    return next((f"{names}: {w}" for w in wrong if w), None)


# Settings -----------------------------------------------------------------------------------------------------------

GOOD_TOML = b'[screen]\nseed = 2\nsignal = "evidence"\ntop-decile = true\n\n[continuum]\ngrid = 12\nhalf = true\n'
OTHER_TOML = b"[train]\nepochs = 3\n[plot]\nlevel = 0.8\n[scren]\nsed = 1\n[screen.x]\ny = [1, {a = 1}]\n"
COMMANDS = cache(lambda: typer.main.get_command(app))


def a_settings_file(draw: Draw, folder: Path) -> str | None:
    """Damaged in any way: wrong usage, or every word of it is a command's, an option's or a value."""
    path = folder / "levyscreen.toml"
    path.write_bytes(b"[" * 5000 if draw.integers(40) == 0 else mutated(draw, GOOD_TOML, OTHER_TOML))
    group = COMMANDS()
    try:
        found = read_defaults(path, group)
    except UsageError as error:
        return None if str(path) in str(error) else f"an error that names no file: {error}"
    known = {name: {p.name for p in command.params} for name, command in group.commands.items()}  # type: ignore[attr-defined]
    unknown = [f"{n}.{k}" for n, table in found.items() for k in table if n not in known or k not in known[n]]
    return f"{unknown[0]} is ignored in silence" if unknown else None


def a_list_of_records(draw: Draw, folder: Path) -> str | None:
    """A --records file or word, damaged in any way: wrong usage, or the numbers that stand in it."""
    ids = draw.integers(100_000, 200_000, int(draw.integers(1, 90))).tolist()
    sound = pick(draw, "\n", "\r\n", ",", " ", ", ").join(map(str, ids)).encode()
    data = sound if draw.integers(4) == 0 else mutated(draw, sound, b"1\n2,3\n\n4")
    path = folder / "ids.txt"
    path.write_bytes(data)
    word = data.decode(errors="replace").replace("\0", "")
    for where, text in ((str(path), _text(data)), (word, word)):
        try:
            found = _ids(where)
        except UsageError as error:
            if data == sound and (where != word or re.fullmatch("[0-9]+(, ?[0-9]+)*", word)):
                return f"refused: {error}"
            continue
        plain = [int(w) for w in re.findall("[0-9]+", text or "")]
        if found != plain or re.search(r"[^0-9,\s]", text or "x"):
            return f"{len(found or [])} ids of {len(plain)}"
    return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


ROWS = (
    Row(
        "names that start with = + - @, or hold markup, control characters, escape sequences, paths",
        "inert in CSV, terminal, Markdown; results lie where they should",
        live_names,
        12,
        200,
    ),
    Row(
        "levyscreen.toml damaged in any way, or of unknown commands and options",
        "wrong usage that names the file; nothing ignored in silence",
        a_settings_file,
        100,
        3000,
    ),
    Row(
        "a --records list damaged in any way",
        "wrong usage, or every number that stands in it",
        a_list_of_records,
        100,
        3000,
    ),
)
