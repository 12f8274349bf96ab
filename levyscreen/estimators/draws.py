"""K draws of the sampled operator around one pass (sec:modes): their spread at the layer, and at the prediction.

A query's draws are seeded by (seed, record, place among the record's queries), so they do not depend on the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from levyscreen.calibrate import crps_sample
from levyscreen.estimators.base import Estimate
from levyscreen.estimators.seeding import Seeded
from levyscreen.model.encoder import join_heads
from levyscreen.model.network import Network
from levyscreen.operator import draw, read_beam
from levyscreen.types import Batch

DRAWS = 8
SAMPLED = 1, 8, 50  # draws of which the law itself is scored


@torch.no_grad()
def drawn(network: Network, batch: Batch, draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """Predictions of the mean path (R, m), and layer outputs of `draws` draws around it (draws, R, H, m, d)."""
    decode, field = network.levy(), network.record_side(batch)
    query = decode.project_query(network.embed.query(batch.query_time, batch.query_variable))
    beam = read_beam(query, field, decode.rate)
    names = torch.arange(batch.query_mask.shape[1]).expand(batch.query_mask.shape)
    mean = network.read_out(join_heads(beam.reading.mean), batch)
    return mean, draw(beam, field, draws, seed, batch.record, names)


class LayerDraws(Seeded):
    """The root of the trace of the draws' covariance at the layer, a mean over heads as sigma_hat is (thm:variance)."""

    title = f"K-draw spread at the layer (K={DRAWS})"
    passes = 1 + DRAWS

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction; in units of the layer's output."""
        mean, layer = drawn(self.network, batch, DRAWS, self.seed)
        return Estimate(mean, layer.var(0).sum(-1).sqrt().mean(1))


class PredictionDraws(Seeded):
    """The standard deviation of the predictions that the head makes of the draws."""

    title = f"K-draw spread of the prediction (K={DRAWS})"
    passes = 1 + DRAWS
    in_units = True

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Estimate:
        """The point prediction, not the draws' mean; in z units."""
        mean, predictions = self._predictions(batch, DRAWS)
        return Estimate(mean, predictions.std(0))

    def scores_besides(self, batch: Batch) -> dict[str, Tensor]:
        """CRPS of the law that the draws themselves are, by how many there are (tab:dist)."""
        _, predictions = self._predictions(batch, max(SAMPLED))
        draws, target = predictions.cpu().numpy(), batch.target.cpu().numpy()
        return {f"crps_of_draws_{k}": torch.from_numpy(crps_sample(draws[:k], target)) for k in SAMPLED}

    @torch.no_grad()
    def _predictions(self, batch: Batch, draws: int) -> tuple[Tensor, Tensor]:
        """Of the mean path (R, m), and of the draws (K, R, m)."""
        mean, layer = drawn(self.network, batch, draws, self.seed)
        return mean, torch.stack([self.network.read_out(join_heads(one), batch) for one in layer])
