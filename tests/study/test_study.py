"""A study on a made-up cohort with tiny networks: what it finds, how it goes on, what it refuses."""

import shutil
import sys
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from levyscreen.cli.app import app
from levyscreen.config import OURS, ModelConfig
from levyscreen.errors import LevyscreenError, UsageError
from levyscreen.estimators.dropout import dropout_spread
from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.learn.data import epoch_seed, prepare
from levyscreen.model.network import build
from levyscreen.records.batches import Batcher
from levyscreen.study import ablations, ranking, run, stress, tables
from levyscreen.study.answers import Questions
from levyscreen.study.continuum import dropped_spread, time_all
from levyscreen.study.networks import Networks
from levyscreen.study.ranking import rank
from levyscreen.study.results import Results
from levyscreen.study.stage import Stage
from levyscreen.timeline import Asker, ContinuumSettings
from tests.learn.tiny import tiny_cohort
from tests.study.tiny import CPU, SIZES, tiny_stage


def test_a_study_has_a_result_for_every_estimator(whole):
    assert {r["name"] for r in whole.read()} == set(ESTIMATORS)


def test_every_estimator_is_asked_the_same_targets_those_that_the_seed_hides(stage, tmp_path, monkeypatch):
    asked, answer = [], ranking.answer
    fields = attrgetter("record", "variable", "truth")

    def spy(estimator, questions):
        answered = answer(estimator, questions)
        asked.append((questions is stage.test, sorted(zip(*(x.tolist() for x in fields(answered)), strict=True))))
        return answered

    monkeypatch.setattr(ranking, "answer", spy)
    rank(stage, Results(tmp_path, "interpolation"), ["deviation", "softmax-dispersion", "ensemble", "gap-any-variable"])
    part = stage.training.part(stage.training.split.test)
    hidden = stage.training.targets(part, epoch_seed(stage.networks.seed, 0))
    record = np.repeat(np.arange(len(part)), part.lengths)
    expected = zip(*(x[hidden].tolist() for x in (record, part.variable, part.value)), strict=True)
    assert len(asked) == 8
    assert [targets for of_test, targets in asked if of_test] == [sorted(expected)] * 4


def test_readers_of_one_network_are_scored_on_the_same_errors(whole):
    without_a_model = ("interpolation", "last-value")
    mae = {r["mae"] for r in whole.read() if r["reads"] == "levy" and r["name"] not in without_a_model}
    assert np.ptp(list(mae)) < 1e-6
    assert {r["mae"] for r in whole.read() if r["name"] == "nll"}.isdisjoint(mae)


def test_splits_share_no_patient(stage):
    parts = [set(stage.training.part(rows).record_id) for rows in vars(stage.training.split).values()]
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_a_second_call_runs_only_what_is_missing_and_ends_in_the_same_table(whole, stage, tmp_path):
    again = Results(tmp_path, "interpolation")
    names = ["disagreement", "deviation", "dropout", "gap-any-variable"]
    rank(stage, again, names[:2])
    kept = again.path("physionet2012", 3, "disagreement")
    before = kept.stat().st_mtime_ns
    rank(stage, again, names)
    assert kept.stat().st_mtime_ns == before

    def figures(results):
        table = tables.long_table(results)
        chosen = table["name"].isin(names) & (table["figure"] != "seconds") & table["mean"].notna()
        return table[chosen].set_index(["name", "figure"])["mean"]

    pd.testing.assert_series_equal(figures(again), figures(whole))


def test_a_result_cut_short_is_refused_by_name(whole, tmp_path):
    results = Results(tmp_path, "interpolation")
    path = results.path("physionet2012", 0, "dropout")
    path.parent.mkdir(parents=True)
    path.write_text('{"format": 1,')
    with pytest.raises(LevyscreenError, match=r"dropout\.json is no result.*delete it"):
        results.read()


def test_without_training_what_needs_a_network_is_left_out_and_said(tmp_path):
    said = []
    results = Results(tmp_path / "out", "interpolation")
    rank(tiny_stage(tmp_path, training=False), results, ["deviation"], said.append)
    assert not results.read()
    assert "deviation left out" in said[0]
    assert "holds no finished network" in said[0]


