"""A whole study: its runs seed by seed, then its tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levyscreen import outputs
from levyscreen.config import SEEDS
from levyscreen.errors import UsageError
from levyscreen.estimators.fitting import require_scikit_learn
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study import datasets, figures, tables
from levyscreen.study.ablations import ablate
from levyscreen.study.beyond import beyond
from levyscreen.study.continuum import time_all
from levyscreen.study.networks import MissingNetwork, Networks
from levyscreen.study.ranking import rank
from levyscreen.study.results import Results
from levyscreen.study.stage import Stage
from levyscreen.study.stress import stress

if TYPE_CHECKING:
    import torch

    from levyscreen.learn.fit import Watch


RANKINGS = "interpolation", "cohort"
UNTOUCHED = "cohort", "continuum"  # ask the cohort that no training saw
SCREENING = *UNTOUCHED, "beyond"  # ask it where there is one
OTHERS = {"continuum": time_all, "stress": stress, "ablations": ablate, "beyond": beyond}


@dataclass(frozen=True)
class Request:
    """What is asked for, and where things lie."""

    study: str
    dataset: str
    seeds: Sequence[int]
    estimators: Sequence[str] | None  # all where None
    data: Path
    out: Path
    networks: Path


def run(
    request: Request,
    device: torch.device,
    training: bool,
    say: Callable[[str], None],
    watch: Callable[[str], Watch | None] = lambda what: None,
) -> None:
    """Runs what has no result yet. Raises UsageError for an unknown dataset or estimator, or data that is not there."""
    if request.estimators is not None and request.study not in RANKINGS:
        raise UsageError(f"--estimators is for {' and '.join(RANKINGS)}; {request.study} has its own rows")
    names = list(ESTIMATORS) if request.estimators is None else list(request.estimators)
    unknown = [name for name in names if name not in ESTIMATORS]
    if unknown:
        raise UsageError(f"unknown estimator '{unknown[0]}': use {', '.join(ESTIMATORS)}")
    if request.study in RANKINGS and "density" in names:
        require_scikit_learn("density")
    dataset = datasets.dataset(request.dataset)
    if request.study in UNTOUCHED:
        datasets.located(dataset, request.data, dataset.screening)
    cohort = datasets.read(dataset, request.data, dataset.training)
    for note in cohort.notes:
        say(f"note: {note}")
    read = [cohort]
    if request.study in SCREENING and dataset.screening is not None:
        read.append(datasets.read(dataset, request.data, dataset.screening))
    results = Results(request.out, request.study, tuple(each.fingerprint for each in read))
    for seed in request.seeds:
        stage = Stage(Networks(dataset, seed, request.networks, cohort, device, training, watch), request.data)
        try:
            if request.study in RANKINGS:
                rank(stage, results, names, say)
            else:
                OTHERS[request.study](stage, results, say)
        except MissingNetwork as missing:
            say(f"seed {seed} left out: {missing}")


def report(study: str, out: Path) -> list[Path]:
    """Writes table.parquet, table.md and the figures of the runs so far. Raises UsageError where there is none."""
    import pyarrow as pa

    results = Results(out, study)
    if not results.read():
        raise UsageError(f"{out} holds no result of {study} yet: run what is missing, or name its folder by --out")
    folder = out / study
    outputs.write_parquet(
        folder / "table.parquet",
        pa.Table.from_pandas(tables.long_table(results), preserve_index=False),
        {"study": study},
    )
    outputs.write_text(folder / "table.md", tables.markdown(results))
    return [folder / "table.parquet", folder / "table.md", *figures.draw(results, folder)]


def seed_list(text: str) -> list[int]:
    """`0`, `0,2` or `0-4`. Raises UsageError for anything else, and for a seed that none can be."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            found = range(int(first), int(last if dash else first) + 1)
            if not found or not 0 <= found[-1] < SEEDS:
                raise ValueError
            seeds.extend(found)
    except ValueError:
        raise UsageError(f"seeds are numbers below 2^32, by comma or as a range such as 0-4; got '{text}'") from None
    return seeds
