"""A model sees of a cohort the variables that it knows by name, in any order, and in its own unit or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from levyscreen.config import OURS
from levyscreen.errors import ModelError
from levyscreen.records.alignment import aligned, left_out
from levyscreen.records.cohort import Cohort
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.variables import Variable, VariableSet
from tests.learn.tiny import VARIABLES, cohort_of

PLAIN = Preprocessor(VARIABLES, OURS, (0.0,) * 4, (1.0,) * 4)


def of(*variables: Variable, lines, horizon_hours: float = 48.0) -> Cohort:
    return cohort_of(lines, variables=VariableSet("ward", 1, horizon_hours, variables))


BY_NAME = {v.name: v for v in VARIABLES.variables}


def test_readings_at_one_time_stand_in_the_models_order_whatever_the_cohorts():
    lines = [[(1, 0, 70.0), (1, 2, 37.0), (2, 3, 7.4), (2, 1, 1.0)], [(5, 2, 36.0), (5, 0, 80.0)]]
    straight = PLAIN.apply(of(*VARIABLES.variables, lines=lines_sorted(lines)))
    swapped = [[(t, 3 - v, x) for t, v, x in record] for record in lines]
    turned = PLAIN.apply(of(*VARIABLES.variables[::-1], lines=lines_sorted(swapped)))
    for name in ("offsets", "time", "variable", "value"):
        assert np.array_equal(getattr(straight, name), getattr(turned, name)), name


def lines_sorted(lines):
    return [sorted(record) for record in lines]


def test_variables_the_model_does_not_know_are_counted_and_named():
    cohort = of(BY_NAME["Temp"], Variable("CRP", "mg/L", ""), lines=[[(1, 0, 37.0), (1, 1, 9.0), (2, 1, 8.0)]])
    assert PLAIN.apply(cohort).value.tolist() == [37.0]
    assert left_out(cohort, VARIABLES) == ("2 readings of 1 variable that the model does not know, not used: CRP",)


def test_readings_that_the_models_ranges_take_otherwise_than_the_cohorts_are_counted_and_named():
    """HR 0, pH 735 and Temp 20: nothing is wrong with them to a cohort without ranges, nor to a model without."""
    values = (0, 0.0), (0, 70.0), (3, 735.0), (2, 20.0), (2, 37.0)
    bare = VARIABLES.without_ranges()
    assert left_out(cohort_of([[(1, *value) for value in values]], variables=bare), VARIABLES) == (
        "2 readings of 2 variables outside what the model takes for plausible, not used: HR, Temp",
        "1 reading of 1 variable in which the model puts back a lost decimal point: pH",
    )
    assert left_out(cohort_of([[(1, *value) for value in values]]), bare) == (
        "3 readings of 3 variables that the cohort's own ranges reject or repair, used by the model as they stand: "
        "HR, Temp, pH",
    )


def test_a_decimal_point_that_the_model_alone_puts_back_is_told_also_where_the_cohort_rejects_the_line():
    strict = replace(VARIABLES, variables=tuple(replace(v, repair=None) for v in VARIABLES.variables))
    assert left_out(cohort_of([[(1, 3, 735.0)]], variables=strict), VARIABLES) == (
        "1 reading of 1 variable in which the model puts back a lost decimal point: pH",
    )


def test_stays_of_another_length_than_the_models_are_an_error():
    cohort = of(BY_NAME["Temp"], lines=[[(48, 0, 37.0)]], horizon_hours=72.0)
    with pytest.raises(
        ModelError, match=r"has stays of 72 hours, the model was made for 48; a mapping can say so with"
    ):
        PLAIN.apply(cohort)


def test_nothing_is_said_where_nothing_is_left_out():
    assert left_out(of(BY_NAME["Temp"], lines=[[(48, 0, 37.0)]]), VARIABLES) == ()


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (
            replace(BY_NAME["Temp"], unit="degF"),
            r"Temp is in degF in cohort tiny, in degC in the model: set unit = \"degC\", factor = 0\.555556, "
            r"offset = -17\.7778 in its mapping",
        ),
        (replace(BY_NAME["HR"], unit=""), r"HR is in no unit in cohort tiny, in bpm in the model: set unit = \"bpm\""),
    ],
)
def test_another_unit_is_an_error_that_names_both_and_the_factor_to_set(variable, message):
    with pytest.raises(ModelError, match=message):
        PLAIN.apply(of(variable, lines=[[(1, 0, 98.6)]]))


def test_every_variable_in_another_unit_is_named_not_the_first_alone():
    ours = (replace(BY_NAME["Temp"], unit="degF"), replace(BY_NAME["HR"], unit="Hz"))
    with pytest.raises(ModelError, match=r"Temp is in degF in cohort tiny.*; HR is in Hz in cohort tiny, in bpm"):
        PLAIN.apply(of(*ours, lines=[[(1, 0, 98.6)]]))


def test_of_an_ion_with_one_charge_mmol_and_meq_are_one_unit_and_of_others_not():
    for name in ("K", "Na"):
        assert not aligned_to(Variable(name, "mmol/L", ""), Variable(name, "mEq/L", ""))
    for name in ("Calcium", "Mg"):
        assert f"{name} is in mEq/L in cohort tiny" in aligned_to(
            Variable(name, "mEq/L", ""), Variable(name, "mg/dL", "")
        )


def test_magnesium_is_in_the_unit_that_the_models_values_are_in_whatever_their_label_says():
    theirs = Variable("Mg", "mmol/L", "")
    assert 'set unit = "mmol/L", and no factor' in aligned_to(Variable("Mg", "mg/dL", ""), theirs)
    assert 'set unit = "mmol/L", factor = 1.215 in its mapping' in aligned_to(Variable("Mg", "mEq/L", ""), theirs)


def aligned_to(ours, theirs):
    """What is wrong; nothing where they are in one unit."""
    try:
        aligned(of(ours, lines=[[(1, 0, 1.0)]]), VariableSet("model", 1, 48.0, (theirs,)))
    except ModelError as error:
        return str(error)
    return ""


def test_one_unit_may_be_written_in_several_ways():
    for unit in ("°C", "celsius", "C"):
        assert len(PLAIN.apply(of(replace(BY_NAME["Temp"], unit=unit), lines=[[(1, 0, 37.0)]])).value) == 1


def test_no_variable_in_common_is_an_error_that_says_what_to_do():
    with pytest.raises(ModelError, match=r"none by the same name: name them in the mapping as the model does"):
        PLAIN.apply(of(Variable("temperature", "degC", ""), lines=[[(1, 0, 37.0)]]))


def test_readings_that_are_there_several_times_are_counted():
    again = [(1, 0, 37.0), (1, 0, 37.0), (1, 0, 37.0), (1, 0, 38.0), (2, 0, 38.0)]
    assert left_out(of(BY_NAME["Temp"], lines=[again, [(2, 0, 38.0)]]), VARIABLES) == (
        "2 readings of 1 variable that are there before, at the same time with the same value, used once: Temp",
    )
