"""The decode layer by itself, Levy Attention against the softmax layer of the same width (the paper's sec:exp_dist)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks import work
from benchmarks.ceilings import Ceilings
from benchmarks.clock import in_turn
from benchmarks.table import Row
from levyscreen.config import ModelConfig
from levyscreen.model.decode import LevyDecode, SoftmaxDecode
from levyscreen.operator import read, read_beam

KEYS, RUNS = 512, 15


@torch.no_grad()
def rows(device: torch.device, limits: Ceilings) -> list[Row]:
    """n 512, width 128, 4 heads; m 128 for 8 records at once as in training, m 10,368 for one as in the continuum."""
    return [row for m, records in ((128, 8), (10_368, 1)) for row in _at(m, records, device, limits)]


def _at(m: int, records: int, device: torch.device, limits: Ceilings) -> list[Row]:
    torch.manual_seed(0)
    config = ModelConfig(variables=36)
    levy, softmax = LevyDecode(config).to(device).eval(), SoftmaxDecode(config).to(device).eval()
    query = torch.randn(records, m, config.width, device=device)
    tokens = torch.randn(records, KEYS, config.width, device=device)
    time = torch.rand(records, KEYS, device=device).sort(dim=1).values
    mask = torch.ones(records, KEYS, dtype=torch.bool, device=device)

    works: dict[str, tuple[Callable[[], object], Callable[..., work.Work]]] = {
        "softmax cross-attention": (lambda: softmax(query, tokens, time, mask), work.softmax),
        "Levy, mean path": (lambda: levy(query, tokens, time, mask), work.levy_mean),
        "Levy, and its three signals": (
            lambda: read(levy.project_query(query), levy.field(tokens, time, mask), levy.rate),
            work.levy_signals,
        ),
        "Levy, and its beam": (
            lambda: read_beam(levy.project_query(query), levy.field(tokens, time, mask), levy.rate),
            work.levy_beam,
        ),
        "Levy, unfolded": (lambda: unfolded(levy, query, tokens, time, mask), work.levy_beam),
    }
    times, ratios = in_turn([run for run, _ in works.values()], RUNS)
    least = [limits.seconds(count(m, KEYS, config) * records) for _, count in works.values()]
    return [
        Row(f"decode, m {m:,}: {name}", time, "softmax", ratio, ceiling)
        for name, time, ratio, ceiling in zip(works, times, ratios, least, strict=True)
    ] + [Row(f"decode, m {m:,}: unfolded over folded", times[4], "mean path", times[4] / times[1])]


def unfolded(
    levy: LevyDecode, query: torch.Tensor, tokens: torch.Tensor, time: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The operator as sec:disc writes it: the field on the grid, a beam (m x L) for every query, and its mean."""
    field = levy.field(tokens, time, mask)
    unit = levy.project_query(query)
    kappa = torch.exp(unit.shape[-1] ** 0.5 * unit @ field.key.transpose(-1, -2))
    intensity = levy.rate * kappa @ field.mass
    return intensity / intensity.sum(-1, keepdim=True) @ field.value + field.centre
