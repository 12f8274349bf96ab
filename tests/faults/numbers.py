"""Extreme values through the whole pipeline."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch

from levyscreen.calibrate import Calibration, CalibrationWarning, fit_calibration
from levyscreen.continuum import ContinuumSettings, continuum
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.model import network as networks
from levyscreen.operator import Grid, build_field, phi, read, read_beam, unit
from levyscreen.questions import Answers
from levyscreen.records import preprocessor
from levyscreen.records.cohort import Cohort
from levyscreen.screen import ScreenSettings, screen
from levyscreen.store import Model, load_model
from levyscreen.timeline import Asker, Timeline
from levyscreen.variables import PHYSIONET2012
from tests.faults.row import Row
from tests.learn.tiny import cohort_of

screening = importlib.import_module("levyscreen.screen")
SCORES = ["uncertainty", "deviation", "disagreement", "evidence", "sigma_hat", "mae"]
TIMELINE = ["prediction", "evidence", "disagreement", "sigma_hat", "deviation"]
MODELS = ("physionet2012", "physionet2012-paper")
ODD = 900  # ids from here on are of odd records
EXTREMES = (0.0, 1e-300, 1e-45, 1e-38, 1.0, 1e4, 1e15, 1e18, 1e20, 1e30, 1e38, 3.4e38, 3.5e38, 1e300, 1.7e308)
Line = tuple[float, int, float]


@cache
def model(name: str) -> Model:
    return load_model(name)


def usual(rng: np.random.Generator, n: int, spread: float = 0.1) -> list[Line]:
    """Readings well within every range, spread over a part of it."""
    low, high = (np.array([getattr(v, end) for v in PHYSIONET2012.variables]) for end in ("low", "high"))
    variable = rng.integers(0, 36, n)
    value = low[variable] + (high - low)[variable] * rng.uniform(0.1, 0.1 + spread, n)
    return sorted(zip(rng.uniform(0, 48, n).tolist(), variable.tolist(), value.tolist(), strict=True))


def extreme(rng: np.random.Generator, kind: str, n: int) -> list[Line]:
    lines = usual(rng, n)
    if kind == "all at one time":
        time = float(rng.choice([0.0, 24.0, 48.0]))
        return sorted((time, variable, value) for _, variable, value in lines)
    if kind == "one variable":
        return [(time, lines[0][1], lines[0][2] + i) for i, (time, *_) in enumerate(lines)]
    if kind == "one value":
        return [(time, *lines[0][1:]) for time, *_ in lines]
    if kind == "one reading, repeated":
        return [lines[0]] * n
    if kind == "all after the first minute, none after":
        return [(i / 60 / n, variable, value) for i, (_, variable, value) in enumerate(lines)]
    if kind == "at the edges of the ranges":
        ends = [(v.low, v.high) for v in PHYSIONET2012.variables]
        return [(time, variable, float(rng.choice(ends[variable]))) for time, variable, _ in lines]
    odd = rng.random(n) < (1 if kind == "all beyond float32" else 0.1)
    odd[int(rng.integers(n))] = True
    return sorted((t, v, float(rng.choice(EXTREMES)) if o else x) for (t, v, x), o in zip(lines, odd, strict=True))


KINDS = (
    "all at one time",
    "one variable",
    "one value",
    "one reading, repeated",
    "all after the first minute, none after",
    "at the edges of the ranges",
    "all beyond float32",
    "some beyond float32",
)


def cohort(others: list[list[Line]], *odd: list[Line]) -> Cohort:
    ids = [*range(1, len(others) + 1), *range(ODD, ODD + len(odd))]
    return cohort_of([*others, *odd], ids, PHYSIONET2012)


def extreme_values(rng: np.random.Generator, folder: Path) -> str | None:
    """A record of every kind beside a few usual ones; a warning of overflow counts as wrong."""
    asked = model(str(rng.choice(MODELS)))
    others = [usual(rng, int(rng.integers(25, 80))) for _ in range(4)]
    odd = [extreme(rng, kind, int(rng.choice([20, 21, 60, 1318], p=[0.3, 0.3, 0.3, 0.1]))) for kind in KINDS]
    settings = ContinuumSettings(grid=3, with_deviation=True, half=bool(rng.random() < 0.5))
    whole, without = cohort(others, *odd), cohort(others, [])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wrong = odd_scores(screen(whole, asked).scores, screen(without, asked).scores)
            written = continuum(whole, asked, folder / "continuum", settings)
    except Exception as error:
        return f"{asked.name}: {type(error).__name__} {error}"
    wrong = wrong or odd_timeline(pq.read_table(written.folder))
    return f"{asked.name}: {wrong}" if wrong else None


def odd_scores(scores: pd.DataFrame, without: pd.DataFrame) -> str | None:
    """What is wrong with scores among which some are of odd records, given those without them."""
    scored = scores[scores["status"] == "scored"]
    if not np.isfinite(scored[SCORES].to_numpy(float)).all():
        return "a score is not finite"
    unscored = scores[scores["status"] != "scored"]
    if unscored[[*SCORES, "trust_rank"]].notna().any(axis=None):
        return "a record that is not scored has a score or a rank"
    odd = scored[scored["record_id"] >= ODD]
    certain = odd[(odd["uncertainty"] < 1e-3) | (odd["evidence"] <= 0)]
    if len(certain):
        kind = KINDS[int(certain["record_id"].iloc[0]) - ODD]
        return f"{kind} is trusted without end, at {certain['uncertainty'].iloc[0]:.2g}"
    both = [
        frame[frame["record_id"] < ODD].sort_values("record_id")[SCORES].to_numpy(float) for frame in (scores, without)
    ]
    return None if np.allclose(*both, rtol=1e-5, atol=0) else "the other records' scores changed"


def odd_timeline(table: Any) -> str | None:
    found = table.to_pandas()
    answered = found[found["prediction"].notna()]
    if not np.isfinite(answered[TIMELINE].to_numpy(float)).all():
        return "an answer of the timeline is not finite"
    return None if answered["record_id"].nunique() >= 4 else "another record has no timeline"


def thousands_of_readings(rng: np.random.Generator, folder: Path) -> str | None:
    """Memory is bounded by what is asked at once: queries by readings by heads."""
    some = usual(rng, int(rng.integers(5_000, 7_000)))
    lines = sorted((float(np.float32(round(60 * t) / 60)), variable, value) for t, variable, value in some)
    largest = 0

    def watched(query: torch.Tensor, field: Any, tau: float) -> Any:
        nonlocal largest
        largest = max(largest, query.shape[0] * query.shape[1] * query.shape[2] * field.key.shape[2])
        return read_beam(query, field, tau)

    others = [usual(rng, 40) for _ in range(2)]
    with mock.patch.object(networks, "read_beam", watched):
        scores = screen(cohort(others, lines), model(MODELS[0])).scores
    if scores.set_index("record_id").loc[ODD, "status"] != "scored":
        return "it was not scored"
    if largest > 2**24:
        return f"{largest:,} intensities at once"
    return odd_scores(scores, screen(cohort(others, []), model(MODELS[0])).scores)


def a_record_without_end(rng: np.random.Generator, folder: Path) -> str | None:
    """More readings than a model sees: a draw stands for them, and draws by several seeds say the same."""
    phase = rng.uniform(0, 2 * np.pi, 36)
    lines = [  # as of a patient, whose values go up and down, if with noise
        (t, variable, value * (1 + 0.1 * np.sin(t / 4 + phase[variable])))
        for t, variable, value in usual(rng, 98_000, spread=0.02)
    ]
    with mock.patch.object(preprocessor, "MOST_READINGS", 2_048):
        found = [screen(cohort([], lines), model(MODELS[0]), ScreenSettings(seed=seed)).scores for seed in range(3)]
    if any(scores["status"].tolist() != ["scored"] or scores["n_readings"].tolist() != [2_048] for scores in found):
        return "it was not scored from a draw"
    for name, most in (("uncertainty", 1.1), ("mae", 1.2)):
        values = [float(scores[name].iloc[0]) for scores in found]
        if max(values) > most * min(values):
            return f"{name} of three draws: {values}"
    return None


# An answer that is not finite, whatever made it so -------------------------------------------------------------------


def an_answer_not_finite(rng: np.random.Generator, folder: Path) -> str | None:
    *others, odd_one = (usual(rng, int(rng.integers(25, 80))) for _ in range(5))
    whole = cohort(others, odd_one)
    name = str(rng.choice([f.name for f in fields(Answers)][4:]))
    value, share = float(rng.choice([np.nan, np.inf, -np.inf])), float(rng.choice([0.0, 0.5, 1.0]))
    ask = screening.ask

    def poisoned(*words: Any) -> Iterator[Any]:
        for batch, answers in ask(*words):
            values, hit = getattr(answers, name).copy(), np.flatnonzero(answers.record == 4)
            values[hit[rng.random(len(hit)) < share]] = value
            values[hit[:1]] = value
            yield batch, replace(answers, **{name: values})

    usual_scores = screen(whole, model(MODELS[0])).scores
    with mock.patch.object(screening, "ask", poisoned), np.errstate(all="ignore"):
        scores = screen(whole, model(MODELS[0])).scores
    odd = scores.set_index("record_id").loc[ODD]
    if odd["status"] != "non_finite" or pd.notna(odd["trust_rank"]) or odd["flagged"]:
        return f"{name} {value}: it is {odd['status']}, rank {odd['trust_rank']}"
    return odd_scores(scores, usual_scores) or a_timeline_not_finite(rng, whole, folder, value)


def a_timeline_not_finite(rng: np.random.Generator, whole: Cohort, folder: Path, value: float) -> str | None:
    name, ask = str(rng.choice(TIMELINE)), Asker.ask

    def poisoned(self: Asker, readings: Any) -> Timeline:
        timeline = ask(self, readings)
        timeline.columns[name][timeline.record_id == ODD, 3, 1] = value
        return timeline

    settings = ContinuumSettings(grid=2, with_deviation=True, half=bool(rng.random() < 0.5))
    with mock.patch.object(Asker, "ask", poisoned):
        found = pq.read_table(continuum(whole, model(MODELS[0]), folder / "c", settings).folder).to_pandas()
    empty = found["prediction"].isna().to_numpy()
    columns = found.columns[3:]
    if empty.sum() != 1 or found.loc[empty, columns].notna().any(axis=None):
        return f"timeline, {name} {value}: {int(empty.sum())} rows are null"
    return None if np.isfinite(found.loc[~empty, TIMELINE].to_numpy(float)).all() else f"timeline, {name}: not null"


# The operator and the calibration ------------------------------------------------------------------------------------


def the_operator(rng: np.random.Generator, folder: Path) -> str | None:
    """phi anywhere from 0 to infinity, seams included; and values far from 0, close together or equal."""
    near = [x * (1 + s * 10.0 ** -rng.uniform(1, 8)) for x in (20.0, 40.0, 1.503) for s in (-1, 1)]
    evidence = torch.tensor([0.0, 1e-45, 20.0, 40.0, 1e30, 3e38, np.inf, *near, *(10.0 ** rng.uniform(-38, 38, 50))])
    exact, rounded = phi(evidence.double()), phi(evidence)
    if rounded[[0, 6]].tolist() != [0, 0]:
        return "phi is not 0 at 0 and at infinity"
    slope = torch.autograd.grad(phi(finite := evidence[:6].clone().requires_grad_()).sum(), finite)[0]
    if not bool(torch.isfinite(slope).all()):
        return "the slope of phi is not finite"
    if not bool(torch.isfinite(rounded).all() and (rounded >= 0).all() and (rounded <= 0.5174).all()):
        return "phi is not within 0 and 0.5174"
    if not torch.allclose(rounded.double(), exact, rtol=2e-6, atol=1e-38):
        return "phi in float32 is not that in float64"
    return far_values(rng)


def far_values(rng: np.random.Generator) -> str | None:
    """The disagreement of values at 1e4 of their spread, against float64; never negative, never not finite."""
    n, m, d = int(rng.integers(1, 60)), 8, 8
    ratio, spread = float(rng.choice([0, 1, 1e2, 1e4])), float(rng.choice([0, 1e-6, 1e-3, 1]))
    q, k, v = (torch.from_numpy(rng.standard_normal((1, 1, rows, d))).float() for rows in (m, n, n))
    time, channel = (torch.from_numpy(rng.random((1, 1, n))).float() for _ in range(2))
    v = spread * v + ratio

    def asked(kind: torch.dtype) -> list[Any]:
        field = build_field(k.to(kind), v.to(kind), time.to(kind), channel.to(kind), Grid())
        return [read(unit(q.to(kind)), field, 0.5), read_beam(unit(q.to(kind)), field, 0.5).reading]

    for got, exact in zip(asked(torch.float32), asked(torch.float64), strict=True):
        for name in ("evidence", "disagreement", "sigma_hat"):
            if not bool(torch.isfinite(getattr(got, name)).all()) or bool((getattr(got, name) < 0).any()):
                return f"{name} of values at {ratio:g} is not finite, or negative"
        rounding = 2.0**-24 * ratio  # of the values themselves
        if not torch.allclose(
            got.disagreement.double(), exact.disagreement, rtol=1e-3, atol=(1e-3 * spread + 4 * rounding) ** 2
        ):
            return f"the disagreement of values at {ratio:g} is off"
    return None


def a_degenerate_calibration(rng: np.random.Generator, folder: Path) -> str | None:
    """No variety in errors, signals or variables, or far too much: a calibration that can be kept, or a refusal."""
    n, levels = int(rng.choice([0, 1, 2, 5, 60])), (0.8, 0.9, 0.95)
    shapes = {
        "constant": lambda: np.full(n, float(rng.choice([0, 1e-45, 1e-12, 1, 1e6, 1e14, 1e30, 1e300]))),
        "spread": lambda: np.abs(rng.standard_normal(n)) * 10.0 ** float(rng.uniform(-20, 14)),
        "one wild": lambda: np.where(np.arange(n) == 0, 10.0 ** float(rng.uniform(0, 14)), 1.0),
        "not finite": lambda: np.where(np.arange(n) == 0, rng.choice([np.nan, np.inf]), 1.0),
        "negative": lambda: np.where(np.arange(n) == 0, -1.0, 1.0),
    }
    kinds = [str(rng.choice(list(shapes), p=[0.4, 0.3, 0.2, 0.05, 0.05])) for _ in range(3)]
    signal, mean, target = (shapes[kind]() for kind in kinds)
    variable = rng.integers(0, int(rng.choice([1, 3])), n)
    by = str(rng.choice(["variable", "nothing"]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted = fit_calibration(signal, "deviation", mean, target, variable, "abc", by=by, levels=levels)
            back = Calibration.from_json(fitted.to_json())
            scale = back.scale(signal, variable)
    except (CalibrationError, UsageError) as error:
        fine = "not finite" in kinds or "negative" in kinds or n == 0 or "beyond" in str(error)
        return None if fine else f"{', '.join(kinds)} of {n}: refused, {error}"
    except Exception as error:
        return f"{', '.join(kinds)} of {n}: {type(error).__name__} {error}"
    return None if np.isfinite(scale).all() and (scale > 0).all() else f"{', '.join(kinds)} of {n}: scale {scale.min()}"


ROWS: tuple[Row, ...] = (
    Row(
        "a record of extreme values: one time, one reading repeated, edges of ranges, numbers beyond float32",
        "every score finite or a status; not the most trusted; other scores unchanged",
        extreme_values,
        4,
        100,
    ),
    Row("a record of thousands of readings", "scored; memory bounded", thousands_of_readings, 1, 10),
    Row(
        "a record of 98,000 readings",
        "scored from a draw; uncertainty of three draws to 10 %, error to 20 %",
        a_record_without_end,
        1,
        20,
    ),
    Row("an answer that is not finite", "null and a status; never ranked", an_answer_not_finite, 6, 200),
    Row(
        "evidence and values at the ends of the operator's domain", "finite, float64's to 1e-3", the_operator, 20, 2_000
    ),
    Row(
        "a calibration on constant, wild or no errors",
        "finite and kept, or refused",
        a_degenerate_calibration,
        30,
        2_000,
    ),
)
