"""The scores: how well a signal orders the errors, and how well a predictive law meets the targets.

`error` is signed or absolute, the scores take its absolute value; a `signal` is high where the prediction is trusted
least. Everything is computed in float64, whatever the precision of the inputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levyscreen.errors import UsageError

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]

CURVE_POINTS = 50


def crps_gaussian(mean: ArrayLike, scale: ArrayLike, target: ArrayLike) -> Float64s:
    """Continuous ranked probability score of N(mean, scale^2) against the target, elementwise, in the target's unit.

    Closed form of the paper's eq:crps on eq:predictive (Gneiting and Raftery 2007); a scale of 0 is a point prediction,
    whose score is |target - mean|. The three arrays broadcast. Raises UsageError for a negative or NaN scale.
    """
    mean, scale, target = (np.asarray(x, dtype=np.float64) for x in (mean, scale, target))
    if not (scale >= 0).all():
        raise UsageError(f"a scale must be 0 or more, got {float(scale.min())}")
    error = target - mean
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(scale > 0, crps_of_error(error, scale), np.abs(error))


def crps_of_error(error: Floats, scale: Floats) -> Floats:
    """Gaussian CRPS for scale > 0, in the precision of its inputs: error (2 Phi(z) - 1) + scale (2 phi(z) - 1/sqrt pi).

    z = error / scale. The usual form has the scale in front of both terms, and overflows as the scale goes to 0.
    """
    from scipy.special import erf

    z = error / scale
    density = math.sqrt(2 / math.pi) * np.exp(-0.5 * z * z)
    score: Floats = error * erf(math.sqrt(0.5) * z) + scale * (density - 1 / math.sqrt(math.pi))
    return score


def crps_sample(draws: ArrayLike, target: ArrayLike) -> Float64s:
    """Continuous ranked probability score of the empirical law of K draws, (K, ...), against the targets (...).

    mean |x - y| - mean |x - x'| / 2 over all K^2 pairs (Gneiting and Raftery 2007); of one draw, its absolute error.
    """
    x, y = np.sort(np.asarray(draws, dtype=np.float64), axis=0), np.asarray(target, dtype=np.float64)
    k = len(x)
    rank = np.arange(1 - k, k, 2).reshape(-1, *[1] * y.ndim)  # in sorted order |x - x'| sums to 2 (2 i - k - 1) x_i
    score: Float64s = np.abs(x - y).mean(0) - (rank * x).sum(0) / k**2
    return score


def ause(signal: ArrayLike, error: ArrayLike) -> float:
    """Area under the sparsification error: 0 for a signal that orders as the errors do, larger is worse.

    The mean over every prefix removed (0 to n-1 queries, highest signal first) of mean |error| of the rest over mean
    |error| of all, less the same for the oracle that removes by |error| (Ilg et al. 2018). Of ties the mean over all
    their orders, so that it does not matter in which order the queries stand.
    0 where there is no error at all. Both (N,). Raises UsageError for empty, unequal or non-finite inputs.
    """
    signal, error = paired(signal=signal, error=error)
    error = np.abs(error)
    if not error.any():
        return 0.0
    return float(_sparsification(signal, error) - _sparsification(error, error))


def _sparsification(order_by: Float64s, error: Float64s) -> float:
    """Mean height of the sparsification curve, as a share of its first point."""
    mean_of_rest = np.cumsum(_in_order(order_by, error)) / np.arange(1, len(error) + 1)
    return float(mean_of_rest.mean() / error.mean())


def _in_order(order_by: Floats, error: Floats) -> Float64s:
    """The errors by ascending `order_by`, tied ones each as the mean of theirs: what to expect of a random order."""
    _, which, counts = np.unique(order_by, return_inverse=True, return_counts=True)
    return np.repeat(np.bincount(which, error) / counts, counts)


def sparsification(order_by: Floats, error: Floats, points: int = CURVE_POINTS) -> list[float]:
    """Mean error of what is left, as a share of that of all, once 0, 1/50, ... 49/50 of the queries are left out.

    Those with the highest `order_by` go first, ties as in `ause`; both (N,), `error` absolute.
    """
    kept = _in_order(order_by, error)[::-1]
    starts = np.floor(np.arange(points) / points * len(kept)).astype(np.int64)
    return [float(kept[start:].mean() / error.mean()) for start in starts]


def spearman(signal: ArrayLike, error: ArrayLike) -> float:
    """Rank correlation of the signal with |error|, ties averaged, in [-1, 1]; 0 where either is constant.

    A constant orders nothing, hence 0 and not NaN, which strict JSON could not carry. Both (N,). Raises UsageError for
    empty, unequal or non-finite inputs.
    """
    signal, error = paired(signal=signal, error=error)
    x, y = (rank - rank.mean() for rank in (average_ranks(signal), average_ranks(np.abs(error))))
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


def average_ranks(values: Float64s) -> Float64s:
    """Ranks from 1, tied values sharing the mean of theirs, (N,). As scipy.stats, which takes a second to load."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which], dtype=np.float64)