def test_a_cohort_study_asks_the_other_cohort(stage, tmp_path):
    results = Results(tmp_path, "cohort")
    rank(stage, results, ["disagreement"])
    (found,) = results.read()
    batches = {name: getattr(stage, name).batches for name in ("validation", "test", "screening")}
    asked = {
        name: (len(set(torch.cat([b.record for b in of]).tolist())), sum(int(b.query_mask.sum()) for b in of))
        for name, of in batches.items()
    }
    assert (found["records"], found["queries"]) == asked["screening"]
    assert asked["screening"] not in (asked["validation"], asked["test"])


def levy(stage):
    return {"levy": stage.networks.networks("levy")}


def test_scales_are_fitted_to_what_an_estimator_says_of_validation_without_having_seen_it(stage, tmp_path, monkeypatch):
    asked = []
    on_validation = ESTIMATORS["rich"].on_validation
    monkeypatch.setattr(
        ESTIMATORS["rich"], "on_validation", lambda self, batch: asked.append(batch) or on_validation(self, batch)
    )
    rank(stage, Results(tmp_path, "interpolation"), ["rich"])
    assert {id(batch) for batch in asked} == {id(batch) for batch in stage.validation.batches}


def test_less_context_is_part_of_more_and_targets_stay(stage):
    few, many = stress.thinned(stage, 0.3), stress.thinned(stage, 0.7)
    assert sum(int(b.query_mask.sum()) for b in few.batches) == sum(int(b.query_mask.sum()) for b in many.batches)

    def context(questions: Questions):
        return {
            (int(r), float(t), int(v))
            for b in questions.batches
            for r, times, variables, mask in zip(b.record, b.time, b.variable, b.mask, strict=True)
            for t, v in zip(times[mask], variables[mask], strict=True)
        }

    assert context(few) < context(many)
    assert len(context(few)) / len(context(many)) == pytest.approx(3 / 7, rel=0.15)


def test_stress_says_error_scale_and_evidence_at_each_level(stage, tmp_path):
    results = Results(tmp_path, "stress")
    stress.stress(stage, results)
    (found,) = results.read()
    assert [level["kept"] for level in found["levels"]] == list(stress.KEPT)
    assert found["evidence_falls"]
    assert found["levels"][0]["evidence"] > 5 * found["levels"][-1]["evidence"]


def test_a_way_that_is_timed_later_is_compared_with_a_pass_of_that_hour(stage, whole, tmp_path):
    results = Results(tmp_path, "continuum")
    time_all(stage, results)
    before = {run["name"]: run for run in results.read()}
    results.path("physionet2012", 3, "dropout").unlink()
    time_all(stage, results)
    after = {run["name"]: run for run in results.read()}
    assert before.keys() == after.keys() == {"free", "with-deviation", "ensemble", "draws", "dropout"}
    assert all(run["times"] == run["seconds"] / run["seconds_of_one_pass"] for run in after.values())
    assert {name for name in before if before[name] != after[name]} == {"dropout"}
    assert after["dropout"]["seconds_of_one_pass"] != before["free"]["seconds"]


def test_ablations_say_how_they_were_trained_and_a_rate_leaves_the_error_as_it_is(stage, tmp_path, monkeypatch):
    trained = {name: ablations.TRAINED[name] for name in ("levy", "time-8")} | {"rounded": {"products": "bfloat16"}}
    monkeypatch.setattr(ablations, "TRAINED", trained)
    results = Results(tmp_path, "ablations")
    ablations.ablate(stage, results)
    mae = {r["name"]: r["mae"] for r in results.read()}
    assert mae["tau-0.1"] == pytest.approx(mae["levy"], abs=1e-5)
    assert mae["time-8"] != mae["levy"]
    assert mae["tau-0.5"] == mae["levy"]
    assert stage.networks.model().network.levy().tau == 0.5
    assert {r["epochs"] for r in results.read()} == {1}  # of the recipe's two
    assert mae["rounded"] != mae["levy"]
    assert mae["rounded"] == pytest.approx(mae["levy"], rel=0.02)
    assert {r["name"]: r["bits"] for r in results.read()} == dict.fromkeys(mae, 32) | {"rounded": 16}


