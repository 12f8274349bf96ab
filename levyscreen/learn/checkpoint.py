"""The state of a training in one file, replaced whole after each epoch: after a kill, the last epoch or the one before.

Random state need not be kept: each epoch seeds its own from (seed, epoch).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor

from levyscreen.errors import TrainingError
from levyscreen.temporaries import replacing

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
    """Writes the state under a temporary name, then renames it. Raises LevyscreenError if it cannot be written."""
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
    tensors = {k: t.detach().cpu().contiguous() for k, t in tensors.items()}
    text = json.dumps(about)
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(serialised(tensors, {"state": text, "digest": _digest(text, tensors)}))


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
            text, digest = file.metadata()["state"], file.metadata()["digest"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if digest != _digest(text, tensors):
            raise ValueError("it is damaged")
        return _restored(folder / FILE, json.loads(text), tensors, fingerprint, network, optimiser, schedule)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{folder / FILE} cannot be resumed from: {error}; delete it to begin anew") from error


def _restored(
    path: Path,
    about: dict[str, Any],
    tensors: dict[str, Tensor],
    fingerprint: str,
    network: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[Progress, dict[str, Tensor]]:
    if about["progress"]["fingerprint"] != fingerprint:
        raise TrainingError(
            f"{path} belongs to a training with other records or settings: give the same ones, or name another folder"
        )
    try:
        network.load_state_dict(_under("network.", tensors))
    except RuntimeError as error:  # torch lists every tensor
        raise ValueError("its tensors are those of another network") from error
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimiser.", tensors).items():
        index, slot = name.split(".", 1)
        slots.setdefault(int(index), {})[slot] = tensor
    optimiser.load_state_dict({"state": slots, "param_groups": about["groups"]})
    schedule.load_state_dict(about["schedule"])
    progress = Progress(**{**about["progress"], "history": [Epoch(**e) for e in about["progress"]["history"]]})
    return progress, _under("best.", tensors)


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """Of the state and of every tensor with its name, type and shape: safetensors itself checks no content."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
