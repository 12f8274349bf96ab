"""A training on a made-up cohort: it learns, is decided by its seed, and keeps its best weights."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.config import TrainingConfig
from levyscreen.errors import TrainingError
from levyscreen.learn import checkpoint
from levyscreen.learn import fit as module
from levyscreen.learn.data import epoch_seed, prepare
from levyscreen.learn.fit import Watch, fit
from levyscreen.records.batches import Batcher
from tests.learn.cuts import Cut, assert_same_training, cut_after_epoch, cut_in_step
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort, with_values

CPU = torch.device("cpu")


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


def test_a_sampled_path_has_no_products_in_bfloat16(data, tmp_path):
    with pytest.raises(TrainingError, match="sampled path is trained in float32 alone"):
        fit(data, MODEL, replace(TRAINING, path="sampled", products="bfloat16"), tmp_path, CPU)


def test_a_protocol_that_hides_nothing_of_some_records_is_refused():
    with pytest.raises(TrainingError, match=r"a share of 0.05 hides none of 10 readings: hide more"):
        prepare(tiny_cohort(), replace(PROTOCOL, hide=0.05), 0)
    assert prepare(tiny_cohort(), replace(PROTOCOL, hide=0.1), 0)


@pytest.mark.parametrize("decode", ["levy", "softmax", "tnp-d"])
@pytest.mark.parametrize("head", ["point", "nll"])
def test_products_in_bfloat16_learn_the_same_to_their_rounding(data, tmp_path, decode, head):
    model = replace(MODEL, decode=decode, head=head)
    exact = fit(data, model, TRAINING, tmp_path / "exact", CPU)
    rounded = fit(data, model, replace(TRAINING, products="bfloat16"), tmp_path / "rounded", CPU)
    assert {t.dtype for t in rounded.network.state_dict().values()} == {torch.float32}
    assert not torch.equal(rounded.network.head.layers[0].weight, exact.network.head.layers[0].weight)
    for epoch, expected in zip(rounded.progress.history, exact.progress.history, strict=True):
        assert epoch.train_loss == pytest.approx(expected.train_loss, rel=0.02, abs=0.01)
        assert epoch.validation_loss == pytest.approx(expected.validation_loss, rel=0.02, abs=0.01)


def test_validation_is_in_float32_whatever_the_products_of_the_training_are(data):
    rounded = module._Trainer(data, MODEL, replace(TRAINING, products="bfloat16"), CPU)
    assert rounded._validate() == module._Trainer(data, MODEL, TRAINING, CPU)._validate()


@pytest.mark.parametrize("setting", [{"path": "sampled"}, {"products": "bfloat16"}])
def test_a_setting_that_came_later_survives_json(setting):
    config = replace(TRAINING, **setting)
    assert TrainingConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


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


def test_the_values_of_test_records_have_no_say_in_the_trained_weights(data, whole, tmp_path):
    changed = with_values(tiny_cohort(), data.split.test, lambda value: value * 0.97)
    fitted = fit(prepare(changed, PROTOCOL, TRAINING.seed), MODEL, TRAINING, tmp_path, CPU)
    assert_same_training(fitted, whole)
