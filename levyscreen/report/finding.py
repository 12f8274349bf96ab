"""What a screening found, in one line: how much worse the flagged records are, how well ranking and intervals hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levyscreen.calibrate import spearman
from levyscreen.config import WIDTH_LEVEL
from levyscreen.names import counted

if TYPE_CHECKING:
    import pandas as pd

    from levyscreen.screen import Screening

LEAST = 3  # scored records: the rank correlation of fewer says nothing


@dataclass(frozen=True)
class Finding:
    """Errors are mean absolute errors by record, in standard deviations of the variable."""

    flagged: int
    share: float  # of the scored records that is flagged
    error: float  # of the flagged
    error_of_all: float
    spearman: float  # of the ranking score with the error
    coverage: float | None  # of the 90 % intervals; None where the model has none

    @classmethod
    def of(cls, screening: Screening) -> Finding | None:
        """None where too few records are scored."""
        return cls.of_scores(screening.scores, screening.provenance["flag"], screening.coverage)

    @classmethod
    def of_scores(cls, scores: pd.DataFrame, flag: float, coverage: float | None) -> Finding | None:
        """From a table of schema.SCORES, the share that is flagged, and the coverage of the 90 % intervals."""
        scored = scores[scores["status"] == "scored"]
        if len(scored) < LEAST:
            return None
        flagged = scored[scored["flagged"]]
        return cls(
            len(flagged),
            flag,
            _mean(flagged),
            _mean(scored),
            spearman(scored["uncertainty"].to_numpy(float), scored["mae"].to_numpy(float)),
            coverage,
        )

    def __str__(self) -> str:
        who = "Top decile" if self.share == 0.1 else f"Top {100 * self.share:.3g}%"
        excess = f" ({self.error / self.error_of_all - 1:+.0%})" if self.error_of_all > 0 else ""
        said = [
            f"{who} ({counted(self.flagged, 'record')}): mean error {self.error:.2f}, all records "
            f"{self.error_of_all:.2f}{excess}.",
            f"Ranking: Spearman {self.spearman:.2f}.",
        ]
        if self.coverage is not None:
            said.append(f"{WIDTH_LEVEL:.0%} intervals cover {self.coverage:.1%} of the held-out readings.")
        return " ".join(said).replace("%", " %")


def _mean(scores: pd.DataFrame) -> float:
    return float(scores["mae"].astype(float).mean())
