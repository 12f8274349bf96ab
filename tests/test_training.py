"""From a cohort to a model folder: what a second call takes over, and what a member of an ensemble shares."""

from dataclasses import replace

import pytest
import torch

from levyscreen.calibrate import CalibrationWarning
from levyscreen.errors import TrainingError
from levyscreen.learn.fit import Watch
from levyscreen.store import load_members
from levyscreen.training import train, train_member
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort

CPU = torch.device("cpu")
# A tiny cohort has too few targets of some variable for a 95 % interval.
pytestmark = pytest.mark.filterwarnings(f"ignore::{CalibrationWarning.__module__}.{CalibrationWarning.__name__}")


class Trained(Exception):
    pass


def refuse(progress):
    raise Trained


@pytest.mark.parametrize("decode", ["levy", "softmax", "tnp-d"])
def test_resume_takes_a_finished_model_as_it_is_and_trains_one_of_other_settings(tmp_path, decode):
    cohort, model = tiny_cohort(), replace(MODEL, decode=decode)
    config = replace(TRAINING, epochs=1)
    first = train(cohort, tmp_path, PROTOCOL, model, config, CPU)
    (tmp_path / "training" / "training.safetensors").unlink()
    again = train(cohort, tmp_path, PROTOCOL, model, config, CPU, resume=True, watch=Watch(epoch=refuse))
    assert again.digest == first.digest
    with pytest.raises(Trained):
        train(cohort, tmp_path, PROTOCOL, model, replace(config, seed=9), CPU, resume=True, watch=Watch(epoch=refuse))


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
