"""A study's folder: a JSON file for each run, written whole as the run ends, so that a second call goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levyscreen import outputs
from levyscreen.errors import LevyscreenError, UsageError

FORMAT = 2


@dataclass(frozen=True)
class Results:
    """The runs of one study under `folder`/study/dataset/seed-N/name.json."""

    folder: Path
    study: str
    cohorts: tuple[str, ...] = ()  # fingerprints of the cohorts that runs are of; none where runs are only read

    def path(self, dataset: str, seed: int, name: str) -> Path:
        """Where a run's result lies."""
        return self.folder / self.study / dataset / f"seed-{seed}" / f"{name}.json"

    def has(self, dataset: str, seed: int, name: str) -> bool:
        """Whether a run is done. Raises UsageError where it was of other records, LevyscreenError if it is damaged."""
        path = self.path(dataset, seed, name)
        if not path.exists():
            return False
        if _read(path)["cohorts"] != list(self.cohorts):
            raise UsageError(f"{path} is of other records than these: delete it, or name another folder by --out")
        return True

    def write(self, dataset: str, seed: int, name: str, found: dict[str, Any]) -> None:
        """Keeps what a run found."""
        about = {"format": FORMAT, "study": self.study, "dataset": dataset, "seed": seed, "name": name}
        about |= {"cohorts": self.cohorts}
        outputs.write_json(self.path(dataset, seed, name), outputs.sealed(about | found))

    def read(self) -> list[dict[str, Any]]:
        """Every run done so far, by dataset, name and seed. Raises LevyscreenError for a damaged file."""
        return sorted(
            (_read(path) for path in (self.folder / self.study).glob("*/seed-*/*.json")),
            key=lambda run: (run["dataset"], run["name"], run["seed"]),
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if outputs.SEAL not in run or not outputs.is_whole(run):  # a flipped bit may be in the seal's own name
            raise ValueError("it is damaged")
        if run["format"] == FORMAT:
            return run
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LevyscreenError(
            f"{path} is no result of a study ({error}): delete it, and its run is made anew"
        ) from error
    raise LevyscreenError(f"{path} has format {run['format']!r}; this version reads {FORMAT}: delete it to run anew")