def test_the_sizes_are_the_papers():
    millions = {"width-64": 0.2, "levy": 0.7, "width-256": 2.7, "width-256-blocks-6": 5.1}
    for name, size in (millions | {"width-512": 10.8, "width-512-blocks-6": 20.3}).items():
        sizes = {key: n for key, n in ablations.TRAINED[name].items() if key != "products"}
        network = build(ModelConfig(variables=36, **sizes), seed=0)
        assert round(sum(p.numel() for p in network.parameters()) / 1e6, 1) == size


@pytest.mark.parametrize(
    ("text", "seeds"), [("0", [0]), ("0-4", [0, 1, 2, 3, 4]), ("0,2", [0, 2]), ("1-2,5", [1, 2, 5])]
)
def test_seeds_are_one_several_or_a_range(text, seeds):
    assert run.seed_list(text) == seeds


@pytest.mark.parametrize("text", ["all", "4-0", "0,", "0-", "-1", "1-2-3", "4294967296", "0-99999999999"])
def test_seeds_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match=f"seeds are numbers.*'{text}'"):
        run.seed_list(text)


def test_dropout_on_the_lattice_is_dropout_of_the_network(stage):
    """The same passes by another way: the spreads of many agree, as neither's random numbers are the other's."""
    asker = Asker(stage.networks.model(), ContinuumSettings(grid=6))
    readings = stage.training.part(stage.training.split.test[:2])
    fast = torch.cat(dropped_spread(asker, readings, 1600))  # (R, V, T)
    network, horizon = asker.model.network, asker.model.preprocessor.variables.horizon_hours
    batch = Batcher(readings, np.zeros(len(readings.time), dtype=bool)).batch(np.argsort(-readings.lengths))
    time = torch.from_numpy(asker.time_hours / np.float32(horizon)).repeat(4)
    variable = torch.arange(4).repeat_interleave(len(asker.time_hours))
    shape = 2, variable.numel()
    asked = replace(
        batch,
        query_time=time.expand(shape),
        query_variable=variable.expand(shape),
        query_mask=torch.ones(shape, dtype=torch.bool),
        target=torch.zeros(shape),
    )
    slow = dropout_spread(network, asked, 1600, torch.Generator().manual_seed(1))
    ratio = fast.flatten() / slow.flatten()  # of two sample deviations of 1,600: off by 2.5 % each time, by chance
    assert float(ratio.median()) == pytest.approx(1, abs=0.03)
    assert float((ratio - 1).abs().max()) < 0.2
    assert torch.corrcoef(torch.stack([fast.flatten(), slow.flatten()]))[0, 1] > 0.6  # the same queries, in their order


# A cohort of one's own ----------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Studies a made-up cohort by its path, with tiny networks; gives what was said."""
    monkeypatch.setattr(run, "Networks", partial(Networks, sizes=SIZES))

    def studied(records, fingerprint, **changes):
        said = []
        cohort = replace(tiny_cohort(records), fingerprint=fingerprint, notes=("an odd thing",))
        monkeypatch.setattr(run.datasets, "read_cohort", {tmp_path: cohort}.get)
        request = asked_of(tmp_path, "interpolation", str(tmp_path), ["deviation", "dropout"])
        run.run(replace(request, **changes), CPU, True, said.append)
        return said

    return studied


def test_a_cohort_of_ones_own_is_ranked_on_its_test_records(own, tmp_path):
    said = own(60, "0123456789-abababababab")
    assert said[0] == "note: an odd thing"
    results = Results(tmp_path / "out", "interpolation").read()
    tested = len(prepare(tiny_cohort(), OURS, 0).split.test)
    assert [(r["dataset"], r["name"], r["records"]) for r in results] == [
        ("tiny-01234567-abababab", "deviation", tested),
        ("tiny-01234567-abababab", "dropout", tested),
    ]
    table = tables.markdown(Results(tmp_path / "out", "interpolation"))
    assert "### tiny-01234567-abababab: error ranking" in table
    assert "PhysioNet" not in table


