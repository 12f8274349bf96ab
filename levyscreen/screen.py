"""Patient trust: hold out some readings of each record, ask the model for them, rank records by its uncertainty."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from levyscreen import machine, schema
from levyscreen.config import WIDTH_LEVEL
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.questions import SIGNALS, TOKENS, Answers, ask
from levyscreen.reasons import Explainer
from levyscreen.records.cohort import WINDOW_RECORDS
from levyscreen.records.hiding import fold_count, hidden_count, hide, targets_of
from levyscreen.records.information import lacking
from levyscreen.types import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.calibrate.scores import Floats
    from levyscreen.records.cohort import Cohort
    from levyscreen.records.readings import Readings
    from levyscreen.store import Model


FOLDS = 3


@dataclass(frozen=True)
class ScreenSettings:
    """What is held out, what ranks, who is flagged."""

    hide: float = 0.3
    seed: int = 0
    flag: float = 0.1  # fraction of the scored records, and of the held-out readings: the least trusted
    signal: str | None = None  # "calibrated" or a name of SIGNALS; by default calibrated where the model is
    tokens: int = TOKENS
    # Disjoint maskings, each a pass: three, or as many as `hide` leaves room for; one by the paper's protocol.
    folds: int | None = None

    def folds_of(self, model: Model) -> int:
        """Maskings of a model's screening."""
        if self.folds is not None:
            return self.folds
        return 1 if model.preprocessor.protocol.name == "paper" else min(FOLDS, fold_count(self.hide))

    def __post_init__(self) -> None:
        if not 0 < self.hide < 1:
            raise UsageError(f"the hidden fraction must lie between 0 and 1, got {self.hide}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"a seed must lie between 0 and 2^63 - 1, got {self.seed}")
        if not 0 < self.flag <= 1:
            raise UsageError(f"the flagged fraction must lie in (0, 1], got {self.flag}")
        if self.folds is not None and not 1 <= self.folds <= fold_count(self.hide):
            raise UsageError(
                f"{self.folds} disjoint maskings of {self.hide:g} do not fit into a record: --folds takes 1 to "
                f"{fold_count(self.hide)} here"
            )


@dataclass(frozen=True)
class Screening:
    """A screened cohort."""

    scores: pd.DataFrame  # schema.SCORES
    queries: pd.DataFrame | None  # schema.QUERIES, where asked for
    signal: str  # what ranked
    provenance: dict[str, Any]
    timing: dict[str, Any]
    coverage: float | None = None  # of the 90 % intervals, over all held-out readings that have one


@dataclass(frozen=True)
class Subjects:
    """The cohort as the model sees it, and what is held out of the records that will be scored."""

    readings: Readings
    status: NDArray[np.object_]  # (R,)
    maskings: tuple[NDArray[np.bool_], ...]  # (N,) each, disjoint; nothing is held out of a record that is not scored

    @property
    def scored(self) -> NDArray[np.bool_]:
        """(R,)."""
        return self.status == "scored"


def screen(
    cohort: Cohort,
    model: Model,
    settings: ScreenSettings | None = None,
    with_queries: bool = False,
    done: Callable[[int], None] = lambda records: None,
    beside: Callable[[Sequence[tuple[Batch, Answers]]], None] | None = None,
    most_readings: int | None = None,
) -> Screening:
    """A deterministic pass over the cohort for each masking; a row of scores for each of its records, none missing.

    The cohort is gone through a few thousand records at a time. `beside` sees the batches of each such window with
    their answers, `record` being the row in the cohort, for what is compared on them. Records over `most_readings`
    are left out (status too_many), only to compare with the paper, which drops those over 512. Raises CalibrationError
    where the calibrated signal is asked of a model whose calibration found that its signal carries nothing.
    """
    settings, device = settings or ScreenSettings(), model.device
    signal = ranking_signal(model, settings.signal)
    start = time.perf_counter()
    collector = _Collector(model, len(cohort), signal, with_queries)
    preparing = besides = 0.0
    for first, part in cohort.windows(WINDOW_RECORDS):
        began = time.perf_counter()
        subjects = select(part, model, settings, most_readings)
        collector.begin(first, subjects)
        preparing += time.perf_counter() - began
        answered = []
        for masking in subjects.maskings:
            for batch, answers in ask(model.network, subjects.readings, masking, device, settings.tokens, done):
                collector.add(answers)
                if beside is not None:
                    in_cohort = replace(answers, record=answers.record + first)
                    answered.append((replace(batch, record=batch.record + first), in_cohort))
        if beside is not None:
            began = time.perf_counter()
            beside(answered)
            besides += time.perf_counter() - began
    computing = time.perf_counter() - start - preparing - besides
    scores = _rank(collector.frame(), settings.flag, collector.explainer)
    provenance = {
        "cohort": cohort.name,
        "cohort_fingerprint": cohort.fingerprint,
        "signal": signal,
        "hide": settings.hide,
        "seed": settings.seed,
        "flag": settings.flag,
        "folds": settings.folds_of(model),
        "device": device.type,
        **model.provenance(),
    }
    timing = {
        "prepare_s": preparing,
        "compute_s": computing,
        "passes": settings.folds_of(model),
        "queries": int(collector.count.sum()),
        "records": int((collector.status == "scored").sum()),
        **machine.describe(device),
    }
    scores.attrs.update(provenance)
    return Screening(scores, collector.query_frame(settings.flag), signal, provenance, timing, collector.coverage())


def ranking_signal(model: Model, asked: str | None) -> str:
    """The signal that ranks. Raises UsageError for an unknown one, CalibrationError for one that says nothing."""
    if asked is None:
        asked = "calibrated" if model.calibration is not None else "deviation"
    if asked == "calibrated":
        calibration = model.require_calibration()
        if not calibration.rankable:
            raise CalibrationError(
                f"the calibration of model {model.name} fitted a = 0: its signal {calibration.signal} says nothing "
                "about error, so ranking by it would be arbitrary; choose another with --signal, or train longer"
            )
    elif asked not in SIGNALS:
        raise UsageError(f"unknown signal '{asked}': use calibrated, {', '.join(SIGNALS)}")
    return asked


def select(cohort: Cohort, model: Model, settings: ScreenSettings, most: int | None = None) -> Subjects:
    """Cleans the cohort, says who can be scored, and holds out floor(hide n) readings of each of those in each masking.

    Where more is held out than by the protocol, a record must have the more readings: what is left is to be as much.
    Else those with next to no context, of which the model does not know how wrong it is, would look the most trusted;
    and so would those that say one thing again and again, which are degenerate (records/information.py).
    """
    readings, protocol = model.preprocessor.apply(cohort, settings.seed), model.preprocessor.protocol
    n, least = readings.lengths, protocol.min_readings
    left, left_least = readings.lengths * (1 - settings.hide), least * (1 - protocol.hide)
    few = (readings.lengths < least) | (left < left_least) | (hidden_count(targets_of(readings), settings.hide) == 0)
    status = np.full(len(readings), "scored", dtype=object)
    status[lacking(readings, model.preprocessor.least)] = "degenerate"
    status[few] = "too_few"
    status[n == 0] = "empty"
    if most is not None:
        status[n > most] = "too_many"
    status[np.asarray(cohort.records.column("problem").is_valid())] = "unreadable"
    scored, folds = np.repeat(status == "scored", n), settings.folds_of(model)
    maskings = (hide(readings, settings.hide, settings.seed, fold=fold) & scored for fold in range(folds))
    return Subjects(readings, status, tuple(maskings))


class _Collector:
    """Sums each record's answers as the batches come; memory for a record, not for its queries."""

    MEANS = ("uncertainty", "deviation", "disagreement", "evidence", "sigma_hat", "interval_width", "coverage", "mae")
    BOUNDED = ("interval_width", "coverage")  # means over the targets that have an interval

    def __init__(self, model: Model, records: int, signal: str, with_queries: bool):
        self.model, self.signal = model, signal
        self.record_id = np.zeros(records, dtype=np.int64)
        self.readings = np.zeros(records, dtype=np.int64)
        self.status = np.full(records, "", dtype=object)
        self.count = np.zeros(records, dtype=np.int64)
        self.sums = {name: np.zeros(records) for name in self.MEANS}
        self.bounded = np.zeros(records, dtype=np.int64)  # targets with a finite interval: rare variables have none
        self.window = slice(0, 0)
        self.maskings = 1
        self.explainer = Explainer(records, model.preprocessor.variables.names)
        self.parts: list[pd.DataFrame] | None = [] if with_queries else None

    def begin(self, first: int, subjects: Subjects) -> None:
        """Takes in a window of records, from row `first` of the cohort on, before any of their answers."""
        self.window = slice(first, first + len(subjects.readings))
        self.record_id[self.window] = subjects.readings.record_id
        self.readings[self.window] = subjects.readings.lengths
        self.status[self.window] = subjects.status
        self.maskings = len(subjects.maskings)

    def add(self, answers: Answers) -> None:
        """Takes in a batch's answers, `record` being the place in the window."""
        scale = self.model.calibration.scale_of(answers) if self.model.calibration is not None else None
        half_width = self._half_width(answers, scale)
        uncertainty = self._uncertainty(answers, scale)
        each = {
            "uncertainty": uncertainty,
            "deviation": answers.deviation,
            "disagreement": answers.disagreement,
            "evidence": answers.evidence,
            "sigma_hat": answers.sigma_hat,
            "mae": answers.error,
            "interval_width": np.where(np.isfinite(half_width), 2 * half_width, 0),
            "coverage": np.isfinite(half_width) & (answers.error <= half_width),
        }
        records = self.window.stop - self.window.start
        self.count[self.window] += np.bincount(answers.record, minlength=records)
        self.bounded[self.window] += np.bincount(answers.record, np.isfinite(half_width), records).astype(np.int64)
        for name, values in each.items():
            self.sums[name][self.window] += np.bincount(answers.record, values, minlength=records)
        self.explainer.add(self.window, answers, uncertainty)
        if self.parts is not None:
            self.parts.append(self._queries(answers, half_width, uncertainty))

    def _uncertainty(self, answers: Answers, scale: Floats | None) -> Floats:
        if self.signal != "calibrated":
            return answers.signal(SIGNALS[self.signal])
        assert scale is not None  # see ranking_signal
        return self.model.require_calibration().expected_error(scale, answers.variable)

    def _half_width(self, answers: Answers, scale: Floats | None) -> Floats:
        calibration = self.model.calibration
        if calibration is None or scale is None or WIDTH_LEVEL not in calibration.levels:
            return np.full(len(answers.record), np.nan, dtype=np.float32)
        return calibration.half_width(scale, answers.variable, WIDTH_LEVEL)

    def _queries(self, answers: Answers, half_width: Floats, uncertainty: Floats) -> pd.DataFrame:
        preprocessor, variable = self.model.preprocessor, answers.variable
        names = preprocessor.variables.names
        return pd.DataFrame(
            {
                "record_id": self.record_id[self.window][answers.record],
                "variable": pd.Categorical.from_codes(variable.astype(np.int16), categories=pd.Index(names)),
                "time_hours": answers.time * np.float32(preprocessor.variables.horizon_hours),
                "truth": preprocessor.to_units(variable, answers.truth),
                "prediction": preprocessor.to_units(variable, answers.prediction),
                "lower": preprocessor.to_units(variable, answers.prediction - half_width),
                "upper": preprocessor.to_units(variable, answers.prediction + half_width),
                "uncertainty": uncertainty,
                **{name: getattr(answers, name) for name in ("deviation", "disagreement", "evidence", "sigma_hat")},
            }
        )

    def coverage(self) -> float | None:
        """Share of all held-out readings with an interval that lie within it; None where none has one."""
        bounded = int(self.bounded.sum())
        return float(self.sums["coverage"].sum() / bounded) if bounded else None

    def query_frame(self, flag: float) -> pd.DataFrame | None:
        """A row for each held-out reading; the least trusted fraction `flag` of them is flagged."""
        if self.parts is None:
            return None
        if not self.parts:  # no record could be asked
            return schema.QUERIES.empty_table().to_pandas()
        frame = pd.concat(self.parts, ignore_index=True)
        frame = frame.sort_values(["record_id", "variable", "time_hours"], kind="stable", ignore_index=True)
        worst = np.argsort(-frame["uncertainty"].to_numpy(), kind="stable")[: max(1, round(flag * len(frame)))]
        frame["flagged"] = np.isin(np.arange(len(frame)), worst)
        return frame

    def frame(self) -> pd.DataFrame:
        """A row for each record in the cohort's order, not yet ranked."""
        record_id, status, n = self.record_id, self.status.copy(), self.readings
        scored = status == "scored"
        counts = {name: self.bounded if name in self.BOUNDED else self.count for name in self.MEANS}
        means = {name: _divide(total, counts[name]) for name, total in self.sums.items()}
        finite = np.isfinite([means[name] for name in self.MEANS if name not in self.BOUNDED]).all(axis=0)
        status[scored & ~finite] = "non_finite"
        frame = pd.DataFrame(
            {
                "record_id": pd.array(np.where(record_id < 0, 0, record_id), dtype="Int64"),
                "status": status,
                "n_readings": n.astype(np.int32),
                "n_context": (n - self.count // self.maskings).astype(np.int32),
                "n_hidden": self.count.astype(np.int32),
                **{name: values.astype(np.float32) for name, values in means.items()},
            }
        )
        frame.loc[record_id < 0, "record_id"] = pd.NA
        frame.loc[status != "scored", list(self.MEANS)] = np.nan
        return frame


def _divide(total: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def _rank(frame: pd.DataFrame, flag: float, explainer: Explainer) -> pd.DataFrame:
    """Ranks, deciles, flags and reasons over the scored records; the others stand first, for review."""
    scored = np.flatnonzero(frame["status"] == "scored")
    ids = frame["record_id"].to_numpy(dtype=np.int64, na_value=-1)
    order = scored[np.lexsort((ids[scored], -frame["uncertainty"].to_numpy()[scored]))]
    size, place = len(order), np.arange(len(order))
    rank = np.zeros(len(frame), dtype=np.int64)
    rank[order] = place + 1
    decile = np.zeros(len(frame), dtype=np.int64)
    ends = np.maximum(1, np.round(np.arange(1, 10) * size / 10))  # the first is the flagged tenth
    decile[order] = np.searchsorted(ends, place, side="right") + 1
    flagged = np.zeros(len(frame), dtype=bool)
    flagged[order[: max(1, round(flag * size))]] = True
    frame["trust_rank"] = pd.array(rank, dtype="Int32")
    frame["decile"] = pd.array(decile, dtype="Int32")
    frame.loc[rank == 0, ["trust_rank", "decile"]] = pd.NA
    frame["flagged"] = flagged
    frame["reason"], frame["worst_variables"] = explainer.explain(scored, flagged)
    unranked = np.flatnonzero(rank == 0)
    by_status = [schema.STATUSES.index(s) for s in frame["status"].to_numpy()[unranked]]
    first = unranked[np.lexsort((ids[unranked], np.array(by_status, dtype=np.int64)))]
    return frame.iloc[np.concatenate([first, order])].reset_index(drop=True)
