"""Tiny networks of every kind, and batches to fit and to ask on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from levyscreen.model.network import build
from levyscreen.records.batches import Batcher
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.types import Batch
from tests.learn.tiny import MODEL, PROTOCOL, VARIABLES, tiny_cohort

LIKELIHOOD = {"nll": {"head": "nll"}, "beta-nll": {"head": "beta-nll"}, "tnp-d": {"decode": "tnp-d", "head": "nll"}}


def tiny_networks():
    """By what they are, as study/networks.py names them."""
    networks = {"levy": [build(MODEL, 0)], "ensemble": [build(MODEL, seed) for seed in range(5)]}
    networks["student"] = [build(MODEL, 9)]
    networks["softmax"] = [build(replace(MODEL, decode="softmax"), 5)]
    networks["cosine"] = [build(replace(MODEL, decode="cosine"), 10)]
    networks |= {name: [build(replace(MODEL, **of), 6 + i)] for i, (name, of) in enumerate(LIKELIHOOD.items())}
    for of_kind in networks.values():
        for network in of_kind:
            network.eval()
    return networks


def tiny_batches(records=48, size=8):
    """Batches of a made-up cohort, a third of the readings hidden."""
    cohort = tiny_cohort(records)
    readings = Preprocessor.fit(cohort, np.arange(records), VARIABLES, PROTOCOL).apply(cohort)
    batcher = Batcher(readings, hide(readings, 0.3, 0))
    return [batcher.batch(rows) for rows in np.split(np.arange(records), range(size, records, size))]


def padded(batch, more=3):
    """The same records behind `more` places of padding in readings and queries, which hold what would be noticed."""

    def widen(name, tensor):
        if name == "record":
            return tensor
        fill = {"mask": False, "query_mask": False, "variable": 1, "query_variable": 1, "target": 1e4}.get(name, 0.5)
        return torch.cat([tensor, torch.full((len(tensor), more), fill, dtype=tensor.dtype)], dim=1)

    return Batch(**{name: widen(name, tensor) for name, tensor in vars(batch).items()})


def alone(batch, row):
    """One record of a batch, without padding."""
    readings, queries = int(batch.mask[row].sum()), int(batch.query_mask[row].sum())
    length = {"record": None, "time": readings, "variable": readings, "value": readings, "mask": readings}
    rows = {name: tensor[row : row + 1] for name, tensor in vars(batch).items()}
    return Batch(**{n: t if n == "record" else t[:, : length.get(n, queries)] for n, t in rows.items()})
