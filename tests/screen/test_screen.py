"""Every record gets a row, a rank that means what it says and a reason; and the same ones however they are computed."""

import importlib
import tarfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from levyscreen import schema
from levyscreen.calibrate.affine import Affine
from levyscreen.errors import CalibrationError, UsageError
from levyscreen.questions import answer, joined
from levyscreen.reasons import Explainer
from levyscreen.records.batches import Batcher
from levyscreen.records.cache import read_cohort
from levyscreen.records.cohort import COLUMNS, NumericLines
from levyscreen.records.hiding import hide
from levyscreen.screen import ScreenSettings, _rank, screen, select
from tests.conftest import SAMPLE
from tests.screen.conftest import by_record

module = importlib.import_module("levyscreen.screen")  # where `ask` is to be replaced
SIGNALS = ["deviation", "disagreement", "evidence", "sigma_hat"]
MEANS = ["uncertainty", "deviation", "disagreement", "evidence", "sigma_hat", "interval_width", "coverage", "mae"]


def flagged(frame):
    return set(frame.loc[frame["flagged"], "record_id"])


def assert_same_scores(one, other):
    """The same flagged set, and scores equal to 1e-5 relative; ranks may swap where scores tie that closely."""
    one, other = (frame.sort_values("record_id", ignore_index=True) for frame in (one, other))
    same = ["record_id", "status", "n_readings", "n_context", "n_hidden", "flagged", "decile"]
    pd.testing.assert_frame_equal(one[same], other[same])
    np.testing.assert_allclose(one[MEANS].to_numpy(float), other[MEANS].to_numpy(float), rtol=1e-5)


# Rows, status, ranks ------------------------------------------------------------------------------------------------


def test_every_record_of_the_cohort_has_exactly_one_row_with_the_columns_of_the_schema(sample, scores):
    assert sorted(scores["record_id"]) == sorted(sample.records.column("record_id").to_pylist())
    assert list(scores.columns) == schema.SCORES.names
    table = pa.Table.from_pandas(scores, schema.SCORES, preserve_index=False)
    assert table.schema.types == schema.SCORES.types


def test_records_that_cannot_be_ranked_stand_first_and_claim_nothing(scores):
    assert scores["status"].tolist() == ["empty", "too_few"] + ["scored"] * 29
    first = scores.head(2)
    assert first[[*MEANS, "trust_rank", "decile", "reason", "worst_variables"]].isna().all(axis=None)
    assert not first["flagged"].any()
    assert first["n_hidden"].tolist() == [0, 0]
    assert first["n_readings"].iloc[0] == 0
    assert 0 < first["n_readings"].iloc[1] < 20


def test_ranks_run_from_the_most_uncertain_and_deciles_and_flags_follow_them(scored):
    assert scored["trust_rank"].tolist() == list(range(1, 30))
    assert scored["uncertainty"].is_monotonic_decreasing
    assert scored["decile"].value_counts(sort=False).tolist() == [3, 3, 3, 3, 2, 3, 3, 3, 3, 3]
    assert scored["decile"].is_monotonic_increasing
    assert ((scored["decile"] == 1) == scored["flagged"]).all()
    assert scored["flagged"].tolist() == [True] * 3 + [False] * 26
    assert set(scored.loc[scored["flagged"], "reason"]) <= set(schema.REASONS)
    assert scored.loc[~scored["flagged"], "reason"].isna().all()


def test_a_variable_without_an_interval_is_left_out_of_a_records_mean_width(sample, shipped):
    calibration, variables = shipped.calibration, shipped.preprocessor.variables.names
    quantiles = np.array(calibration.quantiles_by_variable)
    quantiles[:, variables.index("Temp")] = np.inf
    rare = {calibration.signal: replace(calibration, quantiles_by_variable=quantiles)}
    screening = screen(sample, replace(shipped, calibrations=rare), with_queries=True)
    asked = screening.queries
    scale = asked["variable"].map(dict(zip(variables, shipped.preprocessor.scale, strict=True))).astype(float)
    width = ((asked["upper"] - asked["lower"]) / scale)[asked["variable"] != "Temp"]
    expected = width.groupby(asked["record_id"]).mean()
    scores = screening.scores.dropna(subset="trust_rank").set_index("record_id")
    np.testing.assert_allclose(scores["interval_width"].astype(float), expected.loc[scores.index], rtol=1e-4)


