"""A study's folder: a JSON file for each run, written whole as the run ends, so that a second call goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levyscreen import outputs
from levyscreen.errors import LevyscreenError, UsageError

FORMAT = 3
NO_WEIGHTS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Results:
    """The runs of one study under `folder`/study/dataset/seed-N/name.json."""

    folder: Path
    study: str
    cohorts: tuple[str, ...] = ()  # fingerprints of the cohorts that runs are of; none where runs are only read

    def path(self, dataset: str, seed: int, name: str) -> Path:
        """Where a run's result lies."""
        return self.folder / self.study / dataset / f"seed-{seed}" / f"{name}.json"

    def has(self, dataset: str, seed: int, name: str, weights: Mapping[str, str] = NO_WEIGHTS) -> bool:
        """Whether a run is done; `weights` are digests of the networks that it would read, as far as they are there.

        Raises UsageError where it was of other records or other weights, LevyscreenError if it is damaged.
        """
        path = self.path(dataset, seed, name)
        if not path.exists():
            return False
        run = _read(path)
        if run["cohorts"] != list(self.cohorts):
            raise UsageError(f"{path} is of other records than these: delete it, or name another folder by --out")
        if other := sorted(file for file, digest in weights.items() if run["weights"].get(file, digest) != digest):
            raise UsageError(
                f"{path} is of another network than {other[0]} of these: delete it, or name the folder of its own "
                "networks by --networks, or another folder of results by --out"
            )
        return True

    def write(
        self, dataset: str, seed: int, name: str, found: dict[str, Any], weights: Mapping[str, str] = NO_WEIGHTS
    ) -> None:
        """Keeps what a run found, and of which networks."""
        about = {"format": FORMAT, "study": self.study, "dataset": dataset, "seed": seed, "name": name}
        about |= {"cohorts": self.cohorts, "weights": dict(weights)}
        outputs.write_json(self.path(dataset, seed, name), outputs.sealed(about | found))

    def read(self) -> list[dict[str, Any]]:
        """Every run done so far, by dataset, name and seed.

        Raises LevyscreenError for a damaged file, for runs of one dataset that are not of the same records, and for
        those of one seed that are not of the same networks.
        """
        runs = {path: _read(path) for path in sorted((self.folder / self.study).glob("*/seed-*/*.json"))}
        first: dict[tuple[str, ...], tuple[Path, Any]] = {}
        for path, run in runs.items():
            of: list[tuple[tuple[str, ...], Any]] = [(("records",), run["cohorts"])]
            of += [(("networks", str(run["seed"]), file), digest) for file, digest in run["weights"].items()]
            for what, found in of:
                other, expected = first.setdefault((run["dataset"], *what), (path, found))
                if found != expected:
                    raise LevyscreenError(
                        f"{path} is of other {what[0]} than {other}: no table can have both; take one away"
                    )
        return sorted(runs.values(), key=lambda run: (run["dataset"], run["name"], run["seed"]))


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
