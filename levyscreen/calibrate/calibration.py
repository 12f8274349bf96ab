"""A fitted calibration: the affine scale and the conformal quantiles as plain numbers, and their JSON.

Its signal is one that the pass emits, or a reader's, which takes all of them.

The same targets fit both, as in the paper: two parameters a variable, shrunk, cost far less coverage than halving the
targets costs in the noise of the quantiles. Nor does the conformal guarantee hold to the letter: targets of a patient
miss together, and those of a new patient are not exchangeable with them. That costs little where many patients stand
behind a variable; where few do, `fit_calibration` warns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.calibrate.affine import LEAST_SCALE, Affine, fit_by_variable, fit_global
from levyscreen.calibrate.conditional import ByScale, Targets, fit_by_scale
from levyscreen.calibrate.conformal import warn_of_unbounded
from levyscreen.calibrate.reader import EVERY, WITHOUT_DEVIATION, Emitted, Reader
from levyscreen.calibrate.reader import SIGNALS as READ
from levyscreen.calibrate.scores import Float64s, Floats, paired
from levyscreen.config import MOST, parsed
from levyscreen.errors import CalibrationError, UsageError

# What a meta-model reads, by the name of its signal. "rich" is of calibrations of before, and of study rows.
META = "meta_model"
META_WITHOUT_DEVIATION = "meta_model_without_deviation"
META_MODELS = {META: EVERY, META_WITHOUT_DEVIATION: WITHOUT_DEVIATION, "rich": READ}
SIGNALS = ("deviation", "sigma_hat", "disagreement", "inverse_evidence", *META_MODELS)
BY = ("variable", "nothing")
LOWEST, HIGHEST = 0.001, 0.999  # levels
FORMAT = 1
Indices = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """What turns one signal of one model into a scale and an interval, both in z-scored units of the prediction.

    V variables, L levels. With by = "nothing" the arrays by variable hold the pooled numbers.
    """

    signal: str  # one of SIGNALS
    by: str  # "variable" | "nothing"
    variables: tuple[str, ...]  # names, in the order that indices count in
    pooled: Affine  # the global (a, b)
    a: Float64s  # (V,)
    b: Float64s  # (V,)
    n_targets: NDArray[np.int64]  # (V,), behind the quantiles
    levels: tuple[float, ...]  # nominal coverages
    quantiles: Float64s  # (L,) Q_alpha over all targets
    quantiles_by_variable: Float64s  # (L, V); +inf where the variable has too few targets
    # (V,) mean |error| of the calibration targets: a constant, the honest floor of any scale by variable.
    mean_error: Float64s
    provenance: dict[str, Any] = field(default_factory=dict)  # seed, records, targets, cohort fingerprint
    reader: Reader | None = None  # of the signals in META_MODELS; None for any other
    by_scale: ByScale | None = None  # how errors go with the scale; None in calibrations of before
    error_by_variable: Float64s | None = None  # (V,) what is left of that by variable

    @property
    def needs_deviation(self) -> bool:
        """Whether its signal takes the pass that costs more."""
        return self.signal == "deviation" or (self.reader is not None and self.reader.needs_deviation)

    @property
    def needs_surroundings(self) -> bool:
        """Whether its signal reads more than a pass emits."""
        return self.reader is not None and self.reader.needs_surroundings

    @property
    def rankable(self) -> bool:
        """False where the global fit has a = 0: the scale is then a constant, and a ranking by it says nothing."""
        return self.pooled.carries_signal

    def signal_of(self, emitted: Emitted) -> Floats:
        """Its own signal of what a pass emitted, high meaning distrust, of the questions' shape."""
        if self.reader is not None:
            return self.reader(emitted)
        if self.signal == "inverse_evidence":
            return np.asarray(1 / emitted.evidence)
        return np.asarray(getattr(emitted, self.signal))

    def scale_of(self, emitted: Emitted) -> Floats:
        """The scale of what a pass emitted, z units, of the questions' shape."""
        signal = self.signal_of(emitted)
        return self.scale(signal, np.broadcast_to(emitted.variable, signal.shape))

    def scale(self, signal: Floats, variable: Indices) -> Floats:
        """The scale s = a_v signal + b_v in z units, of any one shape, in the signal's precision (eq:predictive)."""
        signal = _floating(signal)
        self._check_variables(variable)
        a, b = self.a.astype(signal.dtype), self.b.astype(signal.dtype)
        return np.asarray(a[variable] * signal + b[variable])

    def half_width(self, scale: Floats, variable: Indices, level: float) -> Floats:
        """Half the conformal interval, Q_alpha(variable) * scale, in z units (eq:conformal); may be infinite.

        Raises CalibrationError for a level that was not calibrated.
        """
        scale = _floating(scale)
        self._check_variables(variable)
        index = self.level_index(level)
        half = self.quantiles_by_variable[index].astype(scale.dtype)[variable] * scale
        return np.asarray(half if self.by_scale is None else half * self.by_scale.interval_factor(scale, index))

    def expected_error(self, scale: Floats, variable: Indices) -> Floats:
        """The mean |error| expected at a scale, z units, of any one shape; the scale itself in calibrations of before.

        Those had no other measure, and what was screened with them is ranked as it was.
        """
        scale = _floating(scale)
        self._check_variables(variable)
        if self.by_scale is None or self.error_by_variable is None:
            return scale
        left = self.error_by_variable.astype(scale.dtype)[variable]
        return np.asarray(scale * self.by_scale.error_factor(scale) * left)

    def level_index(self, level: float) -> int:
        """Where a nominal level stands among `levels`. Raises CalibrationError if it does not."""
        for index, known in enumerate(self.levels):
            if math.isclose(level, known, abs_tol=1e-9):
                return index
        meant = f"; {level:g} % is {level / 100:g}" if 1 < level <= 100 else ""
        raise CalibrationError(
            f"no interval at level {level:g}: calibrated at {', '.join(map('{:g}'.format, self.levels))}{meant}"
        )

    def _check_variables(self, variable: Indices) -> None:
        if np.size(variable) and not (np.min(variable) >= 0 and np.max(variable) < len(self.variables)):
            raise CalibrationError(
                f"variable {int(np.max(variable))} (least {int(np.min(variable))}) asked, "
                f"calibrated for the {len(self.variables)} variables 0 to {len(self.variables) - 1}"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain objects that strict JSON takes and `from_json` reads back, bit for bit; null is infinity."""

        def finite(row: Float64s) -> list[float | None]:
            return [None if math.isinf(x) else x for x in row.tolist()]

        data = {
            "format": FORMAT,
            "signal": self.signal,
            "by": self.by,
            "variables": list(self.variables),
            "global": {"a": self.pooled.a, "b": self.pooled.b},
            "a": self.a.tolist(),
            "b": self.b.tolist(),
            "n_targets": self.n_targets.tolist(),
            "levels": list(self.levels),
            "quantiles": finite(self.quantiles),
            "quantiles_by_variable": [finite(row) for row in self.quantiles_by_variable],
            "mean_error": self.mean_error.tolist(),
            "provenance": self.provenance,
        }
        if self.reader is not None:
            data["reader"] = self.reader.to_json()
        if self.by_scale is not None and self.error_by_variable is not None:
            by_scale = {name: array.tolist() for name, array in vars(self.by_scale).items()}
            data["by_scale"] = by_scale | {"error_by_variable": self.error_by_variable.tolist()}
        plain: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """The calibration that `to_json` wrote. Raises CalibrationError for anything else."""
        if not isinstance(data, Mapping):
            raise CalibrationError("not a calibration: an object is required")
        if type(data.get("format")) is not int or data["format"] != FORMAT:  # True is 1 to Python
            raise CalibrationError(f"calibration of format {data.get('format')!r:.40}, this version reads {FORMAT}")
        try:
            calibration = _from_plain(data)
        except (KeyError, ValueError) as err:
            raise CalibrationError(f"not a calibration: {type(err).__name__} {err}") from err
        _check_shapes(calibration)
        _check_numbers(calibration)
        return calibration


def fit_calibration(
    signal: ArrayLike,
    signal_name: str,
    mean: ArrayLike,
    target: ArrayLike,
    variable: ArrayLike,
    names: Sequence[str],
    *,
    by: str = "variable",
    levels: Sequence[float] = (0.8, 0.9, 0.95),
    patient: ArrayLike | None = None,
    provenance: Mapping[str, Any] | None = None,
    reader: Reader | None = None,
    without: Collection[str] = (),
) -> Calibration:
    """Fit the scale and the quantiles on held-out targets; signal, mean, target, variable and patient are (N,).

    `mean` and `target` are z-scored, `variable` indexes `names`, `patient` says whose each target is, and `without`
    which variables are never targets.
    For a meta-model, `signal` is what readers fitted without each target's patient gave, `reader` the one to keep.
    Warns (CalibrationWarning) with the names of variables too rare for a finite interval, and of those whose targets
    are of fewer patients than a level needs targets. Raises UsageError for an unknown signal, `by` or level and for
    unequal or non-finite inputs, CalibrationError where there is nothing to fit.
    """
    check_request(signal_name, by, levels)
    if (signal_name in META_MODELS) != (reader is not None):
        raise UsageError(f"{', '.join(META_MODELS)} take a reader, and no other signal does")
    s, error = _signal_and_error(signal_name, signal, mean, target)
    n_variables = len(names)
    v = _checked_variable(variable, len(error), n_variables)
    whose = None if patient is None else np.asarray(patient)
    pooled = fit_global(s, error, whose)
    a, b = np.full(n_variables, pooled.a), np.full(n_variables, pooled.b)
    if by == "variable":
        a, b = fit_by_variable(s, error, v, n_variables, pooled)
    targets = Targets(a[v] * s + b[v], np.abs(error), v, n_variables, whose, by == "variable")
    fitted = fit_by_scale(targets, levels)
    warn_of_unbounded(fitted.quantiles_by_variable, levels, names, without)
    return Calibration(
        signal=signal_name,
        by=by,
        variables=tuple(names),
        pooled=pooled,
        a=a,
        b=b,
        n_targets=np.bincount(v, minlength=n_variables),
        levels=tuple(float(level) for level in levels),
        quantiles=fitted.quantiles,
        quantiles_by_variable=fitted.quantiles_by_variable,
        mean_error=_mean_by_variable(np.abs(error), v, n_variables),
        provenance=dict(provenance or {}),
        reader=reader,
        by_scale=fitted.by_scale,
        error_by_variable=fitted.error_by_variable,
    )


def _signal_and_error(name: str, signal: ArrayLike, mean: ArrayLike, target: ArrayLike) -> tuple[Float64s, Float64s]:
    """Both (N,), the error being target - mean; raises as `fit_calibration`."""
    if not np.size(target):
        raise CalibrationError("no targets to calibrate on")
    s, mu, y = paired(**{name: signal}, mean=mean, target=target)
    if max(np.abs(s).max(), np.abs(y - mu).max()) > MOST:
        raise CalibrationError(f"errors or values of {name} lie beyond {MOST:g}: nothing can be calibrated on them")
    return s, y - mu


def _mean_by_variable(values: Float64s, variable: Indices, n_variables: int) -> Float64s:
    """Means (V,); the mean of all where a variable has none."""
    count = np.bincount(variable, minlength=n_variables)
    total = np.bincount(variable, values, minlength=n_variables)
    return np.where(count > 0, total / np.maximum(count, 1), values.mean())


def _floating(values: ArrayLike) -> Floats:
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_request(signal_name: str, by: str, levels: Sequence[float]) -> None:
    """Raises UsageError for what `fit_calibration` does not know; to be asked before a long computation."""
    if signal_name not in SIGNALS:
        raise UsageError(f"signal {signal_name!r} is not one of {', '.join(SIGNALS)}")
    if by not in BY:
        raise UsageError(f"calibration by {by!r} is not one of {', '.join(BY)}")
    if not levels or not all(LOWEST <= level <= HIGHEST for level in levels) or len(set(levels)) < len(levels):
        raise UsageError(
            f"levels must lie between {LOWEST} and {HIGHEST}, each once; got {', '.join(map(str, levels)) or 'none'}"
        )


def _checked_variable(variable: ArrayLike, n: int, n_variables: int) -> Indices:
    v = np.asarray(variable)
    if v.shape != (n,) or v.dtype.kind not in "iu" or v.min() < 0 or v.max() >= n_variables:
        raise UsageError(f"variable must be {n} indices from 0 to {n_variables - 1}, got {v.dtype} {v.shape}")
    return v


# What each key of the JSON must hold; only a quantile may be null.
_PLAIN = {
    "signal": Literal[
        "deviation",
        "sigma_hat",
        "disagreement",
        "inverse_evidence",
        "meta_model",
        "meta_model_without_deviation",
        "rich",
    ],
    "by": Literal["variable", "nothing"],
    "variables": tuple[str, ...],
    "global": Affine,
    "a": tuple[float, ...],
    "b": tuple[float, ...],
    "n_targets": tuple[int, ...],
    "levels": tuple[float, ...],
    "quantiles": tuple[float | None, ...],
    "quantiles_by_variable": tuple[tuple[float | None, ...], ...],
    "mean_error": tuple[float, ...],
    "provenance": dict[str, Any],
}


def _from_plain(data: Mapping[str, Any]) -> Calibration:
    if unknown := sorted(data.keys() - _PLAIN.keys() - {"format", "reader", "by_scale"}):
        raise ValueError(f"{unknown[0]!r:.40} is not known to this version")
    plain = {key: parsed(kind, data[key], key) for key, kind in _PLAIN.items()}
    if plain["signal"] in META_MODELS:
        plain["reader"] = Reader.from_json(parsed(dict[str, Any], data["reader"], "reader"), len(plain["variables"]))
    if "by_scale" in data:
        plain |= _by_scale(data["by_scale"])
    plain["pooled"] = plain.pop("global")
    plain["n_targets"] = np.array(plain["n_targets"], dtype=np.int64)
    for key in ("a", "b", "mean_error", "quantiles", "quantiles_by_variable"):
        row = np.array(plain[key], dtype=np.float64)
        plain[key] = np.where(np.isnan(row), math.inf, row)  # None has become NaN
    return Calibration(**plain)


def _by_scale(data: Any) -> dict[str, Any]:
    kinds = {"knots": tuple[float, ...], "interval": tuple[tuple[float, ...], ...], "error": tuple[float, ...]}
    kinds["error_by_variable"] = tuple[float, ...]
    plain = parsed(dict[str, Any], data, "by_scale")
    if plain.keys() != kinds.keys():
        raise ValueError(f"by_scale must have {', '.join(kinds)}")
    found = {
        key: np.array(parsed(kind, plain[key], f"by_scale.{key}"), dtype=np.float64) for key, kind in kinds.items()
    }
    return {"error_by_variable": found.pop("error_by_variable"), "by_scale": ByScale(**found)}


def _check_shapes(c: Calibration) -> None:
    variables, levels = len(c.variables), len(c.levels)
    shapes = [x.shape for x in (c.a, c.b, c.n_targets, c.mean_error, c.quantiles, c.quantiles_by_variable)]
    if shapes != [(variables,), (variables,), (variables,), (variables,), (levels,), (levels, variables)]:
        raise CalibrationError(f"damaged calibration: {variables} variables and {levels} levels, arrays of {shapes}")
    if c.by_scale is None or c.error_by_variable is None:
        return
    knots = len(c.by_scale.knots)
    shapes = [x.shape for x in (c.by_scale.knots, c.by_scale.interval, c.by_scale.error, c.error_by_variable)]
    if not knots or shapes != [(knots,), (levels, knots), (knots,), (variables,)]:
        raise CalibrationError(f"damaged calibration: by_scale has arrays of {shapes}")


def _check_numbers(c: Calibration) -> None:
    """What every fit gives: scales above 0, and intervals that do not shrink where more coverage is asked."""
    levels, order = np.array(c.levels), np.argsort(c.levels)
    wider = [(row[1:] >= row[:-1]).all() for row in (c.quantiles[order], c.quantiles_by_variable[order])]
    rising, positive = True, 1.0
    if c.by_scale is not None and c.error_by_variable is not None:
        rising = bool((np.diff(c.by_scale.knots) > 0).all())
        positive = min(*c.by_scale.interval.flat, *c.by_scale.error, *c.error_by_variable, 1.0)
    fine = {
        "knots must rise, and factors by scale and variable be above 0": rising and positive > 0,
        "a, mean_error, n_targets and quantiles must be 0 or more": min(
            c.pooled.a, *c.a, *c.mean_error, *c.n_targets, *c.quantiles, *c.quantiles_by_variable.flat
        )
        >= 0,
        "b must be above 0": min(c.pooled.b, *c.b) >= LEAST_SCALE / 2,  # a weighted mean may round down
        "levels must lie between 0 and 1, each once": (
            len(levels) > 0 and len(set(c.levels)) == len(levels) and 0 < levels.min() <= levels.max() < 1
        ),
        "quantiles must rise with the level": all(wider),
    }
    if wrong := [rule for rule, holds in fine.items() if not holds]:
        raise CalibrationError(f"damaged calibration: {'; '.join(wrong)}")
