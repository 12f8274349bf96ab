"""What a model keeps of a cohort, and the statistics it scales by."""

import json
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pyarrow as pa
import pytest

from levyscreen.config import MOST_READINGS, OURS
from levyscreen.errors import ModelError, TrainingError
from levyscreen.records.alignment import left_out
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.variables import PHYSIONET2012
from tests.learn.tiny import VARIABLES, cohort_of, tiny_cohort

HR, VENT, TEMP, PH = range(4)
PLAIN = Preprocessor(VARIABLES, OURS, (0.0,) * 4, (1.0,) * 4)


def fitted(cohort, rows=None, variables=VARIABLES):
    return Preprocessor.fit(cohort, np.arange(len(cohort)) if rows is None else np.asarray(rows), variables, OURS)


def test_statistics_are_mean_and_standard_deviation_by_variable_as_a_loop_finds_them():
    cohort = tiny_cohort()
    rows = np.arange(0, 60, 2)
    kept = {v: [] for v in range(4)}
    for row in rows:
        for line in range(cohort.offsets[row], cohort.offsets[row + 1]):
            if cohort.line_class[line] == 0:
                kept[int(cohort.variable[line])].append(float(cohort.value[line]))
    found = fitted(cohort, rows)
    assert found.mean == pytest.approx([mean(kept[v]) for v in range(4)], rel=1e-12)
    assert found.scale == pytest.approx([stdev(kept[v]) or 1.0 for v in range(4)], rel=1e-9)


def test_the_order_of_the_training_rows_has_no_say():
    cohort = tiny_cohort()
    assert fitted(cohort, [5, 1, 9]) == fitted(cohort, [1, 5, 9])


def test_records_outside_the_training_rows_have_no_say():
    few, more = [[(1, HR, 70.0), (2, HR, 90.0)]], [[(1, HR, 70.0), (2, HR, 90.0)], [(1, HR, 200.0), (1, TEMP, 39.0)]]
    assert fitted(cohort_of(few)) == fitted(cohort_of(more), [0])


def test_a_variable_that_never_varies_has_scale_1():
    found = fitted(cohort_of([[(1, VENT, 1.0), (2, VENT, 1.0)]] * 10))
    assert (found.mean[VENT], found.scale[VENT]) == (1.0, 1.0)


@pytest.mark.parametrize("value", [36.6, 37.1])
def test_a_variable_that_never_varies_has_scale_1_though_its_value_is_no_binary_fraction(value):
    assert fitted(cohort_of([[(hour, TEMP, value) for hour in range(10)]] * 10)).scale[TEMP] == 1.0


@pytest.mark.parametrize("others", [[], [[(1, HR, 70.0)]] * 8], ids=["one patient", "nine"])
def test_statistics_of_fewer_than_ten_patients_say_the_order_of_magnitude_alone(others):
    found = fitted(cohort_of([[(1, HR, 72.8125), (2, TEMP, 37.4375), (3, PH, 7.0)], *others]))
    assert found.mean == (0.0, 0.0, 0.0, 0.0)
    assert found.scale == (100.0, 1.0, 100.0, 10.0)
    assert "72.8125" not in json.dumps(found.to_json())


def test_several_records_of_one_patient_count_once_for_its_statistics():
    cohort = cohort_of([[(1, HR, 70.0 + i)] for i in range(12)])
    assert fitted(cohort).mean[HR] == 75.5
    subject = pa.array([1, 1, 1, *range(2, 11)], pa.int64())
    whose = cohort.records.set_column(cohort.records.schema.get_field_index("subject_id"), "subject_id", subject)
    assert fitted(replace(cohort, records=whose)).mean[HR] == 75.5
    subject = pa.array([1, 1, 1, 1, *range(2, 10)], pa.int64())
    whose = cohort.records.set_column(cohort.records.schema.get_field_index("subject_id"), "subject_id", subject)
    assert fitted(replace(cohort, records=whose)).mean[HR] == 0.0


def test_of_a_long_record_so_many_readings_are_drawn_by_the_seed_whatever_the_others():
    long = [(48 * i / 10_000, 2 * (i % 2), 30.0 + i % 7) for i in range(10_000)]
    alone, beside = cohort_of([long]), cohort_of([long[:50], long], [7, 1])
    drawn = PLAIN.apply(alone)
    assert drawn.lengths.tolist() == [MOST_READINGS]
    both = PLAIN.apply(beside)
    assert both.lengths.tolist() == [50, MOST_READINGS]
    np.testing.assert_array_equal(both.time[50:], drawn.time)
    every = np.array([hours for hours, *_ in long], np.float32) / np.float32(48)
    assert np.isin(drawn.time, every).all()
    assert (np.diff(drawn.time) > 0).all()
    other = PLAIN.apply(alone, seed=1)
    assert other.lengths.tolist() == [MOST_READINGS]
    assert 0 < np.isin(other.time, drawn.time).mean() < 0.9
    assert "1 record of more than 8,192 readings, so many of which are drawn" in left_out(alone, VARIABLES)
    assert not any("drawn" in note for note in left_out(cohort_of([long[:8_192]]), VARIABLES))


def test_z_scores_of_the_training_records_have_mean_0_and_deviation_1():
    cohort = tiny_cohort()
    readings = fitted(cohort).apply(cohort)
    for variable in (HR, TEMP, PH):
        z = readings.value[readings.variable == variable].astype(np.float64)
        assert z.mean() == pytest.approx(0, abs=1e-6)
        assert z.std(ddof=1) == pytest.approx(1, rel=1e-6)


