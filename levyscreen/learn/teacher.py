"""An ensemble to learn from: its mean stands in for the hidden values of the training records."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from levyscreen.model.network import Network
from levyscreen.types import Batch


@dataclass(frozen=True)
class Teacher:
    """Trained networks of one configuration, in inference mode; a student starts from the first one's weights."""

    networks: Sequence[Network]

    @property
    def digest(self) -> str:
        """Of all weights."""
        digest = hashlib.blake2b(digest_size=16)
        for network in self.networks:
            for name, tensor in network.state_dict().items():
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def teach(self, batch: Batch) -> Batch:
        """The batch with the mean prediction as its targets, (R, m) z units; 0 where padded."""
        mean = torch.stack([network(batch) for network in self.networks]).mean(0)
        return replace(batch, target=mean.where(batch.query_mask, torch.zeros_like(mean)))
