"""A cohort's variables beside a model's: known by name, in any order, and in one unit, or it is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from levyscreen.config import MOST_READINGS
from levyscreen.errors import ModelError
from levyscreen.names import counted
from levyscreen.records.cohort import WINDOW_RECORDS, repeats
from levyscreen.records.units import conversion, held_in, same_unit
from levyscreen.types import LineClass
from levyscreen.variables import Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levyscreen.records.cohort import Cohort
    from levyscreen.variables import VariableSet

NAMED = 12  # variables in a note


def aligned(cohort: Cohort, model: VariableSet) -> NDArray[np.int64]:
    """Index in the model of each of the cohort's variables, (V,), -1 where the model does not know it.

    Raises ModelError where it knows none, or some of them in another unit, all of which it names, or was made for stays
    of another length.
    """
    known = {v.name: (i, v) for i, v in enumerate(model.variables)}
    pairs = [(ours, known[ours.name][1]) for ours in cohort.variables.variables if ours.name in known]
    other = [_other_unit(cohort, *pair) for pair in pairs if not same_unit(pair[0].unit, pair[1].unit, pair[0].name)]
    if other:
        raise ModelError("; ".join(other))
    found = np.array([known[name][0] if name in known else -1 for name in cohort.variables.names], dtype=np.int64)
    if (found < 0).all():
        raise ModelError(
            f"cohort {cohort.name} has variables of {cohort.variables.name}, the model those of {model.name}, and none "
            f"by the same name: name them in the mapping as the model does, for instance {', '.join(model.names[:3])}"
        )
    if cohort.variables.horizon_hours != model.horizon_hours:
        raise ModelError(
            f"cohort {cohort.name} has stays of {cohort.variables.horizon_hours:g} hours, "
            f"the model was made for {model.horizon_hours:g}; a mapping can say so with horizon_hours"
        )
    return found


def _other_unit(cohort: Cohort, ours: Variable, models: Variable) -> str:
    held = held_in(models.name, models.unit)
    known = conversion(ours.name, ours.unit, held)
    here, there = ours.unit or "no unit", models.unit or "no unit"
    said = f"{ours.name} is in {here} in cohort {cohort.name}, in {there} in the model"
    if same_unit(ours.unit, held):
        return f'{said}, which learned from {held} under that label: set unit = "{models.unit}", and no factor'
    if known is None:
        return f'{said}: set unit = "{models.unit}" in its mapping, with the factor and offset that lead there'
    shift = f", offset = {known.offset:.6g}" if known.offset else ""
    return f'{said}: set unit = "{models.unit}", factor = {known.factor:.6g}{shift} in its mapping'


def left_out(cohort: Cohort, model: VariableSet) -> tuple[str, ...]:
    """Where a model sees other readings than the cohort has, in sentences.

    Of variables that it does not know, of those that it has other plausible ranges for, of readings that are there
    several times, and of records with more readings than a model reads. Raises ModelError as `aligned` does.
    """
    index = aligned(cohort, model)
    strange, refused, mended, admitted, twice = (np.zeros(len(index), dtype=np.int64) for _ in range(5))
    long = 0
    for _, part in cohort.windows(WINDOW_RECORDS):
        lines = part.load()
        known = index[lines.variable] >= 0
        reading = np.isin(lines.line_class, (LineClass.READING, LineClass.REPAIRED))
        of_model, value = model.judge(np.maximum(index[lines.variable], 0), lines.value)
        kept = np.isin(of_model, (LineClass.READING, LineClass.REPAIRED))
        record = np.repeat(np.arange(len(part)), np.diff(part.offsets))
        again = repeats(record, lines.time_hours, lines.variable, value)
        for count, rows in (
            (strange, reading & ~known),
            (refused, reading & known & ~kept),
            (mended, (of_model == LineClass.REPAIRED) & (lines.line_class != LineClass.REPAIRED) & known),
            (twice, again & kept & known),
            (admitted, (of_model == LineClass.READING) & (lines.line_class != LineClass.READING) & known),
        ):
            count += np.bincount(lines.variable[rows], minlength=len(index))
        long += int((np.bincount(record[kept & known & ~again], minlength=1) > MOST_READINGS).sum())
    names = cohort.variables.names
    found = (
        (strange, index < 0, "that the model does not know, not used"),  # named also where it has no reading
        (refused, refused > 0, "outside what the model takes for plausible, not used"),
        (mended, mended > 0, "in which the model puts back a lost decimal point"),
        (twice, twice > 0, "that are there before, at the same time with the same value, used once"),
        (admitted, admitted > 0, "that the cohort's own ranges reject or repair, used by the model as they stand"),
    )
    notes = [
        f"{counted(count.sum(), 'reading')} of {counted(which.sum(), 'variable')} {what}: {_named(names, which)}"
        for count, which, what in found
        if which.any()
    ]
    if long:
        notes.append(f"{counted(long, 'record')} of more than {MOST_READINGS:,} readings, so many of which are drawn")
    return tuple(notes)


def _named(names: tuple[str, ...], which: NDArray[np.bool_]) -> str:
    found = [name for name, hit in zip(names, which.tolist(), strict=True) if hit]
    return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
