"""`study ablations`: what the index space, the grid, the rate, the size and the sampled path give up (tab:abl)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import machine
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study.answers import Answered, answer, scores
from levyscreen.study.networks import MissingNetwork

if TYPE_CHECKING:
    from levyscreen.model.network import Network
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Stage

# A row is read against the default model's and the control's, which are trained anew by the same shorter schedule.
SHORTER = 3  # times than the recipe's, in epochs
# A training each, by the name of its folder: what differs from the default model.
# By their parameters, the widths are the paper's sizes from 0.2M to 20.3M.
TRAINED: dict[str, dict[str, Any]] = {
    "levy": {},
    "softmax": {"decode": "softmax"},
    "time-8": {"time_cells": 8, "channel_cells": 1},
    "time-32": {"time_cells": 32, "channel_cells": 1},
    "time-64": {"time_cells": 64, "channel_cells": 1},
    "grid-8x4": {"time_cells": 8, "channel_cells": 4},
    "grid-32x8": {"time_cells": 32},
    "grid-16x16": {"channel_cells": 16},
    "sampled": {"path": "sampled"},
    "width-64": {"width": 64, "feed_forward": 256},
    "width-256": {"width": 256, "heads": 8, "feed_forward": 1024},
    "width-256-blocks-6": {"width": 256, "heads": 8, "feed_forward": 1024, "blocks": 6},
    "width-512": {"width": 512, "heads": 8, "feed_forward": 2048},
    "width-512-blocks-6": {"width": 512, "heads": 8, "feed_forward": 2048, "blocks": 6},
}
TAUS = (0.1, 0.5, 1.0, 2.0)  # of the default model, set after its training


def ablate(stage: Stage, results: Results, say: Callable[[str], None] = lambda line: None) -> None:
    """Runs what has no result yet, one dataset and seed; without training, what is trained."""
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    for name in [*TRAINED, *(f"tau-{tau}" for tau in TAUS)]:
        if results.has(dataset, seed, name):
            continue
        try:
            network = _network(stage, name)
        except MissingNetwork as missing:
            say(f"{name} left out: {missing}")
            continue
        results.write(dataset, seed, name, _figures(stage, network))
        say(f"{dataset} seed {seed} {name}: done")


def _network(stage: Stage, name: str) -> Network:
    """The one of a row: trained as `name` says, or the default one at another rate."""
    what, _, tau = name.partition("tau-")
    settings = TRAINED[what or "levy"] | {"epochs": -(-stage.networks.dataset.recipe.epochs // SHORTER)}
    network = stage.networks.model(f"ablations/{what or 'levy'}", settings).network
    if tau:
        network.levy().tau = float(tau)
    return network


def _figures(stage: Stage, network: Network) -> dict[str, Any]:
    """Of the free signals on test targets; of a control its error alone."""
    names = stage.training.preprocessor.variables.names
    about = {
        "parameters": sum(p.numel() for p in network.parameters()),
        "machine": machine.describe(stage.networks.device),
    }
    if network.config.decode != "levy":
        estimator = ESTIMATORS["softmax-dispersion"]({"softmax": [network]})
        return about | {"mae": _mae(answer(estimator, stage.test))}
    found: dict[str, Any] = {}
    for key in ("sigma-hat", "disagreement", "deviation"):
        estimator = ESTIMATORS[key]({"levy": [network]})
        answered = answer(estimator, stage.test)
        found[key] = scores(answer(estimator, stage.validation), answered, names, estimator.in_units)
        found["mae"] = _mae(answered)
    return about | found


def _mae(answered: Answered) -> float:
    return float(np.mean(answered.error))
