"""Where a study's records come from, and under which protocol they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen.config import OUR_NETWORK, OUR_TRAINING, OURS, PAPER, Protocol, TrainingConfig
from levyscreen.errors import UsageError
from levyscreen.names import expanded
from levyscreen.records.cache import read_cohort
from levyscreen.records.ushcn import read_ushcn

if TYPE_CHECKING:
    from levyscreen.records.cohort import Cohort


PAPERS_RECIPE = TrainingConfig()


@dataclass(frozen=True)
class Dataset:
    """A cohort to train and judge on and, where there is one, a second that is only screened."""

    name: str
    title: str  # as tables label it
    training: Path  # in the data folder
    screening: Path | None
    read: Callable[[Path], Cohort]
    shipped: dict[int, str]  # by seed, a shipped model that is this dataset's trained network
    protocol: Protocol = PAPER
    recipe: TrainingConfig = PAPERS_RECIPE
    network: Mapping[str, Any] = field(default_factory=dict)  # of ModelConfig, where it is not the paper's


DATASETS = {
    d.name: d
    for d in (
        Dataset(
            "physionet2012",
            "PhysioNet 2012",
            Path("physionet2012/set-a.tar.gz"),
            Path("physionet2012/set-b.tar.gz"),
            read_cohort,
            {0: "physionet2012-paper"},
        ),
        Dataset(  # the default recipe under the paper's cleaning and records
            "physionet2012-recipe",
            "PhysioNet 2012, default recipe",
            Path("physionet2012/set-a.tar.gz"),
            Path("physionet2012/set-b.tar.gz"),
            read_cohort,
            {},
            recipe=TrainingConfig(**OUR_TRAINING),
            network=OUR_NETWORK,
        ),
        Dataset(
            "ushcn",
            "USHCN, rebuilt",
            Path("ushcn/small_chunked_sporadic_rebuilt.csv.gz"),
            None,
            read_ushcn,
            {},
            recipe=TrainingConfig(epochs=60, patience=60),  # 25 steps an epoch: never stopped early
        ),
    )
}


def dataset(name: str) -> Dataset:
    """By name, or a cohort of one's own by its path. Raises UsageError for what is neither."""
    if name in DATASETS:
        return DATASETS[name]
    path = expanded(name).absolute()
    if not path.exists():
        raise UsageError(f"unknown dataset '{name}': use {', '.join(DATASETS)}, or the path of a cohort of your own")
    cohort = read_cohort(path)
    # Of the records and of the variable table: results and networks of either as it was stay apart.
    own = "-".join([cohort.name, *(part[:8] for part in cohort.fingerprint.split("-"))])
    return Dataset(own, own, path, None, lambda _: cohort, {}, OURS, TrainingConfig(**OUR_TRAINING), OUR_NETWORK)


def title_of(name: str) -> str:
    """How tables label a dataset of this name; one's own has no other."""
    return DATASETS[name].title if name in DATASETS else name


def read(chosen: Dataset, data: Path, path: Path | None) -> Cohort:
    """One of a dataset's cohorts. Raises UsageError where the data folder lacks it."""
    return chosen.read(located(chosen, data, path))


def located(chosen: Dataset, data: Path, path: Path | None) -> Path:
    """Where one of a dataset's cohorts lies. Raises UsageError where there is none, or the data folder lacks it."""
    if path is None:
        raise UsageError(f"{chosen.title} has no second cohort to screen")
    if not (data / path).exists():
        raise UsageError(f"{data / path} is not there: name the folder that holds {path} with --data")
    return data / path