def test_three_tenths_of_the_readings_that_vary_are_held_out_in_each_of_three_maskings(scored, sample, shipped):
    readings = shipped.preprocessor.apply(sample)
    names = np.array(shipped.preprocessor.variables.names)
    assert shipped.preprocessor.constant == ("MechVent",)
    varies = names[readings.variable] != "MechVent"
    record = np.repeat(readings.record_id, readings.lengths)
    targets = [int(varies[record == each].sum()) for each in scored["record_id"]]
    assert scored["n_hidden"].tolist() == [3 * (3 * n // 10) for n in targets]
    assert scored["n_context"].tolist() == (scored["n_readings"] - [3 * n // 10 for n in targets]).tolist()


def test_no_reading_is_held_out_twice_and_none_that_never_varies(screening):
    queries = screening.queries
    assert "MechVent" not in set(queries["variable"])
    assert not queries.duplicated(["record_id", "variable", "time_hours", "truth", "prediction"]).any()


def test_the_worst_tenth_of_readings_is_flagged(screening):
    queries = screening.queries
    assert queries["flagged"].sum() == round(0.1 * len(queries))
    assert queries.loc[queries["flagged"], "uncertainty"].min() >= queries.loc[~queries["flagged"], "uncertainty"].max()
    error = (queries["truth"] - queries["prediction"]).abs() / queries.groupby("variable", observed=True)[
        "truth"
    ].transform("std")
    assert error[queries["flagged"]].mean() > 1.5 * error[~queries["flagged"]].mean()


def test_a_single_masking_is_a_third_of_three(sample, shipped, screening):
    one = screen(sample, shipped, ScreenSettings(folds=1), with_queries=True)
    assert one.timing["passes"] == 1
    assert 3 * len(one.queries) == len(screening.queries)
    key = ["record_id", "variable", "time_hours", "truth"]
    assert len(one.queries.merge(screening.queries, on=key)) >= len(one.queries)


def ranked(uncertainty, ids, flag=0.1):
    frame = pd.DataFrame({"record_id": pd.array(ids, dtype="Int64"), "status": "scored", "uncertainty": uncertainty})
    return _rank(frame, flag, Explainer(len(ids), ("HR",)))


@pytest.fixture
def _no_reasons(monkeypatch):
    monkeypatch.setattr(Explainer, "explain", lambda self, scored, flagged: (None, None))


@pytest.mark.usefixtures("_no_reasons")
def test_ties_are_ranked_by_record_id():
    frame = ranked([0.5, 0.7, 0.5, 0.5], [30, 40, 10, 20])
    assert frame["record_id"].tolist() == [40, 10, 20, 30]
    assert frame["trust_rank"].tolist() == [1, 2, 3, 4]


@pytest.mark.usefixtures("_no_reasons")
@pytest.mark.parametrize(("flag", "n", "expected"), [(0.1, 98, 10), (0.05, 98, 5), (0.1, 3, 1), (1.0, 7, 7)])
def test_a_fraction_of_the_scored_records_is_flagged_and_one_at_least(flag, n, expected):
    assert ranked(np.linspace(1, 2, n), np.arange(n), flag)["flagged"].sum() == expected


def test_a_cohort_with_nothing_to_score_is_all_rows_and_no_rank(sample, shipped):
    two = [0, 1]
    few = replace(sample, records=sample.records.take(two), offsets=np.array([0, 3, 3]), lines=sample.lines.read(0, 3))
    frame = screen(few, shipped).scores
    assert frame["status"].tolist() == ["empty", "too_few"]
    assert frame["trust_rank"].isna().all()


def test_an_unreadable_file_is_a_row_that_heads_the_list(shipped, tmp_path):
    for name in ("142832.txt", "142866.txt", "142872.txt"):
        (tmp_path / name).write_bytes((SAMPLE / name).read_bytes())
    (tmp_path / "999999.txt").write_bytes(b"\xff\xfe\x00\x01 not text")
    frame = screen(read_cohort(tmp_path, cache=False), shipped).scores
    assert frame["status"].tolist() == ["unreadable", "scored", "scored", "scored"]
    assert frame["trust_rank"].tolist()[1:] == [1, 2, 3]
    assert not frame["flagged"].iloc[0]


# What the numbers mean ----------------------------------------------------------------------------------------------


def test_a_records_uncertainty_is_the_mean_of_its_questions(screening, scored):
    of_questions = by_record(screening.queries["uncertainty"].to_numpy(), screening.queries)
    found = scored.set_index("record_id")["uncertainty"]
    np.testing.assert_allclose(of_questions.loc[found.index], found, rtol=1e-5)


def test_uncertainty_is_the_error_to_be_expected(whole_sample, shipped):
    """Of these patients nothing was fitted."""
    screening = screen(whole_sample, shipped, with_queries=True)
    queries = screening.queries
    assert screening.signal == "calibrated"
    scale = np.asarray(shipped.preprocessor.scale)[queries["variable"].cat.codes]
    error = np.abs(queries["truth"].to_numpy(np.float64) - queries["prediction"].to_numpy(np.float64)) / scale
    assert error.mean() / queries["uncertainty"].mean() == pytest.approx(1, abs=0.06)
    by_decile = pd.qcut(queries["uncertainty"], 10, labels=False)
    ratio = pd.Series(error).groupby(by_decile).mean() / queries["uncertainty"].groupby(by_decile).mean()
    assert ratio.between(0.8, 1.2).all(), ratio.tolist()


def test_the_signals_are_means_over_the_records_queries_and_mae_is_in_standard_deviations(screening, scored, shipped):
    queries = screening.queries
    assert len(queries) == scored["n_hidden"].sum()
    for name in ("deviation", "disagreement", "evidence", "sigma_hat"):
        expected = by_record(queries[name].to_numpy(np.float64), queries)
        np.testing.assert_allclose(scored[name], expected[scored["record_id"]], rtol=1e-5)
    scale = np.asarray(shipped.preprocessor.scale)[queries["variable"].cat.codes]
    error = np.abs(queries["truth"].to_numpy(np.float64) - queries["prediction"].to_numpy(np.float64)) / scale
    np.testing.assert_allclose(scored["mae"], by_record(error, queries)[scored["record_id"]], rtol=1e-4)


def test_hidden_truths_are_the_records_own_readings(screening, sample):
    queries = screening.queries
    row = sample.records.column("record_id").to_pylist().index(142872)
    lines = slice(sample.offsets[row], sample.offsets[row + 1])
    names = np.array(sample.variables.names)
    known = [
        (names[v], t, x)
        for v, t, x in zip(sample.variable[lines], sample.time_hours[lines], sample.value[lines], strict=True)
    ]
    own = queries[queries["record_id"] == 142872]
    for q in own.itertuples(index=False):
        assert any(
            name == q.variable and abs(t - q.time_hours) < 1e-3 and x == pytest.approx(q.truth, rel=1e-5, abs=1e-4)
            for name, t, x in known
        )


def test_width_is_of_the_ninety_per_cent_interval_around_the_prediction(screening, scored, shipped):
    queries = screening.queries
    scale = np.asarray(shipped.preprocessor.scale)[queries["variable"].cat.codes]
    width = (queries["upper"].to_numpy(np.float64) - queries["lower"].to_numpy(np.float64)) / scale
    np.testing.assert_allclose(scored["interval_width"], by_record(width, queries)[scored["record_id"]], rtol=1e-4)
    within = (queries["lower"] <= queries["truth"]) & (queries["truth"] <= queries["upper"])
    assert screening.coverage == pytest.approx(within.mean(), abs=1e-4)
    np.testing.assert_allclose(scored["coverage"], by_record(within, queries)[scored["record_id"]], atol=1e-2)
    assert within.mean() == pytest.approx(0.9, abs=0.03)  # calibrated on other records of the same hospitals


def test_one_record_alone_gives_the_scores_it_has_in_the_batch(sample, shipped, scored):
    """The slow twin: no padding, no neighbours, no sums over batches."""
    readings = shipped.preprocessor.apply(sample)
    for row in (5, 14, 27):
        alone = readings.take(np.array([row]))
        maskings = [hide(alone, 0.3, 0, fold=fold) for fold in range(3)]
        answers = joined(
            [answer(shipped.network, Batcher(alone, masking).batch(np.array([0]))) for masking in maskings]
        )
        got = scored[scored["record_id"] == readings.record_id[row]].iloc[0]
        calibration = shipped.calibration
        expected = {
            "uncertainty": calibration.expected_error(calibration.scale_of(answers), answers.variable),
            "deviation": answers.deviation,
            "evidence": answers.evidence,
            "mae": np.abs(answers.prediction - answers.truth),
        }
        for name, values in expected.items():
            assert got[name] == pytest.approx(values.mean(dtype=np.float64), rel=1e-5), name


def test_a_record_with_more_than_512_readings_is_scored_in_full(screening, scored):
    long = scored[scored["n_readings"] > 512]
    assert len(long) == 3
    asked = screening.queries["record_id"].value_counts()
    for row in long.itertuples(index=False):
        assert row.n_hidden == asked[row.record_id] == 3 * (row.n_readings - row.n_context)
        assert row.n_context > 358


def test_the_papers_limit_leaves_long_records_out_and_says_so(sample, shipped, scores):
    subjects = select(sample, shipped, ScreenSettings(), most=512)
    assert (subjects.status == "too_many").sum() == 3
    assert subjects.scored.sum() == 26
    lengths = subjects.readings.lengths
    assert (np.repeat(subjects.status, lengths)[subjects.maskings[0]] == "scored").all()


def test_other_signals_rank_by_their_own_mean_high_meaning_distrust(sample, shipped, screening):
    by_evidence = screen(sample, shipped, ScreenSettings(signal="evidence")).scores
    ranked = by_evidence[by_evidence["status"] == "scored"]
    queries = screening.queries
    inverse = by_record(1 / queries["evidence"].to_numpy(np.float64), queries)
    np.testing.assert_allclose(ranked["uncertainty"], inverse[ranked["record_id"]], rtol=1e-5)
    assert ranked["record_id"].iloc[0] == inverse.idxmax()
    assert by_evidence.attrs["signal"] == "evidence"


def test_a_model_without_calibration_ranks_by_the_raw_deviation_and_gives_no_width(sample, shipped):
    got = screen(sample, replace(shipped, calibrations={}))
    ranked = got.scores[got.scores["status"] == "scored"]
    assert got.signal == "deviation"
    np.testing.assert_array_equal(ranked["uncertainty"], ranked["deviation"])
    assert ranked["interval_width"].isna().all()


def test_provenance_says_where_the_scores_came_from(screening, sample, shipped):
    attrs = screening.scores.attrs
    assert attrs["cohort_fingerprint"] == sample.fingerprint
    assert attrs["model_digest"] == shipped.digest
    assert (attrs["model"], attrs["signal"], attrs["seed"], attrs["hide"]) == ("physionet2012", "calibrated", 0, 0.3)
    assert attrs["calibration"]["signal"] == "meta_model"
    assert attrs["folds"] == screening.timing["passes"] == 3
    assert screening.timing["records"] == 29


# Refusals and faults ------------------------------------------------------------------------------------------------


def test_a_calibration_that_found_nothing_is_not_ranked_by(sample, shipped):
    flat = replace(shipped.calibration, pooled=Affine(0.0, 1.0))
    with pytest.raises(CalibrationError, match=r"physionet2012 fitted a = 0: its signal meta_model says nothing"):
        screen(sample, replace(shipped, calibrations={"meta_model": flat}))


def test_an_uncalibrated_model_asked_for_the_calibrated_signal_says_what_to_run(sample, shipped):
    with pytest.raises(CalibrationError, match="not calibrated: run levyscreen calibrate"):
        screen(sample, replace(shipped, calibrations={}), ScreenSettings(signal="calibrated"))


def test_an_unknown_signal_is_refused_with_the_known_ones(sample, shipped):
    with pytest.raises(UsageError, match="unknown signal 'doubt': use calibrated, deviation, disagreement, sigma, evi"):
        screen(sample, shipped, ScreenSettings(signal="doubt"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hide": 0}, "hidden fraction must lie between 0 and 1, got 0"),
        ({"hide": 1.0}, "hidden fraction must lie between 0 and 1, got 1.0"),
        ({"folds": 4}, r"4 disjoint maskings of 0.3 do not fit into a record: --folds takes 1 to 3 here"),
        ({"folds": 0}, r"0 disjoint maskings"),
        ({"hide": 0.6, "folds": 2}, r"2 disjoint maskings of 0.6 do not fit .* 1 to 1 here"),
        ({"flag": 0}, r"flagged fraction must lie in \(0, 1\], got 0"),
        ({"flag": 1.5}, r"flagged fraction must lie in \(0, 1\], got 1.5"),
    ],
)
def test_fractions_outside_their_range_are_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        ScreenSettings(**wrong)


@pytest.mark.parametrize(("field", "value"), [("prediction", np.nan), ("deviation", np.inf), ("evidence", np.nan)])
def test_an_answer_that_is_not_finite_gives_a_status_and_no_rank(sample, shipped, scored, monkeypatch, field, value):
    victim = int(scored["record_id"].iloc[0])
    row = sample.records.column("record_id").to_pylist().index(victim)
    whole = module.ask

    def broken(*args):
        for batch, answers in whole(*args):
            values = getattr(answers, field).copy()
            values[np.flatnonzero(answers.record == row)[:1]] = value
            yield batch, replace(answers, **{field: values})

    monkeypatch.setattr(module, "ask", broken)
    got = screen(sample, shipped).scores
    assert got["status"].tolist() == ["empty", "too_few", "non_finite"] + ["scored"] * 28
    bad = got.iloc[2]
    assert bad["record_id"] == victim
    assert pd.isna(bad["trust_rank"])
    assert bad[MEANS].isna().all()
    assert not bad["flagged"]
    rest = got.tail(28)
    assert rest["trust_rank"].tolist() == list(range(1, 29))
    assert np.isfinite(rest[MEANS].to_numpy(float)).all()
    assert rest["record_id"].tolist() == scored["record_id"].tolist()[1:]


# The same answer every time -----------------------------------------------------------------------------------------


def test_a_cohort_whose_rows_were_exported_twice_is_screened_as_it_is_once(sample, shipped, scores):
    """Else a reading would be hidden while its copy is there to be read, and the worst patients looked trusted."""
    lines = NumericLines(*(np.repeat(getattr(sample.load(), name), 2) for name in COLUMNS))
    doubled = replace(sample, lines=lines, offsets=2 * sample.offsets)
    pd.testing.assert_frame_equal(screen(doubled, shipped).scores, scores)


@pytest.mark.parametrize("tokens", [1, 100_000])
def test_the_batch_size_changes_nothing(sample, shipped, scores, tokens):
    assert_same_scores(scores, screen(sample, shipped, ScreenSettings(tokens=tokens)).scores)


def test_the_number_of_threads_changes_nothing(sample, shipped, scores):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if before > 1 else 2)
        other = screen(sample, shipped).scores
    finally:
        torch.set_num_threads(before)
    assert_same_scores(scores, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("records", [1, 33])
def test_windows_of_the_cohort_change_nothing(sample, shipped, screening, records, threads, monkeypatch):
    monkeypatch.setattr(module, "WINDOW_RECORDS", records)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    done = []
    parts = screen(sample, shipped, with_queries=True, done=done.append)
    assert_same_scores(screening.scores, parts.scores)
    said = ["record_id", "reason", "worst_variables", "trust_rank"]
    by_id = [frame[said].sort_values("record_id", ignore_index=True) for frame in (screening.scores, parts.scores)]
    pd.testing.assert_frame_equal(*by_id)
    one, other = screening.queries, parts.queries
    asked = ["record_id", "variable", "time_hours", "truth"]
    pd.testing.assert_frame_equal(one[asked], other[asked])
    scale = np.asarray(shipped.preprocessor.scale)[one["variable"].cat.codes]
    for name in ("prediction", "lower", "upper"):
        assert (np.abs(one[name] - other[name]) / scale).max() < 1e-5
    pd.testing.assert_frame_equal(one[SIGNALS], other[SIGNALS], rtol=1e-5, atol=1e-6)
    assert sum(done) == 3 * 29
    assert parts.timing["queries"] == screening.timing["queries"] == len(screening.queries)
    assert parts.timing["records"] == 29


def test_a_window_with_nothing_to_score_is_only_rows(sample, shipped, scores, monkeypatch):
    sparse = np.flatnonzero(shipped.preprocessor.apply(sample).lengths < 20)
    monkeypatch.setattr(module, "WINDOW_RECORDS", 1)
    assert_same_scores(scores, screen(sample, shipped, beside=lambda answered: None).scores)
    few = sample.part(int(sparse[0]), int(sparse[0]) + 1)
    assert screen(few, shipped).timing["records"] == 0


def test_the_order_of_the_files_changes_nothing(sample_files, shipped, scores, tmp_path):
    files = sorted(sample_files.iterdir())
    with tarfile.open(tmp_path / "shuffled.tar.gz", "w:gz", compresslevel=1) as archive:
        for index in np.random.default_rng(7).permutation(len(files)):
            archive.add(files[index], f"set-b-sample/{files[index].name}")
    assert_same_scores(scores, screen(read_cohort(tmp_path / "shuffled.tar.gz", cache=False), shipped).scores)


def test_another_seed_hides_other_readings_and_as_many(sample, shipped, screening):
    one, other = (sum(select(sample, shipped, ScreenSettings(seed=seed)).maskings) for seed in (0, 1))
    assert one.sum() == other.sum() == len(screening.queries)
    assert (one != other).any()
