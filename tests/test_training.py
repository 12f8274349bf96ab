"""From a cohort to a model folder: what a second call takes over, and what a member of an ensemble shares."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.calibrate import CalibrationWarning
from levyscreen.config import PROTOCOLS, ModelConfig, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.learn.data import epoch_seed, prepare
from levyscreen.learn.fit import Watch, fit
from levyscreen.learn.teacher import Teacher
from levyscreen.records.batches import Batcher
from levyscreen.store import load_members, manifest
from levyscreen.training import train, train_member, train_student
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort

CPU = torch.device("cpu")
# A tiny cohort has too few targets of some variable for a 95 % interval.
pytestmark = pytest.mark.filterwarnings(f"ignore::{CalibrationWarning.__module__}.{CalibrationWarning.__name__}")


def refuse(progress):
    raise AssertionError("trained")


@pytest.mark.parametrize("decode", ["levy", "softmax", "cosine", "tnp-d"])
def test_resume_takes_a_finished_model_as_it_is_and_leaves_one_of_other_settings_alone(tmp_path, decode):
    cohort, model = tiny_cohort(), replace(MODEL, decode=decode)
    config = replace(TRAINING, epochs=1)
    first = train(cohort, tmp_path, PROTOCOL, model, config, CPU)
    (tmp_path / "training" / "training.safetensors").unlink()
    again = train(cohort, tmp_path, PROTOCOL, model, config, CPU, resume=True, watch=Watch(epoch=refuse))
    assert again.digest == first.digest
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for other in (replace(config, seed=9), replace(config, epochs=2)):
        with pytest.raises(TrainingError, match=r"holds a model of other records or settings.*name another folder"):
            train(cohort, tmp_path, PROTOCOL, model, other, CPU, resume=True, watch=Watch(epoch=refuse))
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    if decode == "levy":  # as where the machine stopped before it was calibrated
        (tmp_path / "calibration.json").unlink()
        manifest.seal(tmp_path)
        train(cohort, tmp_path, PROTOCOL, model, config, CPU, resume=True, watch=Watch(epoch=refuse))
        assert (tmp_path / "calibration.json").read_bytes() == before[tmp_path / "calibration.json"]


def test_what_is_left_out_is_as_the_command_has_it(tmp_path):
    cohort = tiny_cohort()
    model = train(cohort, str(tmp_path), config=TrainingConfig(epochs=1))
    assert model.network.config == ModelConfig(variables=len(cohort.variables))
    assert model.preprocessor.protocol == PROTOCOLS["ours"]
    assert inspect.signature(train).parameters["config"].default == TrainingConfig()


def test_a_member_shares_the_split_and_has_other_weights(tmp_path):
    cohort = tiny_cohort()
    model = train(cohort, tmp_path, PROTOCOL, MODEL, replace(TRAINING, epochs=1), CPU)
    train_member(cohort, model, TRAINING.seed + 1, CPU)
    (member,) = load_members(model)
    assert not torch.equal(member.decode.query.weight, model.network.decode.query.weight)
    path = train_member(cohort, model, TRAINING.seed + 1, CPU, resume=True, watch=Watch(epoch=refuse))
    assert path.name == f"member-{TRAINING.seed + 1}.safetensors"


def test_a_member_of_another_cohort_is_refused(tmp_path):
    model = train(tiny_cohort(), tmp_path, PROTOCOL, MODEL, replace(TRAINING, epochs=1), CPU)
    with pytest.raises(TrainingError, match="an ensemble shares its records"):
        train_member(replace(tiny_cohort(seed=1), fingerprint="of another"), model, 1, CPU)


class TestStudent:
    """A student learns the mean of an ensemble, on the ensemble's own records."""

    @pytest.fixture
    def cohort(self):
        return tiny_cohort()

    @pytest.fixture
    def teacher(self, cohort, tmp_path):
        model = train(cohort, tmp_path / "teacher", PROTOCOL, MODEL, replace(TRAINING, epochs=1), CPU)
        train_member(cohort, model, TRAINING.seed + 1, CPU)
        return model

    def test_its_first_loss_is_the_squared_distance_from_the_first_network_to_the_mean(self, cohort, teacher, tmp_path):
        networks = [teacher.network, *load_members(teacher)]
        data = prepare(cohort, PROTOCOL, TRAINING.seed)
        part, seed = data.part(data.split.train), epoch_seed(TRAINING.seed, 1)
        batcher = Batcher(part, data.targets(part, seed))
        batch = batcher.batch(np.flatnonzero(batcher.context_lengths > 0))
        with torch.no_grad():
            first, second = (network(batch)[batch.query_mask] for network in networks)
        expected = float(((first - second) / 2).square().mean())

        ensemble = Teacher(networks)
        still = replace(TRAINING, epochs=1, peak_rate=1e-12, teacher=ensemble.digest)
        no_dropout = replace(MODEL, dropout=0.0)
        found = fit(data, no_dropout, still, tmp_path / "state", CPU, teacher=ensemble)
        assert found.progress.history[0].train_loss == pytest.approx(expected, rel=1e-4)

    def test_it_comes_nearer_to_the_mean_than_where_it_started(self, cohort, teacher, tmp_path):
        student = train_student(cohort, teacher, tmp_path / "student", 8)
        losses = [epoch["train_loss"] for epoch in student.training["history"]]
        assert losses[-1] < losses[0]
        assert student.training["split"] == teacher.training["split"]
        assert student.calibration is not None

    def test_one_cut_off_goes_on_and_one_that_is_done_is_taken(self, cohort, teacher, tmp_path):
        class Cut(Exception):
            pass

        def cut(progress):
            if progress.epoch == 2:
                raise Cut

        whole = train_student(cohort, teacher, tmp_path / "whole", 4)
        with pytest.raises(Cut):
            train_student(cohort, teacher, tmp_path / "cut", 4, watch=Watch(epoch=cut))
        assert train_student(cohort, teacher, tmp_path / "cut", 4, resume=True).digest == whole.digest
        again = train_student(cohort, teacher, tmp_path / "cut", 4, resume=True, watch=Watch(epoch=refuse))
        assert again.digest == whole.digest

    def test_of_another_teacher_it_is_another_training(self, cohort, teacher, tmp_path):
        train_student(cohort, teacher, tmp_path / "student", 1)
        train_member(cohort, teacher, TRAINING.seed + 2, CPU)
        with pytest.raises(TrainingError, match="other records or settings"):
            train_student(cohort, teacher, tmp_path / "student", 1, resume=True)

    def test_what_has_no_ensemble_or_is_of_another_cohort_teaches_nothing(self, cohort, teacher, tmp_path):
        alone = train(cohort, tmp_path / "alone", PROTOCOL, MODEL, replace(TRAINING, epochs=1), CPU)
        with pytest.raises(TrainingError, match="no ensemble to learn from: train it with --members 5"):
            train_student(cohort, alone, tmp_path / "student", 1)
        with pytest.raises(TrainingError, match="was trained on another cohort"):
            train_student(replace(tiny_cohort(seed=1), fingerprint="other"), teacher, tmp_path / "student", 1)

    def test_means_alone_teach_no_scale(self, cohort, tmp_path):
        config = replace(TRAINING, epochs=1)
        teacher = train(cohort, tmp_path / "nll", PROTOCOL, replace(MODEL, head="nll", decode="softmax"), config, CPU)
        train_member(cohort, teacher, TRAINING.seed + 1, CPU)
        with pytest.raises(TrainingError, match="nll has a nll head; only point heads teach a student"):
            train_student(cohort, teacher, tmp_path / "student", 1)

    def test_a_students_member_is_refused_for_it_would_be_taught_by_nobody(self, cohort, teacher, tmp_path):
        student = train_student(cohort, teacher, tmp_path / "student", 1)
        with pytest.raises(TrainingError, match="its settings name another one, or none"):
            train_member(cohort, student, TRAINING.seed + 1, CPU)
