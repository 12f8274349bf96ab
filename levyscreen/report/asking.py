"""The cohort asked once more, as its screening asked it: every hidden reading, and what was seen of who is flagged.

A screening keeps a row for each record and nothing of its readings, so that it stays fast and small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen.errors import UsageError
from levyscreen.questions import SIGNALS, Answers, ask
from levyscreen.records.cohort import WINDOW_RECORDS
from levyscreen.records.readings import Readings
from levyscreen.screen import ScreenSettings, Subjects, select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.calibrate.scores import Floats
    from levyscreen.records.cohort import Cohort
    from levyscreen.report.screened import Screened
    from levyscreen.store import Model


@dataclass(frozen=True)
class Asked:
    """Every held-out reading, (N,) each in z units, and of F flagged records one masking, the least trusted first."""

    record: NDArray[np.int64]  # row of the cohort
    variable: NDArray[np.int64]
    truth: NDArray[np.float32]
    prediction: NDArray[np.float32]
    doubt: Floats  # the signal that ranked
    scale: Floats  # calibrated
    seen: Readings  # F records
    hidden: Readings  # the same records

    @property
    def error(self) -> NDArray[np.float64]:
        """|prediction - truth|."""
        return np.abs(self.prediction.astype(np.float64) - self.truth)


def refuse_another(screened: Screened, cohort: Cohort, model: Model) -> None:
    """Raises UsageError unless cohort, model and its calibration are those of the screening."""
    facts = screened.provenance
    pairs = {
        f"cohort {screened.cohort}": (cohort.fingerprint, facts["cohort_fingerprint"]),
        f"model {model.name}": (model.digest, facts["model_digest"]),
        f"the calibration of {model.name}": (
            model.provenance()["calibration_digest"],
            facts.get("calibration_digest"),
        ),
    }
    for what, (found, expected) in pairs.items():
        if found != expected:
            raise UsageError(
                f"{what} is not what {screened.folder} was screened with: it changed, it is another one, or the tool "
                "that reads it changed; name the one that was screened, or screen it again"
            )


def ask_again(
    screened: Screened,
    cohort: Cohort,
    model: Model,
    done: Callable[[int], None] = lambda records: None,
) -> Asked:
    """The screening's passes over the cohort once more, with its own seed and settings."""
    facts = screened.provenance
    settings = ScreenSettings(facts["hide"], facts["seed"], facts["flag"], facts["signal"], folds=facts["folds"])
    ids = _flagged(screened)
    answered: list[tuple[NDArray[Any], ...]] = []
    flagged: list[tuple[Readings, Readings]] = []
    for first, part in cohort.windows(WINDOW_RECORDS):
        subjects = select(part, model, settings, screened.most_readings)
        flagged.append(_halves(subjects, ids))
        for masking in subjects.maskings:
            for _, answers in ask(model.network, subjects.readings, masking, model.device, settings.tokens, done):
                answered.append(_kept(model, facts["signal"], answers, first))
    if not answered:
        raise UsageError(f"no record of {screened.folder} was scored: there is nothing to report")
    seen, hidden = (_ordered(parts, ids) for parts in zip(*flagged, strict=True))
    record, variable, truth, prediction, doubt, scale = (np.concatenate(c) for c in zip(*answered, strict=True))
    return Asked(record, variable, truth, prediction, doubt, scale, seen, hidden)


def _flagged(screened: Screened) -> NDArray[np.int64]:
    """Record ids, the least trusted first; scores are in that order."""
    ids = screened.scores.loc[screened.scores["flagged"], "record_id"].dropna()
    return ids.to_numpy(dtype=np.int64)


def _kept(model: Model, signal: str, answers: Answers, first: int) -> tuple[NDArray[Any], ...]:
    """Columns of Asked."""
    calibration = model.require_calibration()
    scale = calibration.scale_of(answers)
    expected = calibration.expected_error(scale, answers.variable)
    doubt = expected if signal == "calibrated" else answers.signal(SIGNALS[signal])
    return (answers.record + first, answers.variable, answers.truth, answers.prediction, doubt, scale)


def _halves(subjects: Subjects, ids: NDArray[np.int64]) -> tuple[Readings, Readings]:
    """Of the flagged records among these: what the model saw in the first masking, and what it was asked."""
    rows = np.flatnonzero(np.isin(subjects.readings.record_id, ids) & subjects.scored)
    masking = subjects.maskings[0]
    both = subjects.readings.keep(~masking), subjects.readings.keep(masking)
    return both[0].take(rows), both[1].take(rows)


def _ordered(parts: Sequence[Readings], ids: NDArray[np.int64]) -> Readings:
    """All in one, in the order of `ids`."""
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
    columns = [
        np.concatenate([getattr(part, name) for part in parts]) for name in ("record_id", "time", "variable", "value")
    ]
    place = {record_id: row for row, record_id in enumerate(columns[0].tolist())}
    return Readings(columns[0], offsets, *columns[1:]).take(np.array([place[i] for i in ids.tolist()], dtype=np.int64))
