"""Fitting the meta-model (`levyscreen.calibrate.reader`) on held-out targets, by patient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from levyscreen.calibrate.reader import SIGNALS, Emitted, Reader, columns
from levyscreen.errors import CalibrationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS, RATE, DECAY = 64, 1e-2, 1e-2
# As many steps and as often over the targets whatever their number: a batch is a share of them, of 64 rows at least.
EPOCHS, BATCHES, LEAST_ROWS = 20, 192, 64
FOLDS = 5


class _Layers(nn.Module):
    def __init__(self, columns: int, variables: int):
        super().__init__()
        self.columns = nn.Linear(columns, UNITS, bias=False)
        self.variables = nn.Embedding(variables, UNITS)
        self.hidden = nn.Linear(UNITS, UNITS)
        self.out = nn.Linear(UNITS, 1)
        nn.init.zeros_(self.variables.weight)  # a variable without targets is read as the average one

    def forward(self, standard: Tensor, variable: Tensor) -> Tensor:
        first = torch.relu(self.columns(standard) + self.variables(variable))
        return self.out(torch.relu(self.hidden(first))).squeeze(-1)  # (N,) log scale


def fit_reader(
    emitted: Emitted,
    error: NDArray[np.floating[Any]],
    patient: NDArray[np.int64],
    variables: int,
    seed: int,
    reads: tuple[str, ...] = SIGNALS,
) -> tuple[Reader, NDArray[np.float32]]:
    """A reader fitted on all targets, and each target's scale (N,) by one fitted without its patient's fold.

    `error` is target - prediction; emitted, error and patient are (N,). By the CRPS of the Gaussian, as every scale
    here. Raises CalibrationError for the targets of one patient alone.
    """
    patients, place = np.unique(patient, return_inverse=True)
    if len(patients) < 2:
        raise CalibrationError("a reader is fitted on two patients or more, to be checked on those it did not see")
    fold = np.random.default_rng(seed).permutation(len(patients))[place] % min(FOLDS, len(patients))
    read, of = columns(emitted, reads), np.asarray(emitted.variable)
    apart = np.empty(len(error), dtype=np.float32)
    for k in np.unique(fold):
        out = fold == k
        apart[out] = _fit(read[~out], of[~out], error[~out], variables, seed, reads)._scale(read[out], of[out])
    return _fit(read, of, error, variables, seed, reads), apart


def _fit(
    read: NDArray[np.float32],
    of: NDArray[np.int64],
    error: NDArray[np.floating[Any]],
    variables: int,
    seed: int,
    reads: tuple[str, ...],
) -> Reader:
    least, most = np.quantile(read, (0.001, 0.999), axis=0).astype(np.float32)
    inside = np.clip(read, least, most)
    centre, spread = inside.mean(axis=0), np.maximum(inside.std(axis=0), np.float32(1e-6))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU as well
        layers = _Layers(len(reads), variables)
        nn.init.constant_(layers.out.bias, math.log(max(float(np.abs(error).mean()), 1e-6)))
        data = [torch.from_numpy(np.ascontiguousarray(x)) for x in ((inside - centre) / spread, of, error)]
        _descend(layers, *data)
    weights = {
        "columns": layers.columns.weight.T,
        "variables": layers.variables.weight,
        "hidden": layers.hidden.weight.T,
        "hidden_bias": layers.hidden.bias,
        "out": layers.out.weight[0],
        "out_bias": layers.out.bias[0],
    }
    arrays = {name: w.detach().contiguous().numpy() for name, w in weights.items()}
    return Reader(least, most, centre, spread, **arrays, reads=reads)


def _descend(layers: _Layers, standard: Tensor, variable: Tensor, error: Tensor) -> None:
    rows = len(error)
    batch = max(LEAST_ROWS, -(-rows // BATCHES))
    steps = EPOCHS * -(-rows // batch)
    optimiser = torch.optim.AdamW(layers.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for some in torch.randperm(rows).split(batch):
            loss = _crps(layers(standard[some], variable[some]), error[some]).mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()


def _crps(log_scale: Tensor, error: Tensor) -> Tensor:
    """Of a Gaussian of that scale around the prediction (Gneiting and Raftery 2007, section 4.2)."""
    z = error * torch.exp(-log_scale)
    cumulative = torch.special.ndtr(z)
    density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return log_scale.exp() * (z * (2 * cumulative - 1) + 2 * density - 1 / math.sqrt(math.pi))
