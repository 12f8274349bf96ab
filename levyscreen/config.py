"""Frozen settings, with the reasons for odd defaults; JSON round trip by `to_json` and `from_json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class _Settings:
    def to_json(self) -> dict[str, Any]:
        """Plain objects that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The settings that `to_json` wrote; an unknown key raises TypeError."""
        return cls(**data)


@dataclass(frozen=True)
class ModelConfig(_Settings):
    """The network of the paper's sec:setup and app:details.

    With one channel cell the index space is time alone (tab:abl): no reading has a channel position then.
    """

    variables: int
    decode: Literal["levy", "softmax", "tnp-d"] = "levy"
    head: Literal["point", "nll", "beta-nll"] = "point"
    width: int = 128
    heads: int = 4
    blocks: int = 3
    feed_forward: int = 512
    dropout: float = 0.1
    frequencies: int = 16
    # Cycles a stay, log-spaced: from half a stay to half an hour.
    lowest_frequency: float = 0.5
    highest_frequency: float = 96.0
    time_cells: int = 16
    channel_cells: int = 8
    tau: float = 0.5


@dataclass(frozen=True)
class TrainingConfig(_Settings):
    """A training on hidden targets, resampled each epoch."""

    seed: int = 0
    epochs: int = 30
    batch_records: int = 32
    peak_rate: float = 1e-3
    warm_up: float = 0.15  # of all steps; one-cycle
    weight_decay: float = 0.01
    clip: float = 1.0  # gradient norm
    patience: int = 10  # epochs without a better validation loss
    beta: float = 0.5  # of beta-NLL (Seitzer and others, 2022)
    # What a levy layer puts out in training: its mean, or a Poisson draw with the mean's gradient (sec:exp_abl).
    path: Literal["mean", "sampled"] = "mean"

    def to_json(self) -> dict[str, Any]:
        """Without `path` where it is the mean: the states and models of before know no other, and stay the same."""
        plain = super().to_json()
        if self.path == "mean":
            del plain["path"]
        return plain


@dataclass(frozen=True)
class Protocol(_Settings):
    """Which readings a model is trained and judged on.

    `ours`: the plausibility table, every reading of every record. `paper`: negatives out and nothing else, records
    over 512 readings subsampled to 512 in training, at most 128 targets (the loader's envelope in app:details);
    screened records have 20 to 512 readings.
    """

    name: Literal["ours", "paper"] = "ours"
    hide: float = 0.3
    min_readings: int = 20  # below, no uncertainty is claimed
    max_readings: int | None = None
    max_targets: int | None = None


OURS = Protocol()
PAPER = Protocol(name="paper", max_readings=512, max_targets=128)
PROTOCOLS = {"ours": OURS, "paper": PAPER}
