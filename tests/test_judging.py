"""Nothing is calibrated on records a model was trained or tested on, and nothing is judged on any it ever saw."""

import importlib
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import stats

from levyscreen.calibrate import CalibrationWarning
from levyscreen.card import write_card
from levyscreen.config import Protocol
from levyscreen.continuum import ContinuumSettings, continuum
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.judging import calibrate, evaluate, held_out
from levyscreen.learn.data import epoch_seed, prepare
from levyscreen.model.network import build
from levyscreen.questions import joined
from levyscreen.records.hiding import hide, targets_of
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.screen import ScreenSettings, screen, select
from levyscreen.store import Model, load_model, save_model
from levyscreen.training import describe, train, train_member
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, cohort_of, tiny_cohort

pytestmark = pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
module = importlib.import_module("levyscreen.judging")  # where `ask` and `hide` are to be replaced
SPLIT = {"train": list(range(1, 41)), "validation": list(range(41, 51)), "test": list(range(51, 61))}


@pytest.fixture(scope="module")
def cohort():
    return tiny_cohort(60)


@pytest.fixture(scope="module")
def model(cohort, tmp_path_factory):
    """A random network with a split of its own; what it says is of no matter here."""
    preprocessor = Preprocessor.fit(cohort, np.arange(40), VARIABLES, PROTOCOL)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    about = {"settings": TRAINING.to_json(), "split": SPLIT, "cohort_fingerprint": cohort.fingerprint}
    save_model(folder, build(MODEL, 0), preprocessor, about)
    return load_model(folder)


@pytest.fixture
def spied(monkeypatch):
    """Record ids and hidden targets of everything that is asked of a model."""
    asked, ask = [], module.ask

    def spy(network, readings, hidden, device):
        asked.append((readings.record_id, readings.lengths, hidden))
        return ask(network, readings, hidden, device)

    monkeypatch.setattr(module, "ask", spy)
    return asked


def ids(asked):
    return {int(i) for record_id, _, _ in asked for i in record_id}


def other(cohort):
    """The same records as a cohort that no model was trained on as a whole."""
    return replace(cohort, fingerprint="another", name="another")


def test_calibration_uses_the_validation_records_of_the_training_cohort_alone(cohort, model, spied):
    calibrated = calibrate(model, cohort)
    assert ids(spied) == set(SPLIT["validation"])
    facts = calibrated.calibration.provenance
    assert (facts["records"], facts["folds"], facts["seed"], facts["cohort"]) == (10, 3, 3, "tiny")
    assert facts["targets"] == sum(hidden.sum() for _, _, hidden in spied[:3])  # the fourth is for the meta-model alone


def test_of_another_cohort_all_records_but_those_of_training_and_test_are_used(cohort, model, spied):
    more = other(tiny_cohort(75))
    calibrate(model, more)
    enough = np.flatnonzero(model.preprocessor.apply(more).lengths >= 10) + 1
    assert ids(spied) == set(enough.tolist()) - set(SPLIT["train"]) - set(SPLIT["test"])


def test_evaluation_uses_the_test_records_alone(cohort, model, spied):
    calibrated = calibrate(model, cohort)
    spied.clear()
    evaluation = evaluate(calibrated, cohort)
    assert ids(spied) == set(SPLIT["test"])
    assert evaluation.summary["records"] == 10


def test_of_another_cohort_nothing_is_judged_that_training_or_validation_saw(cohort, model):
    judged = set(held_out(model, other(tiny_cohort(75)), "test")[0].record_id.tolist())
    assert not judged & {*SPLIT["train"], *SPLIT["validation"]}
    assert set(SPLIT["test"]) <= judged


def test_a_repetition_is_no_reading_here_either(cohort, model):
    """A record of twelve times the same reading has one, as for a screening."""
    records = [[(1.0, 0, 70.0)] * 12, [(float(t), 0, 70.0 + t) for t in range(12)]]
    strange = replace(cohort_of(records, [901, 902]), fingerprint="repeats")
    assert held_out(model, strange, "test")[0].record_id.tolist() == [902]


def test_records_left_out_for_their_ids_are_counted(cohort, model):
    """They may be strangers: another hospital counts from 1 too."""
    with pytest.warns(CalibrationWarning, match=r"[0-9]+ records of another are left out: .* on the same patients"):
        held_out(model, other(tiny_cohort(75)), "test")


def of_subjects(cohort, subjects, ids=None):
    """The cohort with a subject for each record, and other record ids."""
    columns = {name: cohort.records.column(name) for name in cohort.records.column_names}
    columns["subject_id"] = pa.array(subjects, pa.int64())
    if ids is not None:
        columns["record_id"] = pa.array(ids, pa.int64())
    return replace(cohort, records=pa.table(columns, schema=cohort.records.schema))


