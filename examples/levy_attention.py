"""Levy Attention in a network of one's own: irregular waves are interpolated, and the layer says where it found little.

    python examples/levy_attention.py

Trains for some seconds on made-up series, each a wave read at irregular times with a gap, and prints evidence,
deviation and error by how far the nearest reading is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levyscreen import LevyAttention

WIDTH, HEADS, READINGS, QUERIES, STEPS = 32, 2, 24, 32, 300
BANDS = (0.0, 0.02, 0.05, 0.1, 0.2)  # distance to the nearest reading, the whole series being 1


class Interpolator(nn.Module):
    """An encoder of one's own around the layer: nothing in it is levyscreen's but the attention."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(16, WIDTH)
        self.value = nn.Linear(1, WIDTH)
        self.encode = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.attend = LevyAttention(WIDTH, HEADS, channel_cells=1)  # one variable: the index space is time alone
        self.head = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, 1))

    def of_time(self, time: Tensor) -> Tensor:
        phase = time.unsqueeze(-1) * 2 * math.pi * torch.logspace(-1, 1, 8, base=4.0)
        return self.time(torch.cat([phase.sin(), phase.cos()], dim=-1))

    def forward(self, time, value, padding, asked, need_signals=False):
        """Readings (R, n), padding (R, n) True where there is none, times asked (R, m): predictions (R, m), signals."""
        embedded = self.of_time(time) + self.value(value.unsqueeze(-1))
        tokens = embedded + self.encode(embedded)
        output, signals = self.attend(self.of_time(asked), tokens, tokens, time, padding, need_signals)
        return self.head(output).squeeze(-1), signals


def waves(records: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Times, values and padding of readings, outside a gap a series; times asked, anywhere, and the truth there."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    phase, cycles, gap = 2 * math.pi * uniform(records, 1), 1 + uniform(records, 1), 0.1 + 0.4 * uniform(records, 1)
    time, asked = uniform(records, READINGS).sort(dim=1).values, uniform(records, QUERIES)
    padding = (time > gap) & (time < gap + 0.4)
    padding[:, 0] &= ~padding.all(dim=1)  # a series without a reading has no answer
    value, truth = (torch.sin(phase + 2 * math.pi * cycles * t) for t in (time, asked))
    return time, value, padding, asked, truth


def train(seed: int = 0) -> tuple[Interpolator, torch.Generator]:
    torch.manual_seed(seed)
    model, generator = Interpolator(), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        *asked, truth = waves(64, generator)
        loss = (model(*asked)[0] - truth).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), generator


@torch.no_grad()
def by_distance(model: Interpolator, generator: torch.Generator) -> list[dict[str, float]]:
    """For each band of distances to the nearest reading: evidence, sigma_hat and absolute error, means."""
    time, value, padding, asked, truth = waves(512, generator)
    predicted, signals = model(time, value, padding, asked, need_signals=True)
    away = (asked.unsqueeze(-1) - time.unsqueeze(1)).abs().masked_fill(padding.unsqueeze(1), torch.inf).amin(dim=-1)
    band = torch.bucketize(away, torch.tensor(BANDS)) - 1
    columns = {"evidence": signals.evidence, "sigma_hat": signals.sigma_hat, "error": (predicted - truth).abs()}
    return [
        {"from": start} | {name: float(x[band == i].mean()) for name, x in columns.items()}
        for i, start in enumerate(BANDS)
    ]


def main() -> None:
    rows = by_distance(*train())
    print("distance from  evidence  sigma_hat  error")
    for row in rows:
        print(f"{row['from']:13.2f} {row['evidence']:9.2f} {row['sigma_hat']:10.3f} {row['error']:6.3f}")


if __name__ == "__main__":
    main()
