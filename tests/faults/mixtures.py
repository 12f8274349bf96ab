"""Files that do not belong together: of two screenings, of two trainings, of a process that lives and one that died."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from levyscreen import outputs, temporaries
from levyscreen.errors import LevyscreenError, UsageError
from levyscreen.report.screened import WRITTEN, note, require_one_run
from levyscreen.store import load_model
from levyscreen.temporaries import replacing, sweep
from tests.faults.models import refused, whole, write
from tests.faults.mutations import Draw
from tests.faults.row import Row


def some(draw: Draw, names: list[str]) -> list[str]:
    """At least one of them."""
    return sorted(draw.choice(names, int(draw.integers(1, len(names) + 1)), replace=False).tolist())


def two_screenings(draw: Draw, folder: Path) -> str | None:
    """Any files of one screening among those of another, or gone."""
    first, second = ({name: f"{name} of {run}" for name in WRITTEN if draw.random() < 0.7} for run in "ab")
    for name, content in first.items():
        (folder / name).write_text(content)
    note(folder, folder, "tiny", None, ["screen"], {name: outputs.digest(folder / name) for name in first})
    require_one_run(folder)
    changed = some(draw, sorted(first.keys() | second.keys() | {"scores.parquet"}))
    for name in changed:
        if name in second:
            (folder / name).write_text(second[name])
        else:
            (folder / name).unlink(missing_ok=True)
    if not set(changed) & (first.keys() | second.keys()):
        return None
    try:
        require_one_run(folder)
    except UsageError as error:
        return None if any(name in str(error) for name in changed) else f"none of {changed} is named: {error}"
    return f"{changed} are of another screening, and it was read"


def two_trainings(draw: Draw, folder: Path) -> str | None:
    """Any files of one model among those of another, or gone."""
    model, other = write(folder), whole(1)
    changed = some(draw, sorted(whole()))
    missing = draw.random() < 0.3
    for name in changed:
        if missing:
            (model / name).unlink()
        else:
            (model / name).write_bytes(other[name])
    if len(changed) < len(whole()):
        return refused(model, *whole())
    if missing:
        return refused(model)
    load_model(model)
    return None


def planted(draw: Draw, folder: Path) -> str | None:
    """A link or file where a temporary is about to be made, beside what living and dead processes have there."""
    target, victim = folder / "a.txt", folder / "victim"
    victim.write_text("kept")
    os.chmod(victim, 0o666)
    at = folder / f".a.txt.levyscreen-{'0' * 16}.tmp"
    living, dead = (folder / f".b.txt.levyscreen-{digit * 16}.tmp" for digit in "12")
    with ExitStack() as stack:
        for path in (living, dead):
            file = stack.enter_context(path.open("w"))
            if path == living:
                fcntl.flock(file, fcntl.LOCK_EX)
            os.utime(path, (float(draw.choice([0, 2**31])),) * 2)
        sweep(folder)
        if not living.exists() or dead.exists():
            return "the living one's is swept, or the dead one's is not"
        if draw.random() < 0.5:
            at.symlink_to(victim)
        else:
            os.link(victim, at)
        stack.enter_context(mock.patch.object(temporaries.secrets, "token_hex", return_value="0" * 16))
        stack.enter_context(mock.patch.object(temporaries, "sweep"))
        try:
            with replacing(target, shared=False) as name:
                name.write_text("new")
        except LevyscreenError as error:
            if "a.txt could not be written" not in str(error):
                return str(error)
        else:
            return "it was written to what lay there"
    return None if victim.read_text() == "kept" and not target.exists() else "what was planted led to another file"


ROWS: tuple[Row, ...] = (
    Row(
        "files of two screenings in one folder, or some gone",
        "refused by the name of one of them",
        two_screenings,
        40,
        2_000,
    ),
    Row(
        "files of two trainings in one model folder, or some gone",
        "refused by the name of one of them",
        two_trainings,
        20,
        500,
    ),
    Row(
        "a link or file planted under a temporary's name; temporaries of the living and the dead, however old",
        "never followed or written to; the dead's swept, the living's not",
        planted,
        20,
        500,
    ),
)
