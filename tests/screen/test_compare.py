"""The rivals are what they are called, run on the screened batches, and judged by patient as the single pass is."""

import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from levyscreen.compare import Comparison
from levyscreen.errors import UsageError
from levyscreen.estimators.dropout import dropout_spread, spread
from levyscreen.estimators.ensemble import DeepEnsemble
from levyscreen.model.dropout import drawing_from
from levyscreen.model.network import build
from levyscreen.records.batches import Batcher
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.screen import ScreenSettings, screen
from levyscreen.store import Model
from tests.learn.tiny import MODEL, PROTOCOL, VARIABLES, tiny_cohort

SINGLE = ["deviation (what ranks)", "deviation", "disagreement", "sigma_hat", "1/evidence"]


@pytest.fixture(scope="module")
def cohort():
    return tiny_cohort(30)


@pytest.fixture(scope="module")
def model(cohort):
    preprocessor = Preprocessor.fit(cohort, np.arange(len(cohort)), VARIABLES, PROTOCOL)
    return Model("tiny", Path("tiny"), "", build(MODEL, 0).eval(), preprocessor, {}, {})


@pytest.fixture(scope="module")
def batch(cohort, model):
    readings = model.preprocessor.apply(cohort)
    return Batcher(readings, hide(readings, 0.3, 0)).batch(np.arange(8))


@pytest.fixture(scope="module")
def members():
    return [build(MODEL, seed).eval() for seed in (1, 2, 3, 4)]


def test_mean_and_spread_of_a_stream_are_those_of_the_whole():
    draws = torch.randn(20, 3, 5, generator=torch.Generator().manual_seed(0)) + 1000
    mean, deviation = spread(iter(draws))
    torch.testing.assert_close(mean, draws.double().mean(0).float())
    torch.testing.assert_close(deviation, draws.double().std(0).float())


def test_the_spread_of_one_prediction_is_zero():
    assert spread(iter([torch.tensor([1.0, 2.0])]))[1].tolist() == [0.0, 0.0]


def test_dropout_spread_is_the_standard_deviation_of_passes_with_dropout_on(model, batch):
    torch.manual_seed(5)
    got = dropout_spread(model.network, batch, 20)
    torch.manual_seed(5)
    with torch.no_grad(), drawing_from(None):
        passes = torch.stack([model.network(batch) for _ in range(20)])
    torch.testing.assert_close(got, passes.std(0), rtol=1e-4, atol=1e-6)
    assert (got[batch.query_mask] > 0).all()


@torch.no_grad()
def test_dropout_is_on_in_the_passes_alone_even_if_one_fails(model, batch):
    still = model.network(batch)

    def interrupted():
        with drawing_from(torch.Generator()):
            assert not torch.equal(model.network(batch), still)
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        interrupted()
    assert torch.equal(model.network(batch), still)
    assert not any(module.training for module in model.network.modules())


@torch.no_grad()
def test_a_thread_with_dropout_on_leaves_others_reading_the_same_network_alone(model, batch):
    still = model.network(batch)
    with ThreadPoolExecutor(1) as other, drawing_from(torch.Generator()):
        assert torch.equal(other.submit(torch.no_grad()(model.network), batch).result(), still)
        assert not torch.equal(model.network(batch), still)


def test_the_ensemble_is_the_mean_and_standard_deviation_of_its_members(model, batch, members):
    got = DeepEnsemble({"ensemble": [model.network, *members]})(batch)
    with torch.no_grad():
        each = torch.stack([network(batch) for network in (model.network, *members)])
    torch.testing.assert_close(got.prediction, each.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got.uncertainty, each.std(0), rtol=1e-4, atol=1e-6)


def compared(cohort, model, members, tokens=8_192):
    comparison = Comparison(model.network, members, len(cohort))
    screening = screen(
        cohort, model, ScreenSettings(tokens=tokens, folds=1), beside=comparison.beside, with_queries=True
    )
    return screening, comparison, comparison.table(screening.scores, screening.timing["compute_s"])


def test_without_all_members_the_table_is_the_single_pass_and_dropout(cohort, model, members):
    table = compared(cohort, model, members[:3])[2]
    assert table["signal"].tolist() == [*SINGLE, "MC dropout spread"]
    assert table["passes"].tolist() == [1] * 5 + [20]


def test_with_four_members_the_ensemble_of_five_is_a_row_too(cohort, model, members):
    screening, comparison, table = compared(cohort, model, members)
    assert list(table.columns) == [
        "signal", "passes", "wall_clock_s", "ratio", "spearman", "flagged_decile_excess", "cohort_mae",
    ]  # fmt: skip
    assert table["signal"].tolist() == [*SINGLE, "MC dropout spread", "deep ensemble spread"]
    assert table["passes"].tolist() == [1] * 5 + [20, 5]
    single = screening.timing["compute_s"]
    assert table["wall_clock_s"].tolist() == [single] * 5 + [comparison.dropout.seconds, comparison.ensemble.seconds]
    np.testing.assert_allclose(table["ratio"], table["wall_clock_s"] / single)
    assert np.isfinite(table.drop(columns="signal").to_numpy(float)).all()


