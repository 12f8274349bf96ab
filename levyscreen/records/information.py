"""How much a record says: copies of one value, or of one stretch, are no independent evidence.

A network counts readings as evidence whether or not they say anything new, so a stuck sensor would look like the best
observed patient of a cohort. What training records had at the least is kept with the model, and a record far below
that is `degenerate`: it is not ranked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.readings import Readings

# Columns of `information`, each larger in a record that says more.
MEASURES = ("variables", "times", "values", "changes", "paths")
PARTS = 48  # of a stay; one reading of a variable counts in each, however often a monitor writes
PATH = 6  # values of a variable, each other than the one before: what no patient repeats by chance
RARE = 0.001  # of the training records, which have less
# Parts of what the others have at the least; a record below is like none of them. An export may hold two variables.
COUNTS = ("variables", "times")  # among the measures, the others are shares
MARGINS = {"variables": 0.2, "times": 0.6, "values": 0.6, "changes": 0.6, "paths": 0.7}


def information(readings: Readings) -> NDArray[np.float64]:
    """What each record's readings say, (R, 5) by MEASURES, of those that may be held out; a share of nothing is 1.

    Number of variables; number of distinct times; distinct values of a variable as a share of the readings; share of
    the readings that differ from the one before of their variable; distinct paths, PATH values that follow each other,
    as a share of the paths. All but the paths count the first reading of each variable in each of PARTS alone.
    """
    kept = readings.keep(readings.may_be_target)
    record, variable, time, value = _by_variable(_thinned(kept))
    differs = _changes([record, variable, value], np.arange(len(record)))
    same = ~_changes([record, variable], np.arange(len(record)))
    count, records = np.bincount(record, minlength=len(kept)), len(kept)
    columns = [
        _distinct(records, record, variable),
        _distinct(records, record, time),
        _share(_distinct(records, record, variable, value), count),
        _share(
            np.bincount(record[1:][same & differs], minlength=records), np.bincount(record[1:][same], minlength=records)
        ),
        _paths(kept),
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _by_variable(readings: Readings) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Record, variable, time and value of each reading, in that order."""
    record, variable = np.repeat(np.arange(len(readings)), readings.lengths), readings.variable.astype(np.int64)
    order = np.lexsort((readings.time, variable, record))
    return record[order], variable[order], readings.time[order], readings.value[order]


def _paths(readings: Readings) -> NDArray[np.float64]:
    """Distinct paths as a share of all, (R,); of readings however often they come."""
    record, variable, _, value = _by_variable(readings)
    moved = np.append(True, _changes([record, variable, value], np.arange(len(record))))[: len(record)]
    record, variable, value = record[moved], variable[moved], value[moved]
    count = max(0, len(record) - PATH + 1)
    whole = (record[:count] == record[PATH - 1 :]) & (variable[:count] == variable[PATH - 1 :])
    steps = [value[i : i + count][whole] for i in range(PATH)]
    of = record[:count][whole]
    distinct = _distinct(len(readings), of, variable[:count][whole], *steps)
    return _share(distinct, np.bincount(of, minlength=len(readings)))


def least_of(readings: Readings, fewest: int) -> dict[str, float]:
    """By measure, what all but RARE of the records with `fewest` readings or more have at the least.

    Fewer records than show what is RARE say little of how short a record may be: then only a count of one is lacking.
    """
    found = information(readings)[readings.lengths >= fewest]
    if not len(found):
        return {}
    rare = np.quantile(found, RARE, axis=0, method="lower").round(2)  # to two digits, for it may be one patient's
    least = dict(zip(MEASURES, rare.tolist(), strict=True))
    if len(found) * RARE < 1:
        least |= {name: min(least[name], 1.5 / MARGINS[name]) for name in COUNTS}
    return least


def lacking(readings: Readings, least: Mapping[str, float]) -> NDArray[np.bool_]:
    """Which records have less than its MARGINS of the least by a measure, (R,)."""
    found = information(readings)
    short = np.zeros(len(readings), bool)
    for name, value in least.items():
        short |= found[:, MEASURES.index(name)] < MARGINS[name] * value
    return short


def _thinned(readings: Readings) -> Readings:
    record = np.repeat(np.arange(len(readings)), readings.lengths)
    part = np.floor(np.clip(readings.time * PARTS, 0, PARTS - 1))
    order = np.lexsort((readings.time, part, readings.variable, record))
    first = np.zeros(len(order), bool)
    first[order] = np.append(True, _changes([record, readings.variable, part], order))[: len(order)]
    return readings.keep(first)


def _distinct(records: int, record: NDArray[np.int64], *columns: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number of distinct rows of the columns in each record, (R,)."""
    if not len(record):
        return np.zeros(records, np.int64)
    order = np.lexsort((*columns[::-1], record))
    new = np.ones(len(order), bool)
    new[1:] = _changes([record, *columns], order)
    return np.bincount(record[order][new], minlength=records)


def _changes(columns: Sequence[NDArray[np.generic]], order: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.any([c[order][1:] != c[order][:-1] for c in columns], axis=0)


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.ones(len(whole)), where=whole > 0)