def test_patients_are_known_again_by_subject_whatever_their_stays_are_called(cohort, tmp_path):
    """Sixty stays of thirty subjects; then twenty other stays, ten of them of subjects of before, and old stay ids."""
    first = of_subjects(cohort, [100 + i // 2 for i in range(60)])
    trained = train(first, tmp_path, PROTOCOL, MODEL, replace(TRAINING, epochs=1), torch.device("cpu"))
    subjects = {part: set(ids) for part, ids in trained.training["subjects"].items()}
    assert not subjects["train"] & subjects["test"]
    assert set.union(*subjects.values()) == set(range(100, 130))
    new = [*range(100, 110), *range(500, 509), None]
    later = of_subjects(other(tiny_cohort(20, 5)), new, [*range(1001, 1011), *range(1, 10), 2001])
    judged = set(held_out(trained, later, "test")[0].record_id.tolist())
    known = {1001 + i for i in range(10) if 100 + i in subjects["train"] | subjects["validation"]}
    enough = {int(i) for i, n in zip(ids_of(later), trained.preprocessor.apply(later).lengths, strict=True) if n >= 10}
    assert known & enough
    assert judged == enough - known


def test_records_that_had_no_subject_in_training_are_known_again_by_their_own_id(cohort, tmp_path):
    """Every second of sixty records has a subject, and then all of them do."""
    before = of_subjects(cohort, [100 + i if i % 2 else None for i in range(60)])
    train(before, tmp_path / "model", PROTOCOL, MODEL, replace(TRAINING, epochs=1), torch.device("cpu"))
    trained = load_model(tmp_path / "model")
    later = of_subjects(other(cohort), range(100, 160))
    judged, _ = held_out(trained, later, "test")
    seen = {*trained.records("train").tolist(), *trained.records("validation").tolist()}
    assert not set(judged.record_id.tolist()) & seen
    # Not so a stranger whose record is called as one of a subject's is.
    strangers = of_subjects(other(cohort), range(500, 560))
    assert {int(i) for i in held_out(trained, strangers, "test")[0].record_id if i % 2 == 0} & seen
    copy = calibrate(trained, replace(before, fingerprint="third"), folder=tmp_path / "copy")
    used = copy.calibrated_with(later)
    assert set(np.array(ids_of(later))[used]) == set(copy.fitted_on["records"])


def test_also_where_no_record_of_a_part_had_a_subject(cohort):
    data = prepare(of_subjects(cohort, [None] * 60), PROTOCOL, 0)
    named = {int(row): 100 + int(row) for row in data.split.train}
    before = of_subjects(cohort, [named.get(row) for row in range(60)])
    progress = SimpleNamespace(best_epoch=1, history=[])
    told = describe(before, data, TRAINING, SimpleNamespace(progress=progress))
    assert told["unnamed"]["train"] == []
    assert told["unnamed"]["validation"] == [i + 1 for i in sorted(data.split.validation.tolist())]
    assert "unnamed" not in describe(
        of_subjects(cohort, [None] * 60), data, TRAINING, SimpleNamespace(progress=progress)
    )


def test_a_card_counts_patients_and_a_reader_is_checked_on_patients_that_it_did_not_see(tmp_path, monkeypatch):
    """Sixty stays of thirty subjects."""
    cohort = of_subjects(tiny_cohort(60), [100 + i // 2 for i in range(60)])
    trained = train(cohort, tmp_path, PROTOCOL, MODEL, replace(TRAINING, epochs=1), torch.device("cpu"))
    folds, fit_reader = [], module.fit_reader

    def spy(answers, error, patient, *rest):
        folds.append((answers.record, patient))
        return fit_reader(answers, error, patient, *rest)

    monkeypatch.setattr(module, "fit_reader", spy)
    calibrated = calibrate(trained, cohort)
    (record, patient), _ = folds  # with and without the deviation
    subject = np.array(held_out(trained, cohort, "validation")[1].column("subject_id"))
    assert patient.tolist() == subject[record].tolist()
    write_card(calibrated)
    assert "split by subject" in (tmp_path / "README.md").read_text()
    tested = held_out(trained, cohort, "test")[1].column("subject_id")
    monkeypatch.setattr("levyscreen.groups.FEWEST_PATIENTS", 1)
    deciles = evaluate(calibrated, cohort).groups.query("by == 'evidence decile'")
    assert deciles["patients"].max() <= len(set(tested.to_pylist()))


def test_what_set_the_intervals_does_not_judge_them_also_where_it_is_a_part_of_that_cohort(cohort, model, tmp_path):
    strangers = of_subjects(other(tiny_cohort(30, 7)), range(500, 530), range(2001, 2031))
    calibrate(model, strangers, folder=tmp_path / "copy")
    calibrated = load_model(tmp_path / "copy")
    used = set(ids_of(strangers)) & set(calibrated.fitted_on["records"])
    assert len(used) > 20
    assert calibrated.fitted_on["subjects"] == [i - 1501 for i in calibrated.fitted_on["records"]]
    part = of_subjects(
        replace(tiny_cohort(30, 7), fingerprint="part"), range(500, 530), [*range(1, 16), *range(31, 46)]
    )
    with pytest.raises(CalibrationError, match="no record that model copy may be judged"):
        held_out(calibrated, part, "test")
    new = of_subjects(
        replace(tiny_cohort(30, 7), fingerprint="part"), [*range(600, 620), *range(520, 530)], range(3001, 3031)
    )
    with pytest.warns(CalibrationWarning, match="copy was trained, calibrated or judged on the same patients"):
        _, described = held_out(calibrated, new, "test")
    assert max(described.column("subject_id").to_pylist()) >= 600
    assert not set(described.column("subject_id").to_pylist()) & set(calibrated.fitted_on["subjects"])
    assert len(held_out(calibrated, strangers, "test")[0]) == len(used)  # the whole: said by the command


def ids_of(cohort):
    return cohort.records.column("record_id").to_pylist()


def test_the_folds_hide_disjoint_readings_and_nearly_all_of_them(cohort, model, spied):
    calibrate(model, cohort)
    readings, _ = held_out(model, cohort, "validation")
    total = np.sum([hidden for _, _, hidden in spied[:3]], axis=0)
    assert total.max() == 1
    assert not total[~readings.may_be_target].any()
    by_record = np.add.reduceat(total, readings.offsets[:-1])
    assert by_record.tolist() == (3 * (3 * targets_of(readings) // 10)).tolist()


def test_a_meta_model_also_sees_records_of_which_more_is_held_out(cohort, model, spied):
    calibrate(model, cohort)
    readings, _ = held_out(model, cohort, "validation")
    assert len(spied) == 4
    shares = np.add.reduceat(spied[3][2], readings.offsets[:-1]) / targets_of(readings)
    assert shares.min() >= 0.2  # 30 % of few readings, rounded down
    assert shares.max() > 0.6
    spied.clear()
    calibrate(model, cohort, signal="deviation")
    assert len(spied) == 3


def test_hidden_targets_follow_the_seed_the_model_was_trained_with(cohort, model, spied):
    calibrate(model, cohort)
    readings, _ = held_out(model, cohort, "validation")
    for fold, (_, _, hidden) in enumerate(spied[:3]):
        np.testing.assert_array_equal(hidden, hide(readings, 0.3, epoch_seed(3, 0), None, fold))


def test_records_with_too_few_readings_are_left_out(cohort, model):
    strict = replace(model, preprocessor=replace(model.preprocessor, protocol=replace(PROTOCOL, min_readings=20)))
    readings, _ = held_out(strict, cohort, "validation")
    assert readings.lengths.min() >= 20
    assert len(readings) < 10


def test_the_papers_limits_of_readings_and_targets_hold_in_judging_too(cohort, model, spied):
    paper = Protocol("paper", min_readings=10, max_readings=15, max_targets=2)
    limited = replace(model, preprocessor=replace(model.preprocessor, protocol=paper))
    calibrate(limited, cohort)
    for _, lengths, hidden in spied:
        assert lengths.max() == 15
        assert hidden.sum() == 2 * len(lengths)


def test_a_cohort_without_a_record_that_may_be_used_is_refused(cohort, model):
    everything = replace(model, training={**model.training, "split": {**SPLIT, "train": list(range(1, 51))}})
    with pytest.raises(
        CalibrationError, match="cohort another has no record that model tiny may be judged or calibrat"
    ):
        calibrate(everything, other(cohort))


def test_an_unknown_signal_is_refused_with_the_known_ones(cohort, model):
    with pytest.raises(
        UsageError, match="unknown signal 'doubt': use meta_model, deviation, disagreement, sigma, evidence"
    ):
        calibrate(model, cohort, signal="doubt")


@pytest.mark.parametrize("wrong", [{"levels": (0.9, 0.9)}, {"by": "ward"}, {"signal": "hunch"}])
def test_what_no_calibration_can_be_is_refused_before_anything_is_asked(cohort, model, spied, wrong):
    with pytest.raises(UsageError):
        calibrate(model, cohort, **wrong)
    assert not spied


def test_calibrations_are_written_into_the_folder_the_asked_one_first(cohort, model):
    calibrated = calibrate(model, cohort, signal="disagreement", levels=(0.5, 0.8))
    assert list(calibrated.calibrations) == ["disagreement", "sigma_hat"]
    again = load_model(model.folder)
    assert list(again.calibrations) == ["disagreement", "sigma_hat"]
    assert again.calibration.levels == (0.5, 0.8, 0.9)  # widths and reports are of 0.9
    assert {again.timeline_calibration(paid).signal for paid in (True, False)} == {"sigma_hat"}
    assert list(calibrate(model, cohort, signal="sigma").calibrations) == ["sigma_hat"]


def test_a_meta_model_ranks_a_screening_and_bounds_a_timeline(sample, shipped, tmp_path):
    folder = Path(shutil.copytree(shipped.folder, tmp_path / "model"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # of rare variables
        calibrate(load_model(folder), sample, signal="meta_model", by="nothing")
    meta = load_model(folder)
    assert list(meta.calibrations) == ["meta_model", "deviation", "meta_model_without_deviation"]
    subjects = select(sample, meta, ScreenSettings())
    assert len(subjects.maskings) == 3
    asked = [module.ask(meta.network, subjects.readings, masking, meta.device) for masking in subjects.maskings]
    answers = joined([a for found in asked for _, a in found])
    scale = meta.calibration.pooled.a * meta.calibration.reader(answers) + meta.calibration.pooled.b
    doubt = meta.calibration.expected_error(scale, answers.variable)
    rows = np.unique(answers.record)
    mean = np.bincount(answers.record, doubt)[rows] / np.bincount(answers.record)[rows]
    found = screen(sample, meta).scores.set_index("record_id")["uncertainty"]
    np.testing.assert_allclose(found.loc[subjects.readings.record_id[rows]].astype(float), mean, rtol=1e-5)
    widths = []
    for with_deviation, interval in ((True, "meta_model"), (False, "meta_model_without_deviation")):
        settings = ContinuumSettings(grid=4, with_deviation=with_deviation)
        written = continuum(sample, meta, tmp_path / interval, settings, records=found.index[-3:].tolist())
        table = pd.read_parquet(written.folder / "part-00000.parquet")
        assert table.attrs["interval"] == interval
        widths.append(table["upper"] - table["lower"])
    assert not np.allclose(*widths)


def test_an_evaluation_says_what_a_loop_over_the_answers_says(cohort, model):
    calibrated = calibrate(model, cohort, signal="deviation", by="nothing")
    evaluation = evaluate(calibrated, cohort)
    readings, _ = held_out(calibrated, cohort, "test")
    hidden = hide(readings, 0.3, epoch_seed(3, 0))
    (answers,) = [a for _, a in module.ask(calibrated.network, readings, hidden, torch.device("cpu"))]
    error = np.abs(answers.prediction - answers.truth).astype(np.float64)
    assert evaluation.summary["targets"] == len(error) == int(hidden.sum())
    assert evaluation.summary["mae"] == pytest.approx(error.mean(), rel=1e-6)
    assert evaluation.summary["mse"] == pytest.approx((error**2).mean(), rel=1e-6)
    ranking = evaluation.ranking.set_index("signal")
    for name, values in (
        ("deviation", answers.deviation),
        ("sigma", answers.sigma_hat),
        ("evidence", 1 / answers.evidence),
    ):
        assert ranking.loc[name, "spearman"] == pytest.approx(stats.spearmanr(values, error)[0], abs=1e-6)
    floor = "each variable's mean calibration error alone"
    constant = calibrated.calibration.mean_error[answers.variable]
    assert ranking.loc[floor, "spearman"] == pytest.approx(stats.spearmanr(constant, error)[0], abs=1e-6)
    assert ranking["ause"].between(-1, 2).all()
    distribution = evaluation.distribution
    assert distribution["signal"].tolist() == ["deviation", "deviation", "sigma_hat", "sigma_hat"]
    for name, (pooled, own) in distribution.groupby("signal")["crps"]:
        assert pooled == own, name  # by nothing, each variable's scale is the pooled one
    scale = calibrated.calibration.scale(answers.deviation, answers.variable).astype(np.float64)
    z = error / scale  # Gneiting and Raftery (2007), eq. 21
    crps = scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert distribution["crps"].iloc[0] == pytest.approx(crps.mean(), rel=1e-5)


def test_reliability_is_of_the_test_records_over_all_folds(cohort, model, spied):
    calibrated = calibrate(model, cohort, by="nothing")
    spied.clear()
    table = evaluate(calibrated, cohort).reliability
    assert ids(spied) == set(SPLIT["test"])
    assert len(spied) == 3
    assert table["n"].iloc[0] == sum(hidden.sum() for _, _, hidden in spied)


def test_the_error_stands_beside_interpolation_and_the_expected_error_beside_the_error(cohort, model):
    calibrated = calibrate(model, cohort, signal="deviation")
    evaluation = evaluate(calibrated, cohort)
    readings, _ = held_out(calibrated, cohort, "test")
    errors, expected = [], []
    for fold in range(3):
        hidden = hide(readings, 0.3, epoch_seed(3, 0), None, fold)
        (answers,) = [a for _, a in module.ask(calibrated.network, readings, hidden, torch.device("cpu"))]
        scale = calibrated.calibration.scale_of(answers)
        expected += calibrated.calibration.expected_error(scale, answers.variable).tolist()
        for i in range(len(answers.record)):
            row = slice(readings.offsets[answers.record[i]], readings.offsets[answers.record[i] + 1])
            seen = ~hidden[row] & (readings.variable[row] == answers.variable[i])
            own = sorted(zip(readings.time[row][seen].tolist(), readings.value[row][seen].tolist(), strict=True))
            before = [x for x in own if x[0] <= answers.time[i]]
            after = [x for x in own if x[0] >= answers.time[i]]
            last = before[-1][1] if before else 0.0
            between = last if before else after[0][1] if after else 0.0
            if before and after:
                (t0, x0), (t1, x1) = before[-1], after[0]
                between = x0 + (x1 - x0) * (answers.time[i] - t0 + 1e-4) / (t1 - t0 + 2e-4)
            truth = float(answers.truth[i])
            errors.append((answers.variable[i], *(abs(v - truth) for v in (answers.prediction[i], between, last))))
    variable, *each = map(np.array, zip(*errors, strict=True))
    table = evaluation.baselines.set_index("variable")
    for name, of in (("overall", variable >= 0), ("HR", variable == 0)):
        got = table.loc[name, ["mae", "interpolation", "last_value"]].to_numpy(float)
        np.testing.assert_allclose(got, [values[of].mean() for values in each], rtol=1e-4)
        assert table.loc[name, "ahead"] == pytest.approx((each[1] - each[0])[of].mean(), abs=1e-5)
    order = np.argsort(expected, kind="stable")
    for row, part in zip(evaluation.deciles.itertuples(), np.array_split(order, 10), strict=True):
        assert row.n == len(part)
        assert row.mae == pytest.approx(each[0][part].mean(), rel=1e-4)
        assert row.ratio == pytest.approx(each[0][part].mean() / np.array(expected)[part].mean(), rel=1e-4)


# Training, end to end -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(cohort, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "own"
    return train(cohort, folder, PROTOCOL, MODEL, replace(TRAINING, epochs=2), torch.device("cpu"))


def test_training_leaves_a_calibrated_folder_that_remembers_its_records(trained, cohort):
    again = load_model(trained.folder)
    assert list(again.calibrations) == ["meta_model", "deviation", "meta_model_without_deviation"]
    parts = [again.records(part) for part in ("train", "validation", "test")]
    known = np.flatnonzero(again.preprocessor.apply(cohort).lengths >= 10) + 1
    assert sorted(np.concatenate(parts)) == known.tolist()
    assert len(again.training["history"]) == 2
    assert again.training["cohort_fingerprint"] == cohort.fingerprint


def test_a_softmax_control_is_trained_without_a_calibration(cohort, tmp_path):
    config, settings = replace(TRAINING, epochs=1), replace(MODEL, decode="softmax")
    control = train(cohort, tmp_path / "control", PROTOCOL, settings, config, torch.device("cpu"))
    assert control.calibration is None
    assert not (tmp_path / "control" / "calibration.json").exists()


def test_a_member_of_an_ensemble_has_other_weights_and_the_same_shapes(trained, cohort):
    path = train_member(cohort, trained, 9, torch.device("cpu"))
    assert path == trained.folder / "member-9.safetensors"
    from levyscreen.store import load_members

    (member,) = load_members(trained)
    assert not torch.equal(member.decode.key.weight, trained.network.decode.key.weight)


def test_a_member_cannot_be_trained_on_another_cohort(trained, cohort):
    from levyscreen.errors import TrainingError

    with pytest.raises(TrainingError, match="own was trained on another cohort than another"):
        train_member(other(cohort), trained, 1, torch.device("cpu"))


def test_a_model_is_a_plain_object(model):
    assert isinstance(model, Model)
    assert isinstance(model.folder, Path)
