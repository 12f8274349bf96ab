"""A training can be cut off anywhere: it goes on to the same weights, and another state than its own is refused."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.learn import checkpoint
from levyscreen.learn import fit as module
from levyscreen.learn.data import prepare
from levyscreen.learn.fit import Watch, fit
from tests.learn.cuts import Cut, assert_same_training, cut_after_epoch, cut_in_step
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, tiny_cohort

CPU = torch.device("cpu")


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
        "constant": ["MechVent"],
    }
    digest = hashlib.blake2b(json.dumps([model, training, preprocessor], sort_keys=True).encode(), digest_size=16)
    readings, split = data.readings, data.split
    read = (readings.record_id, readings.offsets, readings.time, readings.variable, readings.value)
    for array in (*read, split.train, split.validation, split.test):
        digest.update(array.tobytes())
    assert module._fingerprint(data, MODEL, TRAINING) == digest.hexdigest()
    assert TrainingConfig.from_json(training) == TRAINING
    assert ModelConfig.from_json(model) == MODEL


def test_a_state_of_other_records_is_refused(begun):
    other = prepare(tiny_cohort(seed=1), PROTOCOL, TRAINING.seed)
    with pytest.raises(TrainingError, match=OTHER):
        fit(other, MODEL, TRAINING, begun, CPU, resume=True)


def test_a_state_of_the_same_values_at_other_times_is_refused(data, begun):
    moved = replace(data, readings=replace(data.readings, time=data.readings.time / 2))
    with pytest.raises(TrainingError, match=OTHER):
        fit(moved, MODEL, TRAINING, begun, CPU, resume=True)


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
    with pytest.raises(TrainingError, match=rf"{checkpoint.FILE} cannot be resumed from: .*delete it to begin anew"):
        fit(data, MODEL, TRAINING, begun, CPU, resume=True)
