"""Why a record is flagged: too little evidence, conflicting evidence, and about which variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from levyscreen.operator import phi
from levyscreen.questions import Answers

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A factor that makes up less than this share of the excess is not named.
NAMED_SHARE = 1 / 3
WORST = 3  # variables named
AT_ONCE = 4096  # records


class Explainer:
    """Splits each record's deviation into its two factors, and its uncertainty over the variables.

    The deviation is the root of phi(Lambda), which is large where little evidence was found, times the spread of what
    was found. Its logarithm is a sum, so a record's excess over the median record divides exactly between the two.
    """

    def __init__(self, records: int, names: tuple[str, ...]):
        self.names = np.array(names)
        self.count = np.zeros(records)
        self.log_thinness = np.zeros(records)
        self.log_conflict = np.zeros(records)
        # Sums by record and variable, whatever the number of its queries: what screening keeps most of a record.
        self.asked = np.zeros((records, len(names)), dtype=np.uint32)
        self.doubt = np.zeros((records, len(names)), dtype=np.float32)

    def add(self, window: slice, answers: Answers, uncertainty: NDArray[np.floating[Any]]) -> None:
        """Takes in a batch of some consecutive records, `answers.record` being the place among them."""
        records, variables = window.stop - window.start, self.asked.shape[1]
        tiny = np.finfo(np.float32).tiny
        thin = 0.5 * np.log(np.maximum(phi(torch.from_numpy(answers.evidence)).numpy(), tiny))
        conflict = np.log(np.maximum(answers.deviation, tiny)) - thin
        for total, values in ((self.count, None), (self.log_thinness, thin), (self.log_conflict, conflict)):
            total[window] += np.bincount(answers.record, values, minlength=records)
        rows, local = np.unique(answers.record, return_inverse=True)
        cell = local * variables + answers.variable
        for table, values in ((self.asked, None), (self.doubt, uncertainty)):
            sums = np.bincount(cell, values, minlength=len(rows) * variables).reshape(-1, variables)
            table[window.start + rows] += sums.astype(table.dtype)

    def explain(
        self, scored: NDArray[np.int64], flagged: NDArray[np.bool_]
    ) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """`reason` of the flagged records and `worst_variables` of the scored ones, None elsewhere: (R,) each."""
        reasons = np.full(len(self.count), None, dtype=object)
        worst = np.full(len(self.count), None, dtype=object)
        if len(scored):
            thin = self.log_thinness[scored] / self.count[scored]
            conflict = self.log_conflict[scored] / self.count[scored]
            of_scored = _reasons(thin - np.median(thin), conflict - np.median(conflict))
            of_scored[~flagged[scored]] = None
            reasons[scored] = of_scored
            worst[scored] = self._worst(scored)
        return reasons, worst

    def _worst(self, scored: NDArray[np.int64]) -> list[str]:
        """Variables with the most doubt above what the cohort has on the same variable, the worst first."""
        chunks = np.split(scored, np.arange(AT_ONCE, len(scored), AT_ONCE))
        asked = sum(self.asked[rows].sum(0, dtype=np.int64) for rows in chunks)
        usual = sum(self.doubt[rows].sum(0, dtype=np.float64) for rows in chunks) / np.maximum(asked, 1)
        worst = []
        for rows in chunks:
            excess = self.doubt[rows] - self.asked[rows] * usual
            top = np.argsort(-excess, axis=1, kind="stable")[:, :WORST]
            kept = np.take_along_axis(excess, top, 1) > 0
            worst += [";".join(self.names[t][k]) for t, k in zip(top, kept, strict=True)]
        return worst


def _reasons(thin: NDArray[np.float64], conflict: NDArray[np.float64]) -> NDArray[np.object_]:
    """Which factor's excess over the median record makes up the doubt; None where neither has one."""
    more, less = np.maximum(thin, conflict), np.minimum(thin, conflict)
    both = less > NAMED_SHARE * (np.maximum(more, 0) + np.maximum(less, 0))
    named = np.where(thin > conflict, "thin_evidence", "conflict").astype(object)
    named[both & (less > 0)] = "both"
    named[more <= 0] = None
    return named