def test_missing_and_implausible_lines_are_left_out_and_lost_decimal_points_put_back():
    lines = [
        (0, HR, -1.0),
        (1, HR, 0.0),
        (2, HR, 80.0),
        (3, PH, 735.0),
        (4, PH, 900.0),
        (5, TEMP, 20.0),
        (48, VENT, 1.0),
    ]
    readings = PLAIN.apply(cohort_of([lines, [(1, HR, 999.0)], [(24, TEMP, 37.0)]]))
    assert readings.value.tolist() == pytest.approx([80.0, 7.35, 1.0, 37.0])
    assert readings.variable.tolist() == [HR, PH, VENT, TEMP]
    assert readings.time.tolist() == pytest.approx([2 / 48, 3 / 48, 1.0, 0.5])
    assert readings.offsets.tolist() == [0, 3, 3, 4]


def test_without_ranges_only_negatives_are_left_out():
    bare = Preprocessor(VARIABLES.without_ranges(), OURS, (0.0,) * 4, (1.0,) * 4)
    readings = bare.apply(cohort_of([[(0, HR, -1.0), (1, HR, 0.0), (3, PH, 735.0), (5, TEMP, 20.0)]]))
    assert readings.value.tolist() == [0.0, 735.0, 20.0]


def test_the_models_own_ranges_decide_whatever_the_cohorts_say():
    cohort = cohort_of([[(1, HR, 0.0), (2, HR, 80.0)]], variables=VARIABLES.without_ranges())
    assert PLAIN.apply(cohort).value.tolist() == [80.0]


def test_a_cohorts_variables_are_known_by_name_and_strange_ones_left_out():
    cohort = cohort_of([[(1, 30, 37.0), (2, 14, 80.0), (3, 11, 120.0)]], variables=PHYSIONET2012)
    assert [PHYSIONET2012.names[i] for i in (30, 14, 11)] == ["Temp", "HR", "Glucose"]
    readings = PLAIN.apply(cohort)
    assert readings.variable.tolist() == [TEMP, HR]
    assert readings.value.tolist() == [37.0, 80.0]


def test_a_cohort_that_shares_no_variable_is_refused_by_name():
    strange = replace(
        VARIABLES, name="strange", variables=tuple(replace(v, name=f"x{v.name}") for v in VARIABLES.variables)
    )
    with pytest.raises(ModelError, match="cohort tiny has variables of strange, the model those of tiny"):
        PLAIN.apply(cohort_of([[(1, HR, 80.0)]], variables=strange))


def test_a_record_that_names_no_id_has_id_minus_1():
    assert PLAIN.apply(cohort_of([[(1, HR, 80.0)], [(1, HR, 70.0)]], record_id=[7, None])).record_id.tolist() == [7, -1]


def test_a_reading_that_repeats_the_one_before_in_everything_is_there_once():
    same, later, other, higher = (1, HR, 80.0), (2, HR, 80.0), (2, HR + 1, 0.0), (2, HR + 1, 1.0)
    readings = PLAIN.apply(cohort_of([[same, same, same], [], [same, later, other, higher, higher], [higher]]))
    assert readings.lengths.tolist() == [1, 0, 4, 1]
    assert readings.offsets.tolist() == [0, 1, 1, 5, 6]


def test_without_ranges_a_number_too_large_for_float32_is_still_no_reading():
    bare = replace(PLAIN, variables=VARIABLES.without_ranges())
    readings = bare.apply(cohort_of([[(1, HR, 1e15), (2, HR, 1.1e15), (3, HR, 1e38), (4, HR, 1e308)]]))
    assert readings.value.tolist() == [np.float32(1e15)]


def test_values_come_back_in_their_units():
    cohort = tiny_cohort()
    found = fitted(cohort)
    readings = found.apply(cohort)
    np.testing.assert_allclose(
        found.to_units(readings.variable, readings.value), PLAIN.apply(cohort).value, rtol=2e-6, atol=1e-5
    )


def test_a_preprocessor_survives_json():
    found = fitted(tiny_cohort())
    assert Preprocessor.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_take_gives_the_records_at_the_rows_in_their_order():
    readings = PLAIN.apply(tiny_cohort())
    rows = np.array([7, 0, 31])
    taken = readings.take(rows)
    assert len(taken) == 3
    for at, row in enumerate(rows):
        for name in ("time", "variable", "value"):
            part = getattr(readings, name)[readings.offsets[row] : readings.offsets[row + 1]]
            assert np.array_equal(getattr(taken, name)[taken.offsets[at] : taken.offsets[at + 1]], part)
    assert taken.record_id.tolist() == readings.record_id[rows].tolist()


def test_keep_leaves_the_marked_readings_with_their_records():
    readings = PLAIN.apply(cohort_of([[(1, HR, 1.0), (2, HR, 2.0)], [], [(3, HR, 3.0)]]))
    kept = readings.keep(np.array([False, True, True]))
    assert kept.offsets.tolist() == [0, 1, 1, 2]
    assert kept.value.tolist() == [2.0, 3.0]


def test_a_variable_that_hardly_varies_is_refused_before_a_training_by_name():
    """Its scale would be refused once it is read again."""
    lines = tiny_cohort().load()
    value = np.where(lines.variable == HR, 1e-15 * lines.value, lines.value)
    tiny = replace(tiny_cohort(), lines=replace(lines, value=value))
    with pytest.raises(TrainingError, match=r"HR varies by .* only, below 1e-12: give it a smaller unit, by a factor"):
        fitted(tiny, variables=replace(VARIABLES, variables=tuple(replace(v, low=None) for v in VARIABLES.variables)))
