"""The trained networks that a study's estimators read: loaded where they are, trained where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import UsageError
from levyscreen.store import CONFIG, Model, load_members, load_model, member_path, shipped_folder
from levyscreen.training import member_seeds, train, train_member, train_student

if TYPE_CHECKING:
    import torch

    from levyscreen.learn.fit import Watch
    from levyscreen.model.network import Network
    from levyscreen.records.cohort import Cohort
    from levyscreen.study.datasets import Dataset

MEMBERS = 5  # of the deep ensemble
# What Estimator.reads may name, and how it differs from the point model; an ensemble is that model and four more, a
# student a network that learnt the ensemble's mean.
KINDS: dict[str, dict[str, Any]] = {
    "levy": {},
    "ensemble": {},
    "softmax": {"decode": "softmax"},
    "cosine": {"decode": "cosine"},
    "nll": {"head": "nll"},
    "beta-nll": {"head": "beta-nll"},
    "tnp-d": {"decode": "tnp-d", "head": "nll"},
    "student": {},
}
STUDENT_EPOCHS = 12  # from the weights of the ensemble's first network


class MissingNetwork(UsageError):
    """A network that a study needs is not trained, and training was not asked for."""


@dataclass
class Networks:
    """The networks of one dataset and seed, under `folder`/dataset/seed-N/kind unless one is shipped."""

    dataset: Dataset
    seed: int
    folder: Path
    cohort: Cohort
    device: torch.device
    training: bool = True  # else what is not there raises MissingNetwork
    watch: Callable[[str], Watch | None] = lambda what: None
    sizes: Mapping[str, Any] = field(default_factory=dict)  # of ModelConfig, where not the default ones

    def model(self, kind: str = "levy", settings: dict[str, Any] | None = None) -> Model:
        """The model folder of a kind, or by `settings` of ModelConfig and TrainingConfig under another name."""
        folder = self.path(kind)
        if not (folder / CONFIG).exists() and not self.training:
            raise MissingNetwork(f"{folder} holds no trained network: run the study without --no-train")
        if folder == self.path_of_shipped():
            return self._shipped(folder)
        if kind == "student":
            return self._student(folder)
        changes = {**self.sizes, **(KINDS[kind] if settings is None else settings)}
        of_training = {f.name: changes.pop(f.name) for f in fields(TrainingConfig) if f.name in changes}
        recipe = replace(self.dataset.recipe, seed=self.seed, **of_training)
        config = ModelConfig(len(self.cohort.variables), **changes)
        return train(self.cohort, folder, self.dataset.protocol, config, recipe, self.device, True, self._watch(folder))

    def _shipped(self, folder: Path) -> Model:
        """Raises UsageError where its records were others: its training records might be among these test records."""
        model = load_model(folder, self.device)
        if model.remembered("cohort_fingerprint") != self.cohort.fingerprint:
            raise UsageError(
                f"the model of seed {self.seed}, {model.name}, was trained on other records than those of "
                f"{self.cohort.name}: get them as they were published, or leave out that seed"
            )
        return model

    def _student(self, folder: Path) -> Model:
        self.networks("ensemble")
        return train_student(self.cohort, self.model(), folder, STUDENT_EPOCHS, self.device, True, self._watch(folder))

    def _watch(self, folder: Path) -> Watch | None:
        return self.watch(f"seed {self.seed}, {folder.name}")

    def networks(self, kind: str) -> Sequence[Network]:
        """What an estimator that reads `kind` is made from."""
        model = self.model("levy" if kind == "ensemble" else kind)
        if kind != "ensemble":
            return [model.network]
        others = member_seeds(self.seed, MEMBERS)
        for member in others:
            if not self.training and not member_path(model.folder, member).exists():
                raise MissingNetwork(f"{model.folder} lacks member {member} of its ensemble")
            train_member(
                self.cohort, model, member, self.device, True, self.watch(f"seed {self.seed}, member {member}")
            )
        return [model.network, *load_members(model, self.device, others)]

    def path(self, kind: str) -> Path:
        """Where the model of a kind lies; an ensemble's first member is the point model."""
        kind = "levy" if kind == "ensemble" else kind
        shipped = self.path_of_shipped()
        if kind == "levy" and shipped is not None:
            return shipped
        return self.folder / self.dataset.name / f"seed-{self.seed}" / kind

    def path_of_shipped(self) -> Path | None:
        """The shipped model's folder, where this dataset and seed have one."""
        name = self.dataset.shipped.get(self.seed)
        return None if name is None else shipped_folder() / name