def coverage(mean: ArrayLike, half_width: ArrayLike, target: ArrayLike) -> float:
    """Share of targets within mean +- half_width, the ends included; a half width may be infinite. All (N,)."""
    mean, target = paired(mean=mean, target=target)
    return float(np.mean(np.abs(target - mean) <= np.asarray(half_width, dtype=np.float64)))


def flagged_excess(
    signal: ArrayLike, error: ArrayLike, fraction: float = 0.1, ids: NDArray[np.integer[Any]] | None = None
) -> float:
    """Mean |error| of the least trusted fraction, as change against the mean of all: 0.38 is 38 % more error.

    Flags round(fraction * n), at least one, by highest signal; ties go to the lower id, without ids to the earlier. The
    paper's "flagged decile" (tab:cohort) when `signal` and `error` are means by patient. All (N,). 0 where there is no
    error at all. Raises UsageError for empty, unequal or non-finite inputs and a fraction outside (0, 1].
    """
    signal, error = paired(signal=signal, error=error)
    if not 0 < fraction <= 1:
        raise UsageError(f"the flagged fraction must lie in (0, 1], got {fraction}")
    error = np.abs(error)
    if not error.any():
        return 0.0
    return float(error[flagged(signal, fraction, ids)].mean() / error.mean() - 1)


def flagged(signal: Float64s, fraction: float = 0.1, ids: NDArray[np.integer[Any]] | None = None) -> NDArray[np.int64]:
    """Places of round(fraction * n) signals, at least one, the highest first; ties as in `flagged_excess`."""
    order = np.lexsort((np.arange(len(signal)) if ids is None else ids, -signal))
    return order[: max(1, round(fraction * len(signal)))]


def clustered_error(values: ArrayLike, cluster: NDArray[np.integer[Any]]) -> float:
    """Standard error of the mean of `values` (N,) that come in clusters, such as a patient's targets.

    The sandwich: the root of the sum over G clusters of their squared summed residuals, over N, times the root of
    G / (G - 1). With one value a cluster it is the plain one; what a cluster's values share makes it larger. NaN for
    one cluster, which says nothing of another, and for none.
    """
    values = np.asarray(values, dtype=np.float64)
    clusters, place = np.unique(cluster, return_inverse=True)
    if len(clusters) < 2:
        return math.nan
    summed = np.bincount(place, values - values.mean())
    return float(np.sqrt(summed @ summed * len(clusters) / (len(clusters) - 1))) / len(values)


def clustered_margin(values: ArrayLike, cluster: NDArray[np.integer[Any]]) -> float:
    """Half of the 95 % interval of that mean, by Student's t over the clusters; NaN for fewer than two."""
    from scipy.special import stdtrit

    return float(stdtrit(len(np.unique(cluster)) - 1, 0.975)) * clustered_error(values, cluster)


def paired(**arrays: ArrayLike) -> list[Float64s]:
    """The arrays as float64, once they are seen to be one-dimensional, of one length, not empty and finite.

    Raises UsageError with the names and lengths of what came.
    """
    found = {name: np.asarray(values, dtype=np.float64) for name, values in arrays.items()}
    shapes = ", ".join(f"{name} {values.shape}" for name, values in found.items())
    if len({values.shape for values in found.values()}) != 1 or next(iter(found.values())).ndim != 1:
        raise UsageError(f"one value for each query is required, all of one length, got {shapes}")
    for name, values in found.items():
        if not len(values):
            raise UsageError(f"no queries to score: {shapes}")
        if bad := int((~np.isfinite(values)).sum()):
            raise UsageError(f"{bad} of {len(values)} values of {name} are not finite")
    return list(found.values())
