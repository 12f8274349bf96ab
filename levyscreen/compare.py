"""What others pay: dropout passes and an ensemble on the same batches, beside the single pass (tab:cohort)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from levyscreen.calibrate import flagged_excess, spearman
from levyscreen.errors import UsageError
from levyscreen.estimators.dropout import PASSES, MonteCarloDropout
from levyscreen.estimators.ensemble import MEMBERS as ENSEMBLE
from levyscreen.estimators.ensemble import DeepEnsemble
from levyscreen.model.network import Network
from levyscreen.parallel import each
from levyscreen.questions import Answers
from levyscreen.types import Batch

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


@dataclass
class _Rival:
    passes: int
    uncertainty: NDArray[np.float64]
    error: NDArray[np.float64]
    seconds: float = 0.0


class Comparison:
    """Runs the rivals as `beside` of a screening, and scores all of them by patient afterwards."""

    def __init__(self, network: Network, members: Sequence[Network], records: int, seed: int = 0):
        self.passes = MonteCarloDropout({"levy": [network]})
        self.passes.fit([], [], seed)
        self.trained = DeepEnsemble({"ensemble": [network, *members]})
        self.count = np.zeros(records, dtype=np.int64)
        self.dropout = _Rival(PASSES, np.zeros(records), np.zeros(records))
        self.ensemble: _Rival | None = None
        if len(members) == ENSEMBLE - 1:
            self.ensemble = _Rival(ENSEMBLE, np.zeros(records), np.zeros(records))

    def beside(self, answered: Sequence[tuple[Batch, Answers]]) -> None:
        """Both rivals on the batches that the single pass answered, each timed by itself."""
        for _, answers in answered:
            self.count += np.bincount(answers.record, minlength=len(self.count))
        self._run(self.dropout, answered, self._dropout)
        if self.ensemble is not None:
            self._run(self.ensemble, answered, self._ensemble)

    def _dropout(self, batch: Batch) -> tuple[NDArray[np.float32] | None, NDArray[np.float32]]:
        """No prediction of its own, the single pass has made that; and the spread."""
        return None, _valid(self.passes.spread(batch), batch)

    def _ensemble(self, batch: Batch) -> tuple[NDArray[np.float32] | None, NDArray[np.float32]]:
        estimate = self.trained(batch)
        return _valid(estimate.prediction, batch), _valid(estimate.uncertainty, batch)

    def _run(
        self,
        rival: _Rival,
        answered: Sequence[tuple[Batch, Answers]],
        work: Callable[[Batch], tuple[NDArray[np.float32] | None, NDArray[np.float32]]],
    ) -> None:
        start = time.perf_counter()
        found = list(each(work, [batch for batch, _ in answered], answered[0][0].time.device)) if answered else []
        rival.seconds += time.perf_counter() - start
        records = len(self.count)
        for (_, answers), (own, uncertainty) in zip(answered, found, strict=True):
            error = np.abs((answers.prediction if own is None else own) - answers.truth)
            rival.uncertainty += np.bincount(answers.record, uncertainty, minlength=records)
            rival.error += np.bincount(answers.record, error, minlength=records)

    def table(self, scores: pd.DataFrame, single_pass_seconds: float) -> pd.DataFrame:
        """A row for each trust signal; wall-clock is of the passes alone, spent on the same batches.

        Spearman is of per-patient uncertainty with per-patient error; flagged decile the mean error of the tenth least
        trusted against that of all. Rivals in the cohort's order, `scores` in any.
        Raises UsageError where no record was scored.
        """
        scored = scores[scores["status"] == "scored"]
        if not len(scored):
            raise UsageError("no record could be scored, so there is nothing to compare on: leave out --compare")
        error = scored["mae"].to_numpy()
        single = {
            f"{scores.attrs['signal']} (what ranks)": scored["uncertainty"],
            "deviation": scored["deviation"],
            "disagreement": scored["disagreement"],
            "sigma_hat": scored["sigma_hat"],
            "1/evidence": 1 / scored["evidence"],
        }
        ids = scored["record_id"].to_numpy(dtype=np.int64)
        rows = [
            _row(name, 1, single_pass_seconds, single_pass_seconds, values.to_numpy(), error, ids)
            for name, values in single.items()
        ]
        for name, rival in (("MC dropout spread", self.dropout), ("deep ensemble spread", self.ensemble)):
            if rival is not None:
                asked = (self.count > 0) & np.isfinite(rival.uncertainty + rival.error)
                mean = rival.uncertainty[asked] / self.count[asked], rival.error[asked] / self.count[asked]
                rows.append(_row(name, rival.passes, rival.seconds, single_pass_seconds, *mean, None))
        return pd.DataFrame(rows)


def _row(
    name: str,
    passes: int,
    seconds: float,
    single: float,
    signal: NDArray[np.floating],
    error: NDArray[np.floating],
    ids: NDArray[np.int64] | None,
) -> dict[str, object]:
    return {
        "signal": name,
        "passes": passes,
        "wall_clock_s": seconds,
        "ratio": seconds / single,
        "spearman": spearman(signal, error),
        "flagged_decile_excess": flagged_excess(signal, error, 0.1, ids),
        "cohort_mae": float(np.mean(error)),
    }


def _valid(values: torch.Tensor, batch: Batch) -> NDArray[np.float32]:
    valid: NDArray[np.float32] = values[batch.query_mask].cpu().numpy()
    return valid
