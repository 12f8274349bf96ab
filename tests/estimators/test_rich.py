"""The richer calibrator: what it learns, and that it judges no validation record by trees that saw its targets."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from levyscreen.errors import UsageError
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.estimators.rich import FOLDS, SCALE_OF_MEAN_ERROR, Asked, fit_trees

VARIABLES = 3
COLUMNS = 5


def spread(columns):
    """Wider with the first signal, and for one variable the other way round."""
    return 0.3 * np.exp(np.where(columns[:, -1] == 1, -0.7, 0.7) * columns[:, 0])


def made_up(n, seed, spread=spread):
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.standard_normal((n, COLUMNS - 1)), rng.integers(0, VARIABLES, n)])
    error = np.abs(spread(columns) * rng.standard_normal(n))
    return Asked(columns, error, rng.integers(0, 40, n))


def test_the_trees_recover_how_the_noise_depends_on_signal_and_variable():
    trees = fit_trees(made_up(12_000, 0), VARIABLES, seed=0)
    columns = made_up(2_000, 1).columns
    got = np.log(SCALE_OF_MEAN_ERROR * trees.whole.predict(columns))
    expected = np.log(spread(columns))
    assert np.abs(got - expected).mean() < 0.12  # of a range from -3.5 to 1
    assert np.corrcoef(got, expected)[0, 1] > 0.97


def test_where_errors_depend_on_nothing_only_the_unseen_records_show_it():
    """In sample the trees find an order in mere chance; out of fold they must not."""
    asked = made_up(1_500, 0, lambda columns: np.ones(len(columns)))
    trees = fit_trees(asked, VARIABLES, seed=0)
    fold = np.array([trees.fold[record] for record in asked.record.tolist()])
    unseen = np.empty(len(fold))
    for k, model in enumerate(trees.without):
        unseen[fold == k] = model.predict(asked.columns[fold == k])
    assert np.corrcoef(trees.whole.predict(asked.columns), asked.error)[0, 1] > 0.5
    assert abs(np.corrcoef(unseen, asked.error)[0, 1]) < 0.08


def test_records_are_shared_out_to_folds_of_about_one_size():
    trees = fit_trees(made_up(2_000, 0), VARIABLES, seed=3)
    sizes = np.bincount(list(trees.fold.values()))
    assert sizes.tolist() == [8] * FOLDS
    assert len(trees.without) == FOLDS


def fit(networks, train, validation, seed=1):
    estimator = ESTIMATORS["rich"](networks)
    estimator.fit(train, validation, seed)
    return estimator


def real(estimate, batch):
    return estimate.uncertainty[batch.query_mask]


def test_a_validation_record_is_answered_by_trees_that_never_saw_its_targets(networks, train, validation):
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


def test_records_that_were_not_fitted_on_are_answered_by_all_the_trees(networks, train, validation, asked):
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


@pytest.mark.parametrize("extreme", [-1e300, 1e300, np.inf, -np.inf, np.nan])
def test_extreme_signals_get_what_the_furthest_known_ones_get(extreme):
    asked = made_up(2_000, 0)
    model = fit_trees(asked, VARIABLES, seed=0).whole
    for column in range(COLUMNS - 1):
        columns = asked.columns[:200].copy()
        columns[:, column] = extreme
        got = model.predict(columns)
        assert np.isfinite(got).all()
        assert (got > 0).all()
        if not np.isnan(extreme):
            columns[:, column] = np.copysign(1e3, extreme)
            np.testing.assert_array_equal(got, model.predict(columns))


def test_a_variable_without_validation_targets_and_errors_of_zero_get_a_finite_scale():
    asked = made_up(2_000, 0)
    known = asked.columns[:, -1] != 2
    error = np.where(asked.columns[:, -1] == 1, 0, asked.error)
    trees = fit_trees(Asked(asked.columns[known], error[known], asked.record[known]), VARIABLES, seed=0)
    got = trees.whole.predict(asked.columns)
    assert np.isfinite(got).all()
    assert (got > 0).all()
    assert np.median(got[asked.columns[:, -1] == 1]) < 0.1


def test_one_record_alone_is_refused():
    asked = made_up(100, 0)
    with pytest.raises(UsageError, match="validation needs two records"):
        fit_trees(replace(asked, record=np.zeros(100, np.int64)), VARIABLES, seed=0)


def test_without_scikit_learn_it_says_what_to_install(networks, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UsageError, match=r"rich needs scikit-learn: pip install 'levyscreen\[study\]'"):
        ESTIMATORS["rich"](networks)