@pytest.mark.parametrize("edited", ["fedcba9876-abababababab", "0123456789-cdcdcdcdcdcd"])
def test_edited_records_or_variables_are_another_dataset(own, tmp_path, edited):
    own(60, "0123456789-abababababab")
    own(90, edited)
    results = Results(tmp_path / "out", "interpolation").read()
    other = "-".join(part[:8] for part in ("tiny", *edited.split("-")))
    assert {r["dataset"] for r in results} == {"tiny-01234567-abababab", other}
    assert len({r["queries"] for r in results}) == 2


def test_a_cohort_of_ones_own_has_no_second_one_to_screen(own):
    with pytest.raises(UsageError, match="tiny-01234567-abababab has no second cohort to screen"):
        own(60, "0123456789-abababababab", study="cohort")


# What a user may get wrong ------------------------------------------------------------------------------------------


def asked_of(tmp_path, study="stress", dataset="physionet2012", estimators=None):
    return run.Request(study, dataset, [0], estimators, tmp_path, tmp_path / "out", tmp_path / "networks")


def test_an_unknown_dataset_or_estimator_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="unknown dataset 'mimic': use physionet2012, physionet2012-recipe, ushcn, or"):
        run.run(asked_of(tmp_path, dataset="mimic"), CPU, False, print)
    with pytest.raises(UsageError, match=r"unknown estimator 'swag': use interpolation, .*rich"):
        run.run(asked_of(tmp_path, "interpolation", estimators=["deviation", "swag"]), CPU, False, print)


def test_data_that_is_not_there_is_named_with_what_to_do(tmp_path):
    with pytest.raises(UsageError, match=r"set-a\.tar\.gz is not there: name the folder .* with --data"):
        run.run(asked_of(tmp_path), CPU, False, print)


@pytest.mark.parametrize("study", ["stress", "continuum"])
def test_a_seed_without_its_network_is_left_out_and_said(tmp_path, study, monkeypatch):
    said = []
    (tmp_path / "physionet2012").mkdir()
    (tmp_path / "physionet2012/set-b.tar.gz").touch()
    monkeypatch.setattr(run.datasets, "read", lambda dataset, data, path: tiny_cohort())
    run.run(replace(asked_of(tmp_path, study), seeds=[5, 6]), CPU, False, said.append)
    assert [line.split(":")[0] for line in said] == ["seed 5 left out", "seed 6 left out"]


@pytest.mark.parametrize("study", ["cohort", "continuum"])
def test_a_study_of_an_untouched_cohort_is_refused_before_anything_is_trained_for_it(tmp_path, study):
    (tmp_path / "physionet2012").mkdir()
    (tmp_path / "physionet2012/set-a.tar.gz").touch()
    with pytest.raises(UsageError, match=r"set-b\.tar\.gz is not there"):
        run.run(asked_of(tmp_path, study), CPU, True, print)
    with pytest.raises(UsageError, match="USHCN, rebuilt has no second cohort"):
        run.run(asked_of(tmp_path, study, "ushcn"), CPU, True, print)


@pytest.mark.parametrize("study", ["stress", "continuum", "ablations", "beyond"])
def test_estimators_of_a_study_that_has_its_own_rows_are_refused(tmp_path, study):
    with pytest.raises(UsageError, match=f"--estimators is for interpolation and cohort; {study} has its own rows"):
        run.run(asked_of(tmp_path, study, estimators=["deviation"]), CPU, False, print)


def test_a_missing_scikit_learn_is_said_before_anything_is_read_or_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(run.datasets, "read", lambda dataset, data, path: pytest.fail("read"))
    with pytest.raises(UsageError, match="density needs scikit-learn: pip install"):
        run.run(asked_of(tmp_path, "interpolation", "ushcn"), CPU, True, print)


