"""Every variable asked at every time of a grid, the same for all records: an exact form made for many queries.

The embedding of a query is the sum of a part of its variable and a part of its time, and so is its product with a key:
(V + T) n inner products serve V T n logits, of which only the norm of the query is left to divide by. Queries come last
in all that follows, (..., V, H, ., T): sums over keys are then products of a few long rows, and a block of one variable
and one head stays within a core's cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from levyscreen.operator.field import Field
from levyscreen.operator.measure import RandomMeasure
from levyscreen.operator.phi import phi
from levyscreen.operator.timestamps import Timestamps, product_into


@dataclass(frozen=True)
class Lattice:
    """The queries, projected and not yet normalised: q_vt = variable_v + time_t, a head at a time."""

    variable: Tensor  # (H, V, d)
    time: Tensor  # (H, d, T)
    scale: Tensor  # (V, H, 1, T) g sqrt(d) / (|q_vt| ln 2): turns inner products into binary logarithms of kappa

    @classmethod
    def of(cls, variable: Tensor, time: Tensor, sharpness: Tensor | None = None) -> Lattice:
        """From the variables' parts (H, V, d), the times' (H, T, d) and the heads' g (H, 1, 1), 1 by default."""
        norm = (variable.unsqueeze(2) + time.unsqueeze(1)).norm(dim=-1)  # (H, V, T)
        parts = variable.norm(dim=-1).unsqueeze(2) + time.norm(dim=-1).unsqueeze(1)
        # Two parts that cancel leave a rounding, which has no direction: as a zero vector, equally like every key.
        real = norm > 4 * torch.finfo(norm.dtype).eps * parts
        scale = torch.where(real, math.sqrt(time.shape[-1]) / math.log(2) / norm.clamp(min=1e-30), 0.0)
        if sharpness is not None:
            scale = scale * sharpness
        return cls(variable, time.transpose(1, 2).contiguous(), scale.transpose(0, 1).unsqueeze(2).contiguous())


@dataclass(frozen=True)
class LatticeReading:
    """What each head reads for some variables at all times; as `Reading`, with the queries last."""

    moments: Tensor  # (V, H, d + 2, T): abar - centre, the second moment, ones
    evidence: Tensor  # (V, H, T)
    disagreement: Tensor  # (V, H, T)
    atoms: Tensor  # (V, H, T) phi(Lambda), expected reciprocal number of atoms
    intensity: Tensor | None  # (V, H, L, T) lambda_l / tau, where the beam was asked for

    @property
    def sigma_hat(self) -> Tensor:
        """(V, H, T)."""
        return torch.sqrt(self.disagreement * self.atoms)


class LatticeReader:
    """One record, ready to be read on a lattice; with `timestamps` its beam can be read too."""

    def __init__(self, lattice: Lattice, field: Field, tau: float | Tensor, timestamps: Timestamps | None = None):
        """`field` is of one record without padding, (1, H, ...); `timestamps` are of the same readings.

        `tau` is the paper's, or the `rate` (H, 1) of the lattice's sharpness.
        """
        self.tau, self.field, self.timestamps, self.scale = tau, field, timestamps, lattice.scale
        key = field.key[0]  # (H, n, d)
        if timestamps is None:
            value, second = field.key_value[0], field.key_second_moment[0]  # (H, n, d), (H, n)
        else:
            key, value = key[:, timestamps.order], field.value[0]  # (H, n', d), (H, L, d)
            second = value.square().sum(-1)
        # Rows that sum the mean, the second moment and the mass: over keys, or with a beam over cells.
        rows = torch.cat([value, second.unsqueeze(-1), torch.ones_like(second).unsqueeze(-1)], dim=-1)
        self.rows = rows.transpose(1, 2).contiguous()  # (H, d + 2, n or L)
        self.by_time = key @ lattice.time  # (H, n, T)
        self.by_variable = (lattice.variable @ key.transpose(1, 2)).transpose(0, 1).unsqueeze(3)  # (V, H, n, 1)

    def read(self, variables: slice) -> LatticeReading:
        """Mean path and signals, and with timestamps the beam, of some variables at all times."""
        scale = self.scale[variables]
        shape = scale.shape[:2]
        moments = scale.new_empty(*shape, self.rows.shape[1], scale.shape[3])
        beam = scale.new_empty(*shape, self.field.value.shape[2] if self.timestamps else 0, scale.shape[3])
        inputs = (self.by_time.expand(*shape, -1, -1), self.by_variable[variables], scale)
        blocks = _blocks(*inputs, self.rows.expand(*shape, -1, -1), moments, beam)
        # Of one block, (..., n, T): the same piece of memory for all of them, which stays in cache.
        kappa = torch.empty_like(blocks[0][1][0] + blocks[0][1][1])
        intensity = self.timestamps.summing(kappa) if self.timestamps else None
        for head, (of_time, of_variable, of_both, rows, sums, of_cells) in blocks:
            torch.add(of_time, of_variable, out=kappa).mul_(of_both).exp2_()
            if intensity is not None:
                intensity(head, of_cells)
            product_into(sums, rows, kappa if intensity is None else of_cells)
        evidence = self.tau * moments[:, :, -1]
        moments.mul_((self.tau / evidence).unsqueeze(2))
        disagreement = (moments[:, :, -2] - moments[:, :, :-2].square().sum(2)).clamp_(min=0)
        return LatticeReading(moments, evidence, disagreement, phi(evidence), beam if self.timestamps else None)

    def deviation(self, reading: LatticeReading, gradient: Tensor) -> Tensor:
        """Root-mean-square deviation of the prediction, (V, T), from g = dy/da (V, H, d, T); see `deviation`."""
        assert reading.intensity is not None
        offset = self.field.value[0] @ gradient  # (V, H, L, T), g . (V_l - centre)
        offset.sub_((gradient * reading.moments[:, :, :-2]).sum(2, keepdim=True))
        spread = offset.square_().mul_(reading.intensity).sum(2)  # times the mass
        return torch.sqrt((self.tau * reading.atoms / reading.evidence * spread).sum(1))

    def draw(self, reading: LatticeReading, measure: RandomMeasure) -> Iterator[Tensor]:
        """K samples of the moments (H, d + 2, T K), eq:dout under the counts of `measure`, one variable after another.

        A draw without atoms gives the mean.
        """
        assert reading.intensity is not None
        tau = torch.as_tensor(self.tau).to(self.rows).expand(len(self.rows), 1)
        for intensity, moments in zip(reading.intensity, reading.moments, strict=True):  # (H, L, T), (H, d + 2, T)
            sample = moments.new_empty(*moments.shape, measure.draws).flatten(2)
            for head, out in enumerate(sample):
                torch.mm(self.rows[head], measure.counts(head, tau[head] * intensity[head]), out=out)
            atoms = sample[:, -1:]
            none = atoms == 0
            sample.mul_(1 / atoms.clamp(min=1))
            if bool(none.any()):
                sample = torch.where(none, moments.repeat_interleave(measure.draws, -1), sample)
            yield sample


def _blocks(*tensors: Tensor) -> list[tuple[int | slice, tuple[Tensor, ...]]]:
    """Tensors (V, H, ...) cut into what is computed at once, with its heads.

    On a CPU that is one variable and one head, which its caches hold; elsewhere everything.
    """
    if tensors[0].device.type != "cpu":
        return [(slice(None), tensors)]
    cut = [[by_head.unbind() for by_head in tensor.unbind(1)] for tensor in tensors]
    return [(head, part) for head in range(tensors[0].shape[1]) for part in zip(*(c[head] for c in cut), strict=True)]
