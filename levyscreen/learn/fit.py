"""The training loop."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.learn import checkpoint
from levyscreen.learn.checkpoint import Epoch, Progress
from levyscreen.learn.data import TrainingData, epoch_seed
from levyscreen.learn.losses import summed_loss
from levyscreen.learn.teacher import Teacher
from levyscreen.model.network import Network, build
from levyscreen.records.batches import Batcher, by_tokens, similar_length
from levyscreen.types import Batch

VALIDATION_TOKENS = 16_384  # padded readings a batch


@dataclass(frozen=True)
class Watch:
    """Called as training goes: after each step (step, steps, mean loss so far), after each epoch."""

    step: Callable[[int, int, float], None] = lambda step, steps, loss: None
    epoch: Callable[[Progress], None] = lambda progress: None


@dataclass(frozen=True)
class Fitted:
    """A trained network with its best weights, and the way there."""

    network: Network
    progress: Progress


def fit(
    data: TrainingData,
    model: ModelConfig,
    config: TrainingConfig,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    watch: Watch | None = None,
    teacher: Teacher | None = None,
) -> Fitted:
    """Trains on the training records, stops by the validation records, keeps the best weights.

    With a teacher, a network that starts as the teacher's first learns its mean; stopping goes by the hidden values.

    State goes to `folder` after each epoch; with `resume`, a training cut off there goes on and ends as one that was
    not, on a CPU in the same weights bit for bit. Raises TrainingError where the state there is of another training,
    and for another teacher than the settings name.
    """
    watch = watch or Watch()
    if config.teacher != (teacher.digest if teacher else None):
        raise TrainingError("a student is trained by its own teacher: its settings name another one, or none")
    folder.mkdir(parents=True, exist_ok=True)
    trainer = _Trainer(data, model, config, device, teacher)
    if resume and (folder / checkpoint.FILE).exists():
        trainer.restore(folder)
    while not trainer.finished:
        trainer.run_epoch(watch)
        trainer.save(folder)
        watch.epoch(trainer.progress)
    trainer.network.load_state_dict(trainer.best)
    return Fitted(trainer.network.eval(), trainer.progress)


class _Trainer:
    def __init__(
        self,
        data: TrainingData,
        model: ModelConfig,
        config: TrainingConfig,
        device: torch.device,
        teacher: Teacher | None = None,
    ):
        self.data, self.config, self.device, self.teacher = data, config, device, teacher
        self.train_part = data.part(data.split.train)
        validation = data.part(data.split.validation)
        self.validation = Batcher(validation, data.targets(validation, epoch_seed(config.seed, 0)))
        self.network = _network(model, config).to(device)
        if teacher:
            self.network.load_state_dict(teacher.networks[0].state_dict())
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=config.peak_rate, weight_decay=config.weight_decay, fused=True
        )
        steps = config.epochs * -(-len(self.train_part) // config.batch_records)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, config.peak_rate, total_steps=steps, pct_start=config.warm_up
        )
        self.progress = Progress(_fingerprint(data, model, config))
        self.best = _copy(self.network)

    @property
    def finished(self) -> bool:
        waited = self.progress.epoch - self.progress.best_epoch
        return self.progress.epoch >= self.config.epochs or waited >= self.config.patience

    def restore(self, folder: Path) -> None:
        self.progress, self.best = checkpoint.load(
            folder, self.progress.fingerprint, self.network, self.optimiser, self.schedule
        )

    def save(self, folder: Path) -> None:
        checkpoint.save(folder, self.progress, self.network, self.best, self.optimiser, self.schedule)

    def run_epoch(self, watch: Watch) -> None:
        start, epoch = time.perf_counter(), self.progress.epoch + 1
        train_loss = self._train(epoch, watch)
        validation_loss = self._validate()
        if not np.isfinite(train_loss) or not np.isfinite(validation_loss):
            raise TrainingError(f"the loss is not finite in epoch {epoch}: try a lower learning rate")
        if validation_loss < self.progress.best_loss:
            self.progress.best_epoch, self.progress.best_loss = epoch, validation_loss
            self.best = _copy(self.network)
        rate = float(self.optimiser.param_groups[0]["lr"])
        self.progress.history.append(Epoch(epoch, train_loss, validation_loss, rate, time.perf_counter() - start))

    def _train(self, epoch: int, watch: Watch) -> float:
        seed = epoch_seed(self.config.seed, epoch)
        torch.manual_seed(seed)
        batcher = Batcher(self.train_part, self.data.targets(self.train_part, seed, self.config.least_hidden))
        plan = similar_length(batcher.context_lengths, self.config.batch_records, np.random.default_rng(seed))
        self.network.train()
        total, count = 0.0, 0
        for step, batch in enumerate(batcher.batches(plan), start=1):
            targets = int(batch.query_mask.sum())
            total += self._step(batch.to(self.device), targets)
            count += targets
            watch.step(step, len(plan), total / count)
        return total / count

    def _step(self, batch: Batch, targets: int) -> float:
        if self.teacher:
            batch = self.teacher.teach(batch)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.products == "bfloat16"):
            loss = summed_loss(self.network, batch, self.config)
        self.optimiser.zero_grad(set_to_none=True)
        (loss / targets).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
        self.optimiser.step()
        self.schedule.step()
        return float(loss.detach())

    @torch.no_grad()
    def _validate(self) -> float:
        self.network.eval()
        # Of beta-NLL the NLL (beta 0): its own value is weighted by each epoch's scales, so that no two epochs compare.
        judged_by = replace(self.config, beta=0.0)
        total, count = 0.0, 0
        for batch in self.validation.batches(by_tokens(self.validation.context_lengths, VALIDATION_TOKENS)):
            total += float(summed_loss(self.network, batch.to(self.device), judged_by))
            count += int(batch.query_mask.sum())
        return total / count


def _network(model: ModelConfig, config: TrainingConfig) -> Network:
    """Freshly initialised, on the path of the settings. Raises TrainingError where it has no other than the mean."""
    network = build(model, config.seed)
    if config.path == "sampled":
        if model.decode != "levy":
            raise TrainingError(f"only a levy layer can be trained on its sampled path, and this is {model.decode}")
        if config.products != "float32":
            raise TrainingError("the sampled path is trained in float32 alone: phi has no series for fewer digits")
        network.levy().sampled = True
    return network


def _copy(network: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def _fingerprint(data: TrainingData, model: ModelConfig, config: TrainingConfig) -> str:
    digest = hashlib.blake2b(digest_size=16)
    # What records say at the least follows from the records, and no training sees it.
    settings = [model.to_json(), config.to_json(), replace(data.preprocessor, least={}).to_json()]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    r = data.readings
    for array in (r.record_id, r.offsets, r.time, r.variable, r.value, *vars(data.split).values()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
