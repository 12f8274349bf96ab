"""The shape and unit of every field that travels between the parts.

R records, n context readings, m queries, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class LineClass(IntEnum):
    """What became of a data line. The first four are numeric lines of a known variable and stay in the cache."""

    READING = 0
    NEGATIVE = 1  # -1 and any other negative value mean "missing"
    IMPLAUSIBLE = 2  # outside the variable's plausible range
    REPAIRED = 3  # a lost decimal point, put back
    DESCRIPTOR = 4  # RecordID, Age, Gender, Height, ICUType, Weight
    UNKNOWN_PARAMETER = 5
    BLANK_PARAMETER = 6
    NOT_A_NUMBER = 7
    NOT_FINITE = 8
    BAD_TIME = 9
    OUTSIDE_STAY = 10  # a well-formed time before the start or after the end of the stay
    MALFORMED = 11  # another number of fields than the header, or fields that cannot be told apart


@dataclass(frozen=True)
class Batch:
    """A padded batch of records: what the model sees, and what it is asked.

    Padding stands at the end of a row and its mask is False; a record has at least one context reading.
    """

    time: Tensor  # (R, n) float32 in [0, 1], the stay's horizon being 1
    variable: Tensor  # (R, n) int64
    value: Tensor  # (R, n) float32, z-scored
    mask: Tensor  # (R, n) bool
    query_time: Tensor  # (R, m) float32 in [0, 1]
    query_variable: Tensor  # (R, m) int64
    query_mask: Tensor  # (R, m) bool
    target: Tensor  # (R, m) float32, z-scored; 0 where padded
    record: Tensor  # (R,) int64: position of the record in its cohort

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(**{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})


@dataclass(frozen=True)
class Signals:
    """What one pass says about each query (head means of the paper's eq:signals); each (R, m) float32."""

    evidence: Tensor  # Lambda_q, expected number of atoms; low means little was found
    disagreement: Tensor  # tr Sigma_V(q), in squared units of the layer's values
    sigma_hat: Tensor  # root-mean-square deviation of the layer's output (thm:variance)
    deviation: Tensor | None  # the same pushed through the head to first order: z-scored units of the prediction
