"""For whom an interval holds, how stable a flag is, and what the bands are: against oracles of another kind."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from levyscreen.calibrate import conformal_quantile, fit_calibration, fit_global, flagged, flagged_excess
from levyscreen.estimators import rich
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.groups import Interval, Told, coverage_by_group, groups_of
from levyscreen.learn.reader import fit_reader
from levyscreen.records.hiding import hide
from levyscreen.schema import RECORDS
from levyscreen.study import beyond, ranking, run, tables
from levyscreen.study import stress as module_of_stress
from levyscreen.study.answers import answer
from levyscreen.study.results import Results
from levyscreen.study.stage import Stage
from tests.learn.tiny import tiny_cohort
from tests.study.tiny import tiny_stage

NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """The tiny cohort, whose screened records are long enough to be screened."""
    plain = tiny_stage(tmp_path_factory.mktemp("beyond"))
    other = replace(plain.networks.dataset, read=lambda path: described(tiny_cohort(80, 9)))
    cohort = tiny_cohort(100)  # enough patients to validate on for finite intervals
    return Stage(replace(plain.networks, dataset=other, cohort=cohort), plain.data)


def described(cohort):
    """Patients of all kinds, and some of whom nothing is known."""
    facts = {"age": [30.0, 50.0, 64.0, 70.0, 91.0, None], "gender": [0.0, 1.0, None], "icu_type": [1.0, 2.0, 3.0, 4.0]}
    records = cohort.records
    for name, values in facts.items():
        column = pa.array([values[i % len(values)] for i in range(len(cohort))], pa.float64())
        records = records.set_column(RECORDS.get_field_index(name), RECORDS.field(name), column)
    return replace(cohort, records=records)


@pytest.fixture(scope="module")
def results(stage, tmp_path_factory):
    kept = Results(tmp_path_factory.mktemp("results"), "beyond")
    beyond.beyond(stage, kept)
    return kept


@pytest.fixture(scope="module")
def found(results):
    return {one["name"]: one for one in results.read()}


def made_up(seed, records=300, each=20, shared=0.0, wrong=None):
    """Errors of a known scale, `shared` of their variance common to a record; those of variable `wrong` doubled."""
    rng = np.random.default_rng(seed)
    record = np.repeat(np.arange(records), each)
    variable, scale = rng.integers(0, len(NAMES), len(record)), rng.gamma(2.0, 0.2, len(record)) + 0.05
    noise = np.sqrt(shared) * rng.standard_normal(records)[record]
    noise = noise + np.sqrt(1 - shared) * rng.standard_normal(len(record))
    truth = rng.standard_normal(len(record))
    factor = 1.0 if wrong is None else np.where(variable == wrong, 2.0, 1.0)
    return Told(record, record, variable, truth, truth + factor * scale * noise, scale)


def covered(test, validation=None, by=None):
    interval = Interval.fit(made_up(1) if validation is None else validation, len(NAMES), 0.9)
    return coverage_by_group(test, interval, by or {"variable": [NAMES[v] for v in test.variable]})


def of_two_stays_each(cohort):
    """The same records, two and two of one subject."""
    subject = pa.array([100 + i // 2 for i in range(len(cohort))], pa.int64())
    place = RECORDS.get_field_index("subject_id")
    return replace(cohort, records=cohort.records.set_column(place, RECORDS.field(place), subject))


def test_of_stays_all_errors_and_folds_are_by_patient(tmp_path, monkeypatch):
    plain = tiny_stage(tmp_path)
    stage = Stage(replace(plain.networks, cohort=of_two_stays_each(plain.networks.cohort)), plain.data)
    asked = []
    monkeypatch.setattr(rich, "fit_reader", lambda *words: asked.append(words[2]) or fit_reader(*words))
    fitted = beyond.interval(stage)
    patients = stage.validated.described.column("subject_id").to_pylist()
    assert len(fitted.noise) == len(set(patients)) < len(patients)
    ranking._made(stage, "rich")
    assert set(asked[0].tolist()) == set(patients)
    monkeypatch.setattr(module_of_stress, "fit_global", lambda *words: asked.append(words[2]) or fit_global(*words))
    module_of_stress.stress(stage, Results(tmp_path / "results", "stress"))
    assert set(asked[1].tolist()) == set(patients)
    (found,) = [beyond._coverage(stage, stage.tested, fitted)]
    assert found["clusters"] == len(set(stage.tested.described.column("subject_id").to_pylist()))


def test_the_interval_is_affine_and_conformal_by_variable():
    told, other = made_up(1), made_up(2)
    calibration = fit_calibration(told.signal, "deviation", told.prediction, told.truth, told.variable, NAMES)
    ratio = np.abs(told.truth - told.prediction) / calibration.scale(told.signal, told.variable)
    quantile = np.array([conformal_quantile(ratio[told.variable == v], 0.9) for v in range(len(NAMES))])
    expected = quantile[other.variable] * calibration.scale(other.signal, other.variable)
    np.testing.assert_allclose(Interval.fit(told, len(NAMES), 0.9).half_width(other), expected)


def test_an_interval_that_is_right_holds_in_every_group():
    found = covered(made_up(2))
    assert found["coverage"] == pytest.approx(0.9, abs=0.015)
    assert found["groups_outside_both"] == 0


def test_the_one_group_with_twice_the_error_is_found():
    found = covered(made_up(2, wrong=2))
    outside = [row["group"] for row in found["groups"] if row["outside_both"]]
    assert outside == ["c"]
    (row,) = (row for row in found["groups"] if row["group"] == "c")
    assert row["coverage"] == pytest.approx(0.59, abs=0.03)  # P(|z| < 1.645 / 2)


def test_the_two_sides_are_told_apart():
    told = made_up(2)
    found = covered(replace(told, truth=told.truth - 0.5 * told.signal))
    assert found["below"] == pytest.approx(0.126, abs=0.02)  # P(z < -1.645 + 0.5)
    assert found["above"] == pytest.approx(0.016, abs=0.01)
    assert found["below"] + found["above"] + found["coverage"] == pytest.approx(1)


def test_both_errors_together_are_how_coverage_scatters_over_calibrations_and_cohorts():
    runs = [covered(made_up(2 * i, 60, 10, 0.5), made_up(2 * i + 1, 60, 10, 0.5)) for i in range(60)]
    scatter = np.std([found["coverage"] for found in runs])
    expected = np.sqrt(np.mean([found["coverage_se"] ** 2 + found["calibration_se"] ** 2 for found in runs]))
    assert expected == pytest.approx(scatter, rel=0.25)
    assert np.sqrt(np.mean([found["coverage_se"] ** 2 for found in runs])) < 0.85 * scatter


def test_a_variable_of_ten_validation_targets_is_known_to_be_covered_by_chance():
    told = made_up(1, 10, 1)
    one = replace(told, variable=np.zeros(10, dtype=np.int64))
    expected = np.sqrt(0.9 * 0.1 / 9)
    assert np.linalg.norm(Interval.fit(one, len(NAMES), 0.9).noise[:, 0]) == pytest.approx(expected)


def test_the_scale_of_an_interval_is_tested_by_patient():
    told = made_up(1)
    alone = Interval.fit(replace(told, patient=np.zeros_like(told.patient)), len(NAMES), 0.9)
    assert (alone.a < Interval.fit(told, len(NAMES), 0.9).a).all()  # shrunk towards a constant


def test_of_a_group_of_one_patient_no_error_is_known_and_it_is_not_found_to_be_off():
    test = made_up(2, each=200, wrong=2)
    found = covered(test, by={"who": ["one" if record == 0 else "others" for record in test.record]})
    one, others = found["groups"]
    assert (one["group"], one["n"], one["clusters"]) == ("one", 200, 1)
    assert one["coverage"] < 0.88
    assert [one[key] for key in ("coverage_se", "below_se", "above_se", "outside", "outside_both")] == 3 * [None] + [
        0,
        0,
    ]
    assert others["outside"] == 1


def test_a_group_under_a_hundred_targets_is_listed_and_not_counted():
    told = made_up(2)
    labels = np.where(np.arange(len(told.record)) < 99, "few", "many")
    found = covered(replace(told, truth=np.where(labels == "few", 99.0, told.truth)), by={"size": labels})
    assert [row["n"] for row in found["groups"]] == [99, len(labels) - 99]
    assert found["groups"][0]["outside"] == 1
    assert found["groups_counted"] == found["counted_of"]["size"] == 1
    assert found["groups_outside"] == found["outside_of"]["size"] == found["groups"][1]["outside"]


@pytest.mark.parametrize("name", ["coverage-test", "coverage-screened"])
def test_groups_of_one_kind_add_up_to_all_targets(found, name):
    rows = found[name]["groups"]
    for by in {row["by"] for row in rows}:
        of_kind = [row for row in rows if row["by"] == by]
        assert sum(row["n"] for row in of_kind) == found[name]["n"]
        mean = sum(row["n"] * row["coverage"] for row in of_kind) / found[name]["n"]
        assert mean == pytest.approx(found[name]["coverage"])


def test_patients_are_grouped_by_what_is_known_of_them_and_the_unknown_stand_apart(found):
    def kinds(name):
        return {by: {row["group"] for row in found[name]["groups"] if row["by"] == by} for by in ("age", "sex")}

    assert kinds("coverage-screened") == {
        "age": {"0-49", "50-64", "65-79", "80+", "unknown"},
        "sex": {"female", "male", "unknown"},
    }
    assert kinds("coverage-test") == {"age": set(), "sex": set()}  # nothing is known of anyone


def test_age_groups_begin_where_they_say():
    table = pa.table({"age": [49.9, 50.0, 64.0, 65.0, 80.0, None], "gender": [None] * 6, "icu_type": [None] * 6})
    told = Told(np.arange(6), np.arange(6), np.zeros(6, dtype=np.int64), *np.zeros((3, 6)))
    assert groups_of(told, np.arange(6.0), NAMES, table)["age"] == ["0-49", "50-64", "50-64", "65-79", "80+", "unknown"]


def test_coverage_is_of_the_targets_that_the_other_studies_ask(found, stage):
    estimator = ESTIMATORS["deviation"]({"levy": stage.networks.networks("levy")})
    for name, questions in (("coverage-test", stage.test), ("coverage-screened", stage.screening)):
        assert found[name]["n"] == len(answer(estimator, questions).error)


def test_folds_of_one_hiding_share_no_reading(stage):
    readings = stage.screened.readings
    times = sum(hide(readings, 0.3, 0, fold=fold).astype(int) for fold in range(3))
    assert times.max() == 1
    assert times[readings.may_be_target].mean() > 0.8
    assert not times[~readings.may_be_target].any()


def test_overlaps_are_as_counted_by_hand():
    sets = [np.array([1, 2, 3, 4]), np.array([3, 4, 5, 6]), np.array([4, 7, 8, 1])]
    assert beyond.overlap(sets[0], sets[1]) == 0.5
    assert beyond.mean_overlap(sets) == pytest.approx((2 + 2 + 1) / 4 / 3)


def test_the_flagged_are_those_whose_excess_is_told():
    signal, ids = np.array([1.0, 3.0, 3.0, 2.0, 0.0]), np.array([5, 9, 2, 1, 4])
    error = np.array([1.0, 2.0, 7.0, 1.0, 1.0])
    assert ids[flagged(signal, 0.2, ids)].tolist() == [2]
    assert flagged_excess(signal, error, 0.2, ids) == pytest.approx(7 / error.mean() - 1)


def test_one_hiding_is_scored_on_its_own_targets_and_folds_on_all(found, stage):
    one, several = (found[name] for name in beyond.PATIENTS)
    assert one["spearman_own"] == one["spearman_one_hiding"]
    assert several["spearman_own"] == several["spearman_all_folds"]
    assert several["spearman_one_hiding"] != one["spearman_one_hiding"]
    assert (one["folds"], several["folds"]) == (1, 3)
    assert len(one["flagged"]) == round(0.1 * one["patients"])
    assert set(one["flagged"]) <= set(stage.screened.readings.record_id.tolist())


def test_without_another_cohort_test_records_are_asked_and_no_flags_kept(stage, tmp_path):
    dataset = replace(stage.networks.dataset, screening=None)
    results = Results(tmp_path, "beyond")
    beyond.beyond(Stage(replace(stage.networks, dataset=dataset), stage.data), results)
    found = {one["name"]: one for one in results.read()}
    assert set(found) == {"coverage-test", *beyond.PATIENTS, "bands"}
    assert found["patients-one"]["patients"] == len(stage.training.split.test)
    assert "flagged" not in found["patients-one"]
    assert "every seed has other test records" in tables.markdown(results)


def test_what_is_done_is_not_run_again(results, stage, monkeypatch):
    before = results.read()
    monkeypatch.setattr(beyond, "ask", None)  # which a run would call
    beyond.beyond(stage, results)
    assert results.read() == before


def test_flags_over_trainings_are_compared_by_pairs_and_with_one_seed_said_to_be_none(results, found, tmp_path):
    assert "none yet, seed 3 is the only one" in tables.markdown(results)
    several = Results(tmp_path, "beyond")
    for seed, ids in enumerate(([1, 2, 3, 4], [3, 4, 5, 6], [4, 7, 8, 1])):
        several.write("physionet2012", seed, "patients-one", {"patients": 40, "flagged": ids})
    table = tables.long_table(several).set_index("figure")
    assert table.loc["flag_overlap_trainings", "mean"] == pytest.approx((2 + 2 + 1) / 4 / 3)
    assert table.loc["flag_overlap_trainings", "seeds"] == 3
    assert "all pairs of the seeds 0, 1, 2" in tables.markdown(several)


def test_a_table_has_a_row_for_every_group(results, found):
    text = tables.markdown(results)
    for row in found["coverage-screened"]["groups"]:
        line = next(x for x in text.splitlines() if x.startswith(f"| coverage-screened, {row['by']} {row['group']} |"))
        assert f"| {row['n']} | {row['coverage']:.3f} |" in line


def test_bands_are_the_estimators_intervals_in_the_variables_unit(found, stage):
    preprocessor, networks = stage.training.preprocessor, {"levy": stage.networks.networks("levy")}
    record = found["bands"]["drawn"][0]
    panel = record["panels"][0]
    index = preprocessor.variables.names.index(panel["variable"])
    (row,) = np.flatnonzero(stage.tested.readings.record_id == record["record_id"])
    readings = stage.tested.readings.take(np.array([row]))
    assert panel["reading"] == pytest.approx(
        preprocessor.to_units(readings.variable, readings.value)[readings.variable == index].tolist(), rel=1e-4
    )
    at = np.asarray(panel["time"], dtype=np.float32) / np.float32(48)
    batch = beyond._over_time(readings, index, at)
    for key in ("deviation", "dropout"):
        with torch.no_grad():
            estimate = ESTIMATORS[key](networks)(batch)
        validation = answer(ESTIMATORS[key](networks), stage.validation)
        calibration = fit_calibration(
            validation.uncertainty,
            "deviation",  # a name that is known; dropout has none
            validation.prediction,
            validation.truth,
            validation.variable,
            preprocessor.variables.names,
            levels=(0.9,),
            patient=stage.validated.patient(validation.record),
        )
        signal = estimate.uncertainty[0].numpy()
        half = calibration.half_width(calibration.scale(signal, np.full(len(at), index)), np.full(len(at), index), 0.9)
        lower, upper = np.array(panel[key]["lower"]), np.array(panel[key]["upper"])
        np.testing.assert_allclose((upper - lower) / 2, half * preprocessor.scale[index], rtol=0.02)
        np.testing.assert_allclose((upper + lower) / 2, panel["prediction"], rtol=1e-3)


def test_the_picture_is_the_same_bytes_and_has_a_panel_for_every_band(results, found):
    pytest.importorskip("matplotlib")
    paths = run.report("beyond", results.folder)
    assert [path.name for path in paths] == ["table.parquet", "table.md", "bands-physionet2012.svg"]
    first = paths[-1].read_bytes()
    assert run.report("beyond", results.folder)[-1].read_bytes() == first
    panels = sum(len(record["panels"]) for record in found["bands"]["drawn"])
    assert first.count(b'<g id="axes_') == panels == 9