def test_results_of_two_seeds_and_two_cohorts_make_no_table(tmp_path):
    for seed, cohort in enumerate(("one", "one", "another")):
        Results(tmp_path, "stress", (cohort,)).write("ushcn", seed, "levy", {})
    with pytest.raises(LevyscreenError, match=r"seed-2/levy\.json is of other records than .*seed-0/levy\.json"):
        Results(tmp_path, "stress").read()


def test_results_of_two_networks_of_one_seed_make_no_table(tmp_path):
    """As where a missing network was trained for the rows that were not there."""
    results = Results(tmp_path, "stress", ("one",))
    for name, seed, digest in (("a", 0, "x"), ("a", 1, "y"), ("b", 1, "y")):
        results.write("ushcn", seed, name, {}, {"levy/model.safetensors": digest})
    assert len(results.read()) == 3
    results.write("ushcn", 0, "b", {}, {"levy/model.safetensors": "z"})
    with pytest.raises(LevyscreenError, match=r"seed-0/b\.json is of other networks than .*seed-0/a\.json"):
        results.read()


@pytest.mark.parametrize("name", ["deviation", "ensemble", "nll"])
def test_results_of_other_networks_are_not_taken_for_these(stage, whole, tmp_path, name):
    """As after a training made anew, or with another folder of networks; one that is not there says nothing."""
    results = Results(tmp_path, "interpolation")
    rank(stage, results, [name])
    networks = replace(stage.networks, folder=Path(shutil.copytree(stage.networks.folder, tmp_path / "other")))
    rank(Stage(networks, stage.data), results, [name])
    kind = ESTIMATORS[name].reads
    file = networks.path(kind) / ("member-302.safetensors" if kind == "ensemble" else "model.safetensors")
    file.write_bytes(b"other weights")
    with pytest.raises(
        UsageError, match=rf"{name}\.json is of another network than .*/{file.name} of these: .*--networ"
    ):
        rank(Stage(networks, stage.data), results, [name])
    file.unlink()
    rank(Stage(networks, stage.data), results, [name])


def test_results_of_other_records_are_not_taken_for_these(tmp_path, monkeypatch):
    """Neither mixed into one mean nor counted as done."""
    monkeypatch.setattr(run, "Networks", partial(Networks, sizes=SIZES))
    records = {"fingerprint": "one"}
    monkeypatch.setattr(run.datasets, "read", lambda dataset, data, path: replace(tiny_cohort(), **records))
    request = asked_of(tmp_path, "interpolation", "ushcn", ["variable-error"])
    run.run(request, CPU, True, print)
    run.run(request, CPU, True, print)
    records["fingerprint"] = "another"
    with pytest.raises(UsageError, match=r"variable-error\.json is of other records than these: .* --out"):
        run.run(request, CPU, True, print)


@pytest.mark.parametrize("left", [False, True])
def test_tables_of_no_results_are_refused(tmp_path, left):
    """Also where a deleted result's folder is left."""
    if left:
        (tmp_path / "stress/physionet2012/seed-0").mkdir(parents=True)
    found = CliRunner().invoke(app, ["study", "stress", "--tables", "--out", str(tmp_path)])
    assert isinstance(found.exception, UsageError)
    assert f"{tmp_path} holds no result of stress yet" in str(found.exception)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_unknown_study_is_refused_with_the_known_ones():
    found = CliRunner().invoke(app, ["study", "everything"])
    assert isinstance(found.exception, UsageError)
    assert "interpolation, cohort, continuum, stress, ablations, beyond" in str(found.exception)


def test_the_hidings_of_validation_are_disjoint_and_begin_with_the_one_that_scales_are_of(stage):
    batches = stage.validation_folds
    first = stage.validation.batches
    assert all(batch is same for batch, same in zip(batches, first, strict=False))
    columns = [
        np.concatenate([b.record[:, None].expand_as(b.query_mask)[b.query_mask] for b in batches]),
        *(
            np.concatenate([getattr(b, n)[b.query_mask] for b in batches])
            for n in ("query_time", "query_variable", "target")
        ),
    ]
    asked = set(zip(*(column.tolist() for column in columns), strict=True))
    assert len(asked) == len(columns[0]) == 3 * sum(int(b.query_mask.sum()) for b in first)