def test_each_signal_is_judged_by_patient_against_the_error_of_its_own_predictions(cohort, model, members):
    """The slow twin: one patient at a time, ranks by scipy."""
    screening, _, table = compared(cohort, model, members, tokens=40)
    table = table.set_index("signal")
    scored = screening.scores[screening.scores["status"] == "scored"]
    for name, values in {
        **{n: scored[n] for n in SINGLE[1:4]},
        SINGLE[0]: scored["uncertainty"],
        "1/evidence": 1 / scored["evidence"],
    }.items():
        assert table.loc[name, "spearman"] == pytest.approx(stats.spearmanr(values, scored["mae"])[0], abs=1e-6)
        worst = scored["mae"].to_numpy()[np.argsort(-values.to_numpy())[: round(0.1 * len(scored))]]
        expected = worst.mean() / scored["mae"].mean() - 1
        assert table.loc[name, "flagged_decile_excess"] == pytest.approx(expected, rel=1e-5)
    readings = model.preprocessor.apply(cohort)
    hidden = hide(readings, 0.3, 0)
    spreads, errors = [], []
    for row in np.flatnonzero(readings.lengths >= 10):
        alone = Batcher(readings, hidden).batch(np.array([row]))
        with torch.no_grad():
            each = np.stack([network(alone)[0].numpy() for network in (model.network, *members)]).astype(np.float64)
        spreads.append(each.std(axis=0, ddof=1).mean())
        errors.append(np.abs(each.mean(axis=0) - alone.target[0].numpy()).mean())
    ensemble = table.loc["deep ensemble spread"]
    assert ensemble["spearman"] == pytest.approx(stats.spearmanr(spreads, errors)[0], abs=1e-6)
    assert ensemble["cohort_mae"] == pytest.approx(np.mean(errors), rel=1e-5)
    assert table.loc["MC dropout spread", "cohort_mae"] == pytest.approx(scored["mae"].mean(), rel=1e-5)


def test_where_nothing_could_be_scored_there_is_nothing_to_compare_on(cohort, model, members):
    comparison = Comparison(model.network, members[:1], len(cohort))
    nothing = screen(cohort, model).scores.assign(status="too_few")
    with pytest.raises(UsageError, match="no record could be scored, so there is nothing to compare on: leave out"):
        comparison.table(nothing, 1.0)


def test_what_runs_beside_changes_no_score_and_is_not_in_its_wall_clock(cohort, model, members):
    alone = screen(cohort, model).scores
    slept = []

    def slow(answered):
        import time

        time.sleep(1.0)
        slept.append(answered)

    beside = screen(cohort, model, beside=slow)
    assert alone.equals(beside.scores)
    assert slept
    assert beside.timing["compute_s"] < len(slept)


def test_what_comes_before_the_first_dropout_and_the_rest_are_the_whole_encoder(model, batch):
    network = model.network
    with torch.no_grad():
        embedded = network.embed.token(batch.time, batch.variable, batch.value)
        parts = network.encode.finish(embedded, network.encode.begin(embedded, batch.mask), batch.mask)
        x = embedded
        for block in network.encode.blocks:
            x = block(x, batch.mask[:, None, None, :])
        torch.testing.assert_close(parts, network.encode.norm(x))


def test_a_generator_decides_the_passes_and_leaves_torchs_own_alone(model, batch):
    def run(seed):
        return dropout_spread(model.network, batch, 3, torch.Generator().manual_seed(seed))

    state = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        first, other = run(1), run(2)
        again = list(pool.map(run, [1, 2, 1, 2, 1, 2, 1, 2]))
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first, other)
    assert all(torch.equal(got, (first, other)[i % 2]) for i, got in enumerate(again))


@pytest.mark.parametrize("threads", [1, 2])
def test_windows_and_threads_change_no_score_and_no_comparison(cohort, model, members, threads, monkeypatch):
    whole, _, table = compared(cohort, model, members, tokens=40)
    monkeypatch.setattr(importlib.import_module("levyscreen.screen"), "WINDOW_RECORDS", 7)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    parts, _, other = compared(cohort, model, members, tokens=40)
    exact = ["record_id", "status", "n_readings", "n_hidden", "flagged", "reason", "worst_variables"]
    pd.testing.assert_frame_equal(whole.scores[exact], parts.scores[exact])
    pd.testing.assert_frame_equal(whole.scores, parts.scores, rtol=1e-5)
    pd.testing.assert_frame_equal(whole.queries, parts.queries, rtol=1e-4, atol=1e-6)
    single = table["passes"] < 20  # dropout draws by batch, and the batches are others
    columns = ["spearman", "flagged_decile_excess", "cohort_mae"]
    pd.testing.assert_frame_equal(table.loc[single, columns], other.loc[single, columns], rtol=1e-4)


def test_threads_change_nothing_of_the_rivals_either_dropout_included(cohort, model, members, monkeypatch):
    tables = []
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        tables.append(compared(cohort, model, members, tokens=40)[2])
    columns = ["signal", "passes", "spearman", "flagged_decile_excess", "cohort_mae"]
    pd.testing.assert_frame_equal(tables[0][columns], tables[1][columns], rtol=1e-6)
