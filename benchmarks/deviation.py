"""The closed-form deviation against the spread of K draws: python -m benchmarks.deviation COHORT [--draws 400].

Prints quantiles of deviation / (standard deviation of the drawn predictions) over hidden readings of some records, and
their rank correlation. Both come from the same intensity; the draws alone sample it.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from levyscreen import load_model, machine, read_cohort
from levyscreen.calibrate import spearman
from levyscreen.estimators.draws import drawn
from levyscreen.model.encoder import join_heads
from levyscreen.model.network import Network
from levyscreen.records.batches import Batcher
from levyscreen.records.hiding import hide
from levyscreen.types import Batch


@torch.no_grad()
def deviation_and_spread(network: Network, batch: Batch, draws: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Closed form and standard deviation of `draws` drawn predictions, (targets,) each."""
    closed = network.predict(batch).signals.deviation
    assert closed is not None
    _, sampled = drawn(network, batch, draws, seed)  # (K, R, H, m, d)
    predictions = torch.stack([network.read_out(join_heads(one), batch) for one in sampled])  # (K, R, m)
    return closed[batch.query_mask].numpy(), predictions.std(0)[batch.query_mask].numpy()


def main() -> None:
    """Prints one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohort")
    parser.add_argument("--model", default="physionet2012")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--records", type=int, default=24)
    options = parser.parse_args()
    machine.prepare()
    model = load_model(options.model)
    readings = model.preprocessor.apply(read_cohort(options.cohort))
    rows = np.flatnonzero(readings.lengths >= model.preprocessor.protocol.min_readings)
    chosen = readings.take(rows[:: max(1, len(rows) // options.records)][: options.records])
    batcher = Batcher(chosen, hide(chosen, model.preprocessor.protocol.hide, seed=0))
    pairs = [
        deviation_and_spread(model.network, batcher.batch(np.array([i])), options.draws) for i in range(len(chosen))
    ]
    closed, spread = (np.concatenate(column) for column in zip(*pairs, strict=True))
    low, middle, high = np.quantile(closed / spread, [0.05, 0.5, 0.95])
    print(f"{len(closed)} queries of {len(chosen)} records, {options.draws} draws each, model {options.model}, seed 0")
    print(f"deviation / spread of draws: median {middle:.4f}, 5th to 95th percentile {low:.4f} to {high:.4f}")
    print(f"rank correlation {spearman(closed, spread):.4f}")


if __name__ == "__main__":
    main()
