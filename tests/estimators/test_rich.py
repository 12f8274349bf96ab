"""The richer calibrator: what `calibrate --rich` fits, and no validation record judged by what saw its targets."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.calibrate.reader import SIGNALS, columns
from levyscreen.errors import UsageError
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.learn.reader import fit_reader
from levyscreen.questions import answer, joined


def fit(networks, train, validation, seed=1):
    estimator = ESTIMATORS["rich"](networks)
    estimator.fit(train, validation, seed)
    return estimator


def real(estimate, batch):
    return estimate.uncertainty[batch.query_mask]


def test_a_validation_record_is_answered_by_a_reader_that_never_saw_its_targets(networks, train, validation):
    """Other targets for one record change what is said of others, never what is said of it."""
    before = fit(networks, train, validation)
    batch = validation[0]
    target = batch.target.clone()
    target[2] += 5
    after = fit(networks, train, [replace(batch, target=target), *validation[1:]])
    said, says = (estimator.on_validation(batch).uncertainty for estimator in (before, after))
    mask = batch.query_mask
    assert torch.equal(said[2][mask[2]], says[2][mask[2]])
    assert not torch.equal(said[mask], says[mask])
    assert not torch.equal(before(batch).uncertainty[2][mask[2]], after(batch).uncertainty[2][mask[2]])


def test_out_of_fold_answers_are_others_than_in_sample_ones_and_of_the_same_prediction(networks, train, validation):
    estimator = fit(networks, train, validation)
    for batch in validation:
        unseen, seen = estimator.on_validation(batch), estimator(batch)
        assert torch.equal(unseen.prediction, seen.prediction)
        assert not torch.equal(real(unseen, batch), real(seen, batch))


def test_records_that_were_not_fitted_on_are_answered_by_the_reader_of_all(networks, train, validation, asked):
    estimator = fit(networks, train, validation)
    assert torch.equal(estimator.on_validation(asked).uncertainty, estimator(asked).uncertainty)


def test_out_of_fold_answers_are_the_same_for_the_same_seed(networks, train, validation):
    one, other, third = (fit(networks, train, validation, seed) for seed in (1, 1, 2))
    said = [real(estimator.on_validation(validation[0]), validation[0]) for estimator in (one, other, third)]
    assert torch.equal(said[0], said[1])
    assert not torch.equal(said[0], said[2])


def test_training_records_are_not_fitted_on(networks, train, validation, asked):
    assert torch.equal(
        fit(networks, [], validation)(asked).uncertainty, fit(networks, train, validation)(asked).uncertainty
    )


def test_the_other_estimators_answer_validation_as_they_answer_anything(networks, train, validation):
    for name in ("deviation", "variable-error", "variance-head"):
        estimator = ESTIMATORS[name](networks)
        estimator.fit(train, validation)
        got, expected = estimator.on_validation(validation[0]), estimator(validation[0])
        assert torch.equal(got.uncertainty, expected.uncertainty)


def test_it_says_what_the_reader_of_these_targets_says_of_each_query(networks, train, validation, asked):
    network = networks["levy"][0]
    answers = joined([answer(network, batch) for batch in validation])
    error = answers.truth - answers.prediction
    reader, apart = fit_reader(answers, error, answers.record, network.config.variables, 1)
    estimator = fit(networks, train, validation)
    np.testing.assert_array_equal(real(estimator(asked), asked), reader(answer(network, asked)))
    out_of_fold = torch.cat([real(estimator.on_validation(batch), batch) for batch in validation])
    np.testing.assert_array_equal(out_of_fold, apart)


def test_of_several_hidings_all_are_fitted_on_and_the_first_is_answered(networks, train, validation):
    network = networks["levy"][0]
    second = [replace(batch, query_time=1 - batch.query_time, target=batch.target + 0.1) for batch in validation]
    answers = joined([answer(network, batch) for batch in (*validation, *second)])
    _, apart = fit_reader(answers, answers.truth - answers.prediction, answers.record, network.config.variables, 1)
    estimator = fit(networks, train, [*validation, *second])
    out_of_fold = torch.cat([real(estimator.on_validation(batch), batch) for batch in validation])
    np.testing.assert_array_equal(out_of_fold, apart[: len(out_of_fold)])


def test_one_record_alone_is_refused(networks, train, validation):
    alone = type(validation[0])(**{name: tensor[:1] for name, tensor in vars(validation[0]).items()})
    with pytest.raises(UsageError, match="fitted on two patients or more"):
        fit(networks, train, [alone])


def test_a_reader_without_signals_reads_variable_and_prediction_alone(networks, train, validation, asked):
    """Of the same predictions with other signals it says the same; the reader of signals does not."""
    (network,) = networks["levy"]
    found = answer(network, asked)
    blind, seeing = (ESTIMATORS[name](networks) for name in ("no-signal-rich", "rich"))
    for estimator in (blind, seeing):
        estimator.fit(train, validation, 1)
    other = replace(found, deviation=found.deviation * 3, evidence=found.evidence / 3)
    with pytest.MonkeyPatch.context() as patch:
        before = [real(estimator(asked), asked) for estimator in (blind, seeing)]
        patch.setattr("levyscreen.estimators.rich.answer", lambda network, batch: other)
        after = [real(estimator(asked), asked) for estimator in (blind, seeing)]
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
    assert before[0].std() > 0


@pytest.mark.parametrize("control", ["softmax", "cosine"])
def test_the_reader_of_a_control_reads_its_three_read_outs(networks, asked, control):
    answers = ESTIMATORS[f"{control}-rich"](networks).answers(asked)
    spread, entropy, partition = (
        real(ESTIMATORS[f"{control}-{name}"](networks)(asked), asked).numpy()
        for name in ("dispersion", "entropy", "partition")
    )
    said = columns(answers, SIGNALS)
    expected = np.stack([np.log(spread), np.log(entropy), -partition / 8, answers.prediction], axis=-1)
    np.testing.assert_allclose(said, expected, rtol=1e-4, atol=1e-5)
