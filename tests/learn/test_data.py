"""What a training is given: nothing fitted sees a test record, and each epoch asks anew."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.errors import TrainingError
from levyscreen.learn import fit as module
from levyscreen.learn.data import epoch_seed, prepare
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort, with_values


def test_statistics_are_those_of_the_training_records_alone(data):
    cohort = tiny_cohort()
    rest = np.concatenate([data.split.validation, data.split.test])
    changed = prepare(with_values(cohort, rest, lambda value: value * 0.97), PROTOCOL, TRAINING.seed)
    assert changed.preprocessor == data.preprocessor
    for name in ("train", "validation", "test"):
        assert np.array_equal(getattr(changed.split, name), getattr(data.split, name))
    one = with_values(cohort, data.split.train[:1], lambda value: value * 0.97)
    assert prepare(one, PROTOCOL, TRAINING.seed).preprocessor != data.preprocessor


def test_hidden_targets_change_from_epoch_to_epoch_and_those_of_validation_do_not(data):
    part = data.part(data.split.train)
    first, second = (data.targets(part, epoch_seed(0, epoch)) for epoch in (1, 2))
    assert first.sum() == second.sum()
    assert not np.array_equal(first, second)
    seeds = [epoch_seed(seed, epoch) for seed in range(20) for epoch in range(50)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**62 for seed in seeds)


def test_no_reading_is_context_and_target_at_once(data):
    trainer = module._Trainer(data, MODEL, TRAINING, torch.device("cpu"))
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
