"""The trained networks that a study's estimators read: loaded where they are, trained where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen import outputs
from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import UsageError
from levyscreen.estimators.ensemble import MEMBERS
from levyscreen.store import (
    CONFIG,
    WEIGHTS,
    Model,
    has_member,
    load_members,
    load_model,
    member_path,
    shipped_folder,
)
from levyscreen.training import finished, learning_from, member_seeds, train, train_member

if TYPE_CHECKING:
    import torch

    from levyscreen.learn.fit import Watch
    from levyscreen.learn.teacher import Teacher
    from levyscreen.model.network import Network
    from levyscreen.records.cohort import Cohort
    from levyscreen.study.datasets import Dataset

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
        """The model folder of a kind, or by `settings` of ModelConfig and TrainingConfig under another name.

        Raises UsageError where a network of other records lies there: its training records might be among these test
        records.
        """
        folder = self.path(kind)
        if (folder / CONFIG).exists():
            self._require_same_records(load_model(folder, self.device))
        if folder == self.path_of_shipped():
            return load_model(folder, self.device)
        if kind == "student":
            return self._student(folder)
        changes = {**self.dataset.network, **self.sizes, **(KINDS[kind] if settings is None else settings)}
        of_training = {f.name: changes.pop(f.name) for f in fields(TrainingConfig) if f.name in changes}
        recipe = replace(self.dataset.recipe, seed=self.seed, **of_training)
        config = ModelConfig(len(self.cohort.variables), **changes)
        return self._trained(folder, config, recipe)

    def _require_same_records(self, model: Model) -> None:
        if model.remembered("cohort_fingerprint") != self.cohort.fingerprint:
            raise UsageError(
                f"the network of seed {self.seed} in {model.folder} was trained on other records than those of "
                f"{self.cohort.name}: get them as they were published, leave out that seed, or name another folder "
                "with --networks"
            )

    def _student(self, folder: Path) -> Model:
        self.networks("ensemble")
        model, others = self.model(), member_seeds(self.seed, MEMBERS)
        learning = learning_from(model, self.cohort, STUDENT_EPOCHS, others)
        return self._trained(folder, model.network.config, *learning)

    def _trained(
        self, folder: Path, sizes: ModelConfig, recipe: TrainingConfig, teacher: Teacher | None = None
    ) -> Model:
        protocol, device = self.dataset.protocol, self.device
        found = finished(folder, self.cohort, protocol, sizes, recipe, device)
        if found is None and not self.training:
            raise MissingNetwork(f"{folder} holds no finished network of these records and settings")
        watch = self._watch(folder.name)
        return found or train(self.cohort, folder, protocol, sizes, recipe, device, True, watch, teacher)

    def _watch(self, what: str) -> Watch | None:
        return self.watch(f"seed {self.seed}, {what}")

    def networks(self, kind: str) -> Sequence[Network]:
        """What an estimator that reads `kind` is made from."""
        model = self.model("levy" if kind == "ensemble" else kind)
        if kind != "ensemble":
            return [model.network]
        others = member_seeds(self.seed, MEMBERS)
        for member in others:
            if not self.training and not has_member(model.folder, member):
                raise MissingNetwork(f"{model.folder} lacks member {member} of its ensemble")
            train_member(self.cohort, model, member, self.device, True, self._watch(f"member {member}"))
        return [model.network, *load_members(model, others)]

    def weights(self, kind: str) -> dict[str, str]:
        """Digests of what `kind` is made of, by file, as far as it is there."""
        kind, members = ("levy", member_seeds(self.seed, MEMBERS)) if kind == "ensemble" else (kind, ())
        folder = self.path(kind)
        files = [folder / WEIGHTS, *(member_path(folder, member) for member in members)]
        return {f"{kind}/{file.name}": outputs.digest(file) for file in files if file.exists()}

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
