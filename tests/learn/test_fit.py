"""A training on a made-up cohort: it learns, it can be cut off anywhere, and nothing fitted sees a test record."""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.learn import checkpoint
from levyscreen.learn import fit as module
from levyscreen.learn.data import epoch_seed, prepare
from levyscreen.learn.fit import Watch, fit
from levyscreen.records.batches import Batcher
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, tiny_cohort, with_values

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data():
    return prepare(tiny_cohort(), PROTOCOL, TRAINING.seed)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A training that nothing interrupts."""
    return fit(data, MODEL, TRAINING, tmp_path_factory.mktemp("whole"), CPU)


def losses(progress):
    return [(e.epoch, e.train_loss, e.validation_loss, e.rate) for e in progress.history]


def assert_same_training(one, other):
    """Bit-identical weights, the same losses and rates; only the seconds may differ."""
    first, second = one.network.state_dict(), other.network.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert losses(one.progress) == losses(other.progress)
    assert one.progress.best_epoch == other.progress.best_epoch


class Cut(Exception):
    """The power goes off."""


def cut_in_step(epoch, step):
    def watch(at, steps, loss, seen=[0]):  # noqa: B006 (counts across calls)
        seen[0] += at == 1
        if (seen[0], at) == (epoch, step):
            raise Cut

    return Watch(step=watch)


def cut_after_epoch(epoch):
    def watch(progress):
        if progress.epoch == epoch:
            raise Cut

    return Watch(epoch=watch)


def test_the_losses_go_down_and_the_answers_beat_the_mean(data, tmp_path):
    fitted = fit(data, MODEL, replace(TRAINING, epochs=12, peak_rate=1e-2), tmp_path, CPU)
    history = fitted.progress.history
    assert len(history) == 12
    assert history[-1].train_loss < 0.7 * history[0].train_loss
    assert fitted.progress.best_loss < 0.8 * history[0].validation_loss
    assert all(e.seconds > 0 for e in history)


def test_a_training_is_decided_by_its_seed(data, whole, tmp_path):
    assert_same_training(fit(data, MODEL, TRAINING, tmp_path / "again", CPU), whole)
    other = fit(data, MODEL, replace(TRAINING, seed=4), tmp_path / "other", CPU)
    assert not torch.equal(other.network.decode.key.weight, whole.network.decode.key.weight)


def test_a_training_does_not_depend_on_the_random_state_it_finds(data, whole, tmp_path):
    torch.manual_seed(12345)
    torch.rand(7)
    assert_same_training(fit(data, MODEL, TRAINING, tmp_path, CPU), whole)


@pytest.mark.parametrize(
    "watch",
    [
        cut_in_step(1, 2),
        cut_in_step(3, 1),
        cut_in_step(5, 6),
        cut_after_epoch(1),
        cut_after_epoch(4),
        cut_after_epoch(5),
    ],
    ids=["before any state", "first step of 3", "last step", "after 1", "after 4", "after the last epoch"],
)
def test_a_resumed_training_ends_in_the_weights_of_an_uninterrupted_one(data, whole, tmp_path, watch):
    with pytest.raises(Cut):
        fit(data, MODEL, TRAINING, tmp_path, CPU, watch=watch)
    torch.manual_seed(99)  # another process has another random state
    assert_same_training(fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True), whole)


def test_a_training_cut_off_again_and_again_ends_in_the_same_weights(data, whole, tmp_path):
    for epoch in (1, 2, 3, 4):
        with pytest.raises(Cut):
            fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True, watch=cut_after_epoch(epoch))
    assert_same_training(fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True), whole)


@pytest.fixture(scope="module")
def sampled(data, tmp_path_factory):
    """A training on the sampled path."""
    return fit(data, MODEL, replace(TRAINING, path="sampled"), tmp_path_factory.mktemp("sampled"), CPU)


def test_on_the_sampled_path_a_training_learns_and_ends_in_other_weights(whole, sampled):
    first, *_, last = sampled.progress.history
    assert last.train_loss < first.train_loss
    assert not torch.equal(sampled.network.decode.key.weight, whole.network.decode.key.weight)


def test_on_the_sampled_path_a_resumed_training_ends_in_the_weights_of_an_uninterrupted_one(data, sampled, tmp_path):
    config = replace(TRAINING, path="sampled")
    with pytest.raises(Cut):
        fit(data, MODEL, config, tmp_path, CPU, watch=cut_in_step(3, 1))
    torch.manual_seed(99)
    assert_same_training(fit(data, MODEL, config, tmp_path, CPU, resume=True), sampled)


@pytest.mark.parametrize("decode", ["softmax", "tnp-d"])
def test_only_a_levy_layer_has_a_sampled_path(data, tmp_path, decode):
    with pytest.raises(TrainingError, match=f"only a levy layer .* sampled path, and this is {decode}"):
        fit(data, replace(MODEL, decode=decode), replace(TRAINING, path="sampled"), tmp_path, CPU)


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from levyscreen.learn.data import prepare
from levyscreen.learn.fit import Watch, fit
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort

torch.set_num_threads(int(sys.argv[2]))
seen = []
def step(at, steps, loss):
    seen.append(at)
    if len(seen) == 2 * steps + 3:
        os.kill(os.getpid(), signal.SIGKILL)
data = prepare(tiny_cohort(), PROTOCOL, TRAINING.seed)
fit(data, MODEL, TRAINING, Path(sys.argv[1]), torch.device("cpu"), watch=Watch(step=step))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_training_killed_in_its_third_epoch_resumes_to_the_same_weights(data, whole, tmp_path):
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(torch.get_num_threads())]
    run = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    resumed = fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True)
    assert_same_training(resumed, whole)


def test_a_state_cut_off_while_it_is_written_leaves_the_one_before(data, whole, tmp_path, monkeypatch):
    def half(path, content, write=Path.write_bytes):
        third = content.count(b"validation_loss") == 3
        write(path, content[:1000] if third else content)
        if third:
            raise Cut

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", half)
        with pytest.raises(Cut):
            fit(data, MODEL, TRAINING, tmp_path, CPU)
    assert_same_training(fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True), whole)


def test_without_resume_a_training_starts_afresh(data, whole, tmp_path):
    with pytest.raises(Cut):
        fit(data, MODEL, TRAINING, tmp_path, CPU, watch=cut_after_epoch(2))
    epochs = []
    again = fit(data, MODEL, TRAINING, tmp_path, CPU, watch=Watch(epoch=lambda progress: epochs.append(progress.epoch)))
    assert epochs == [1, 2, 3, 4, 5]
    assert_same_training(again, whole)


def test_the_state_file_stands_alone_in_its_folder(data, tmp_path):
    fit(data, MODEL, replace(TRAINING, epochs=2), tmp_path, CPU)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]


@pytest.fixture
def begun(data, tmp_path):
    """A folder with the state of a training that was cut off after its second epoch."""
    with pytest.raises(Cut):
        fit(data, MODEL, TRAINING, tmp_path, CPU, watch=cut_after_epoch(2))
    return tmp_path


OTHER = "belongs to a training with other records or settings"


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"epochs": 6}, {"peak_rate": 1e-4}, {"batch_records": 9}, {"patience": 3}, {"path": "sampled"}],
    ids=str,
)
def test_a_state_of_other_training_settings_is_refused(data, begun, change):
    with pytest.raises(TrainingError, match=OTHER):
        fit(data, MODEL, replace(TRAINING, **change), begun, CPU, resume=True)


@pytest.mark.parametrize("change", [{"dropout": 0.2}, {"tau": 0.6}, {"time_cells": 9}], ids=str)
def test_a_state_of_another_network_of_the_same_shape_is_refused(data, begun, change):
    with pytest.raises(TrainingError, match=OTHER):
        fit(data, replace(MODEL, **change), TRAINING, begun, CPU, resume=True)


@pytest.mark.parametrize("change", [{"width": 32}, {"decode": "softmax"}, {"head": "nll"}, {"blocks": 2}], ids=str)
def test_a_state_of_a_network_of_another_shape_is_refused(data, begun, change):
    with pytest.raises(TrainingError, match=OTHER):
        fit(data, replace(MODEL, **change), TRAINING, begun, CPU, resume=True)


def test_settings_that_came_later_leave_the_fingerprint_of_an_ordinary_training_as_it_was(data):
    model = {
        **{"variables": 4, "decode": "levy", "head": "point", "width": 16, "heads": 2, "blocks": 1},
        **{"feed_forward": 32, "dropout": 0.1, "frequencies": 16, "lowest_frequency": 0.5, "highest_frequency": 96.0},
        **{"time_cells": 8, "channel_cells": 4, "tau": 0.5},
    }
    training = {
        **{"seed": 3, "epochs": 5, "batch_records": 8, "peak_rate": 5e-3, "warm_up": 0.15, "weight_decay": 0.01},
        **{"clip": 1.0, "patience": 10, "beta": 0.5},
    }
    variables = [vars(v) | {"repair": v.repair and vars(v.repair)} for v in VARIABLES.variables]
    preprocessor = {
        "variables": {"name": "tiny", "version": 1, "horizon_hours": 48.0, "variables": variables},
        "protocol": {"name": "ours", "hide": 0.3, "min_readings": 10, "max_readings": None, "max_targets": None},
        "mean": list(data.preprocessor.mean),
        "scale": list(data.preprocessor.scale),
    }
    digest = hashlib.blake2b(json.dumps([model, training, preprocessor], sort_keys=True).encode(), digest_size=16)
    readings, split = data.readings, data.split
    arrays = (readings.record_id, readings.offsets, readings.value, split.train, split.validation, split.test)
    for array in arrays:
        digest.update(array.tobytes())
    assert module._fingerprint(data, MODEL, TRAINING) == digest.hexdigest()
    assert TrainingConfig.from_json(training) == TRAINING
    assert ModelConfig.from_json(model) == MODEL


def test_a_sampled_path_survives_json():
    config = replace(TRAINING, path="sampled")
    assert TrainingConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_a_state_of_other_records_is_refused(begun):
    other = prepare(tiny_cohort(seed=1), PROTOCOL, TRAINING.seed)
    with pytest.raises(TrainingError, match=OTHER):
        fit(other, MODEL, TRAINING, begun, CPU, resume=True)


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-100])


def header_broken(file):
    content = bytearray(file.read_bytes())
    content[20:40] = bytes(20)
    file.write_bytes(content)


def without_metadata(file):
    save_file({"network.x": torch.zeros(1)}, file)


def of_another_network(file):
    """Sound as a file, its digest right; but what it holds fits no network of this training."""
    with safe_open(file, framework="pt") as opened:
        text = opened.metadata()["state"]
    tensors = {"network.x": torch.zeros(1)}
    save_file(tensors, file, {"state": text, "digest": checkpoint._digest(text, tensors)})


def of_another_version(file):
    save_file({}, file, {"state": "{}", "digest": checkpoint._digest("{}", {})})


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        of_another_network,
        of_another_version,
        header_broken,
        without_metadata,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_text("not a state"),
    ],
    ids=["cut short", "other network", "other version", "header broken", "no metadata", "empty", "text"],
)
def test_a_damaged_state_is_refused_by_name(data, begun, damage):
    damage(begun / checkpoint.FILE)
    with pytest.raises(TrainingError, match=rf"{checkpoint.FILE} cannot be resumed from: .*train without --resume"):
        fit(data, MODEL, TRAINING, begun, CPU, resume=True)


def scripted(monkeypatch, validation_losses):
    """Lets the validation losses be these; returns the weights that each of them was of."""
    weights = []

    def validate(trainer):
        weights.append({name: t.clone() for name, t in trainer.network.state_dict().items()})
        return validation_losses[len(weights) - 1]

    monkeypatch.setattr(module._Trainer, "_validate", validate)
    return weights


def test_the_best_weights_are_kept_not_the_last(data, tmp_path, monkeypatch):
    weights = scripted(monkeypatch, [3.0, 1.0, 2.0, 1.0, 5.0])
    fitted = fit(data, MODEL, TRAINING, tmp_path, CPU)
    kept = fitted.network.state_dict()
    assert (fitted.progress.best_epoch, fitted.progress.best_loss) == (2, 1.0)
    assert len(weights) == 5
    assert all(torch.equal(kept[name], weights[1][name]) for name in kept)
    assert not torch.equal(kept["decode.key.weight"], weights[4]["decode.key.weight"])
    assert not fitted.network.training


def test_the_best_weights_survive_a_cut_after_them(data, tmp_path, monkeypatch):
    weights = scripted(monkeypatch, [3.0, 1.0, 2.0, 4.0, 5.0])
    with pytest.raises(Cut):
        fit(data, MODEL, TRAINING, tmp_path, CPU, watch=cut_after_epoch(3))
    kept = fit(data, MODEL, TRAINING, tmp_path, CPU, resume=True).network.state_dict()
    assert all(torch.equal(kept[name], weights[1][name]) for name in kept)


def test_the_kept_weights_have_the_best_loss_that_was_written_down(data, whole):
    trainer = module._Trainer(data, MODEL, TRAINING, CPU)
    trainer.network.load_state_dict(whole.network.state_dict())
    torch.manual_seed(0)  # a validation that drew random numbers would draw others than in the training
    assert trainer._validate() == whole.progress.best_loss == min(e.validation_loss for e in whole.progress.history)


def test_beta_nll_is_validated_by_the_negative_log_likelihood(data):
    trainer = module._Trainer(data, replace(MODEL, head="beta-nll"), TRAINING, CPU)
    part = data.part(data.split.validation)
    (batch,) = Batcher(part, data.targets(part, epoch_seed(TRAINING.seed, 0))).batches([np.arange(len(part))])
    with torch.no_grad():
        mean, scale = trainer.network.head.mean_and_scale(trainer.network.eval().features(batch))
    each = -torch.distributions.Normal(mean, scale).log_prob(batch.target)[batch.query_mask]
    assert trainer._validate() == pytest.approx(float(each.mean()) - 0.5 * math.log(2 * math.pi), rel=1e-5)


@pytest.mark.parametrize(
    ("validation_losses", "patience", "epochs"),
    [([3.0, 1.0, 2.0, 2.0, 0.0], 2, 4), ([1.0, 1.0, 1.0], 1, 2), ([5.0, 4.0, 3.0, 2.0, 1.0], 1, 5)],
    ids=["stops 2 after the best", "an equal loss is not better", "goes on while it improves"],
)
def test_a_training_stops_when_its_patience_is_spent(data, tmp_path, monkeypatch, validation_losses, patience, epochs):
    scripted(monkeypatch, validation_losses)
    fitted = fit(data, MODEL, replace(TRAINING, patience=patience), tmp_path, CPU)
    assert fitted.progress.epoch == epochs


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_the_state_before_it(data, tmp_path, monkeypatch):
    scripted(monkeypatch, [1.0, 2.0, float("nan")])
    with pytest.raises(TrainingError, match="not finite in epoch 3"):
        fit(data, MODEL, TRAINING, tmp_path, CPU)
    fresh = module._Trainer(data, MODEL, TRAINING, CPU)
    progress, _ = checkpoint.load(tmp_path, fresh.progress.fingerprint, fresh.network, fresh.optimiser, fresh.schedule)
    assert progress.epoch == 2


def test_the_watch_is_told_of_every_step_and_epoch(data, tmp_path):
    steps, epochs = [], []
    watch = Watch(lambda *at: steps.append(at), lambda progress: epochs.append(progress.epoch))
    fitted = fit(data, MODEL, replace(TRAINING, epochs=2), tmp_path, CPU, watch=watch)
    assert [(step, of) for step, of, _ in steps] == [(i, 6) for i in range(1, 7)] * 2  # 42 records, 8 a batch
    assert epochs == [1, 2]
    assert steps[5][2] == fitted.progress.history[0].train_loss


def test_statistics_are_those_of_the_training_records_alone(data):
    cohort = tiny_cohort()
    rest = np.concatenate([data.split.validation, data.split.test])
    changed = prepare(with_values(cohort, rest, lambda value: value * 0.97), PROTOCOL, TRAINING.seed)
    assert changed.preprocessor == data.preprocessor
    for name in ("train", "validation", "test"):
        assert np.array_equal(getattr(changed.split, name), getattr(data.split, name))
    one = with_values(cohort, data.split.train[:1], lambda value: value * 0.97)
    assert prepare(one, PROTOCOL, TRAINING.seed).preprocessor != data.preprocessor


def test_the_values_of_test_records_have_no_say_in_the_trained_weights(data, whole, tmp_path):
    changed = with_values(tiny_cohort(), data.split.test, lambda value: value * 0.97)
    fitted = fit(prepare(changed, PROTOCOL, TRAINING.seed), MODEL, TRAINING, tmp_path, CPU)
    assert_same_training(fitted, whole)


def test_hidden_targets_change_from_epoch_to_epoch_and_those_of_validation_do_not(data):
    part = data.part(data.split.train)
    first, second = (data.targets(part, epoch_seed(0, epoch)) for epoch in (1, 2))
    assert first.sum() == second.sum()
    assert not np.array_equal(first, second)
    seeds = [epoch_seed(seed, epoch) for seed in range(20) for epoch in range(50)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**62 for seed in seeds)


def test_no_reading_is_context_and_target_at_once(data):
    trainer = module._Trainer(data, MODEL, TRAINING, CPU)
    batcher = trainer.validation
    assert not set(batcher.context) & set(batcher.queries)
    assert len(batcher.context) + len(batcher.queries) == len(batcher.readings.time)


def test_too_few_records_are_refused_with_the_numbers():
    with pytest.raises(TrainingError, match="cohort tiny has 19 records with 10 readings or more; training needs 20"):
        prepare(tiny_cohort(19), PROTOCOL, 0)


def test_short_records_are_trained_on_by_nobody():
    data = prepare(tiny_cohort(), replace(PROTOCOL, min_readings=20), 0)
    chosen = np.concatenate([data.split.train, data.split.validation, data.split.test])
    assert data.readings.lengths[chosen].min() >= 20
    assert len(chosen) == (data.readings.lengths >= 20).sum()


def test_the_papers_protocol_caps_readings_and_targets():
    protocol = replace(PROTOCOL, name="paper", max_readings=16, max_targets=3)
    data = prepare(tiny_cohort(), protocol, 0)
    assert data.readings.lengths.max() == 16
    part = data.part(data.split.train)
    targets = np.add.reduceat(data.targets(part, 1), part.offsets[:-1])
    assert targets.tolist() == np.minimum(np.floor(0.3 * part.lengths + 1e-9), 3).tolist()
