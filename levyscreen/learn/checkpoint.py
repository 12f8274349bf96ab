"""The state of a training in one file, replaced whole after each epoch: after a kill, the last epoch or the one before.

Random state need not be kept: each epoch seeds its own from (seed, epoch).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from levyscreen.errors import TrainingError

FILE = "training.safetensors"


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave; losses are means over targets, rates as at its end."""

    epoch: int  # from 1
    train_loss: float
    validation_loss: float
    rate: float
    seconds: float


@dataclass
class Progress:
    """Where a training stands, besides its tensors."""

    fingerprint: str  # of cohort, protocol and settings: a resumed training must be the same one
    history: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    best_loss: float = float("inf")

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)


def save(
    folder: Path,
    progress: Progress,
    network: torch.nn.Module,
    best: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Writes the state under a temporary name, then renames it."""
    state = optimiser.state_dict()
    tensors = {f"network.{name}": t for name, t in network.state_dict().items()}
    tensors |= {f"best.{name}": t for name, t in best.items()}
    for index, slots in state["state"].items():
        tensors |= {f"optimiser.{index}.{name}": t for name, t in slots.items()}
    about = {
        "progress": asdict(progress),
        "groups": state["param_groups"],
        "schedule": {k: v for k, v in schedule.state_dict().items() if not k.startswith("_") and not callable(v)},
    }
    temporary = folder / f".{FILE}.{os.getpid()}"
    save_file({k: t.detach().cpu().contiguous() for k, t in tensors.items()}, temporary, {"state": json.dumps(about)})
    os.replace(temporary, folder / FILE)


def load(
    folder: Path,
    fingerprint: str,
    network: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[Progress, dict[str, Tensor]]:
    """Restores the three in place; returns progress and the best weights.

    Raises TrainingError on a damaged file, and on one of a training with another fingerprint.
    """
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            about: dict[str, Any] = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{folder / FILE} cannot be resumed from: {error}; train without --resume") from error
    if about["progress"]["fingerprint"] != fingerprint:
        raise TrainingError(
            f"{folder / FILE} belongs to a training with other records or settings: "
            "give the same ones, another --out, or no --resume"
        )
    network.load_state_dict(_under("network.", tensors))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimiser.", tensors).items():
        index, slot = name.split(".", 1)
        slots.setdefault(int(index), {})[slot] = tensor
    optimiser.load_state_dict({"state": slots, "param_groups": about["groups"]})
    schedule.load_state_dict(about["schedule"])
    progress = Progress(**{**about["progress"], "history": [Epoch(**e) for e in about["progress"]["history"]]})
    return progress, _under("best.", tensors)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
