"""`study ablations`: what the index space, the grid, the rate, the size and the sampled path give up (tab:abl)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import machine
from levyscreen.config import OUR_NETWORK, OUR_TRAINING, TrainingConfig
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study.answers import Answered, answer, scores
from levyscreen.study.networks import MissingNetwork

if TYPE_CHECKING:
    from levyscreen.model.network import Network
    from levyscreen.store import Model
    from levyscreen.study.results import Results
    from levyscreen.study.stage import Stage

SHARE = 1 / 3  # of the recipe's epochs, for the default model and the control too: rows are read against these
_WIDTH_256 = {"width": 256, "heads": 8, "feed_forward": 1024}
_WIDTH_512 = {"width": 512, "heads": 8, "feed_forward": 2048}
_BFLOAT16 = {"products": "bfloat16"}
_RECIPE = OUR_NETWORK | OUR_TRAINING
# A training each, by the name of its folder: what differs from the default model. The widths have the parameters of the
# paper's six sizes, 0.2M to 20.3M; what takes longest comes last. The three largest are trained with products in
# bfloat16 for the time that it saves, and the one before them in both ways, to see what that gives up.
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
    "width-256": _WIDTH_256,
    "width-256-bfloat16": _WIDTH_256 | _BFLOAT16,
    "width-256-blocks-6": _WIDTH_256 | _BFLOAT16 | {"blocks": 6},
    "width-512": _WIDTH_512 | _BFLOAT16,
    "width-512-blocks-6": _WIDTH_512 | _BFLOAT16 | {"blocks": 6},
    # The default recipe, its control, and what it is without one of its parts, or with one more.
    "recipe": _RECIPE,
    "recipe-softmax": _RECIPE | {"decode": "softmax"},
    "recipe-cosine": _RECIPE | {"decode": "cosine"},
    "recipe-no-neighbours": _RECIPE | {"neighbours": "none"},
    "recipe-own-neighbours": _RECIPE | {"neighbours": "own"},
    "recipe-squared": _RECIPE | {"loss": "squared"},
    "recipe-fixed-sharpness": _RECIPE | {"sharpness": "fixed"},
    "recipe-grid-16x8": _RECIPE | {"channel_cells": 8},
    "recipe-shared-values": _RECIPE | {"values": "shared"},
    "recipe-drawn-shares": _RECIPE | {"least_hidden": 0.1},
    "recipe-width-256": _RECIPE | _WIDTH_256,
}
TAUS = {f"tau-{tau}": tau for tau in (0.1, 0.5, 1.0, 2.0)}  # rates of the default model, set after its training


def ablate(stage: Stage, results: Results, say: Callable[[str], None] = lambda line: None) -> None:
    """Runs what has no result yet, one dataset and seed; without training, what is trained."""
    dataset, seed = stage.networks.dataset.name, stage.networks.seed
    for name in [*TAUS, *TRAINED]:
        if results.has(dataset, seed, name, stage.networks.weights(_folder(name))):
            continue
        try:
            model = _model(stage, name)
        except MissingNetwork as missing:
            say(f"{name} left out: {missing}")
            continue
        trained = TrainingConfig.from_json(model.remembered("settings"))
        about = {
            "epochs": trained.epochs,
            "bits": 16 if trained.products == "bfloat16" else 32,
            "machine": machine.describe(stage.networks.device),
        }
        weights = stage.networks.weights(_folder(name))
        results.write(dataset, seed, name, about | _figures(stage, model.network), weights)
        say(f"{dataset} seed {seed} {name}: done")


def _trained(name: str) -> str:
    """The network of a row: trained as its name says, or the default one, to be set to another rate."""
    return "levy" if name in TAUS else name


def _folder(name: str) -> str:
    return f"ablations/{_trained(name)}"


def _model(stage: Stage, name: str) -> Model:
    epochs = math.ceil(SHARE * stage.networks.dataset.recipe.epochs)
    model = stage.networks.model(_folder(name), TRAINED[_trained(name)] | {"epochs": epochs})
    if name in TAUS:
        model.network.levy().tau = TAUS[name]
    return model


def _figures(stage: Stage, network: Network) -> dict[str, Any]:
    """Of the free signals on test targets; of a control its error alone."""
    names = stage.training.preprocessor.variables.names
    found: dict[str, Any] = {"parameters": sum(p.numel() for p in network.parameters())}
    if network.config.decode != "levy":
        estimator = ESTIMATORS["softmax-dispersion"]({"softmax": [network]})
        return found | {"mae": _mae(answer(estimator, stage.test))}
    for key in ("sigma-hat", "disagreement", "deviation"):
        estimator = ESTIMATORS[key]({"levy": [network]})
        validation, answered = answer(estimator, stage.validation), answer(estimator, stage.test)
        patient = stage.validated.patient(validation.record)
        found[key] = scores(validation, patient, answered, names, estimator.in_units)
        found["mae"] = _mae(answered)
    return found


def _mae(answered: Answered) -> float:
    return float(np.mean(answered.error))
