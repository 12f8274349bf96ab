"""What a study's tables say of its results, and the paper's figures beside them."""

import json

import pytest

from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study import ablations, columns, contests, run, tables
from levyscreen.study.results import Results
from levyscreen.study.stress import KEPT, NAME


def test_a_table_puts_the_papers_value_beside_ours(whole):
    text = tables.markdown(whole)
    row = next(line for line in text.splitlines() if line.startswith("| MC dropout"))
    ours = json.loads(whole.path("physionet2012", 3, "dropout").read_text())
    assert f"{ours['ause']:.3f} (0.482 ± 0.009)" in row
    assert "| 20 |  | 1 |" in row


def test_what_is_far_from_the_paper_is_listed_by_how_far(whole):
    mae = json.loads(whole.path("physionet2012", 3, "disagreement").read_text())["mae"]
    _, text = tables.markdown(whole).split(
        "### PhysioNet 2012: more than two of the paper's standard deviations from it"
    )
    row = next(line for line in text.splitlines() if "| MAE |" in line)
    assert row.endswith(f"| MAE | 1 | {mae:.3f} | 0.317 ± 0.007 | {(mae - 0.317) / 0.007:+.1f} |")


def test_the_tables_say_on_how_many_records_and_readings_they_stand(whole, stage):
    asked = stage.test.batches
    records, queries = sum(len(b.record) for b in asked), sum(int(b.query_mask.sum()) for b in asked)
    assert f"each seed's figures are of {records:,} records and {queries:,} hidden readings." in tables.markdown(whole)


def test_a_contest_counts_the_seeds_in_which_one_is_better():
    """Only seeds that have both; of AUSE less is better, of Spearman more."""
    figures = {
        "deviation": [(0, 0.40, 0.6), (1, 0.41, 0.5), (2, 0.42, 0.7), (3, 0.2, 0.9)],
        "dropout": [(0, 0.50, 0.4), (1, 0.40, 0.4), (2, 0.43, 0.6)],
    }
    runs = [
        {"name": name, "seed": seed, "figures": {"ause": ause, "patient_spearman": spearman}}
        for name, of_seeds in figures.items()
        for seed, ause, spearman in of_seeds
    ]
    titles = ["deviation of the prediction (added here)", "MC dropout (20 passes)"]
    assert contests.lines(runs)[1:] == [
        [*titles, "AUSE", "3", "2", "0.0333", "-0.0100"],
        [*titles, "patient Spearman", "3", "3", "0.1333", "0.1000"],
    ]


def test_the_tables_of_a_ranking_have_its_contests(whole):
    ours, theirs = (
        json.loads(whole.path("physionet2012", 3, name).read_text())["ause"] for name in ("disagreement", "dropout")
    )
    _, text = tables.markdown(whole).split("### PhysioNet 2012: one against another, seed by seed")
    better, ahead = int(ours < theirs), f"{theirs - ours:.4f}"
    assert f"| MC dropout (20 passes) | AUSE | 1 | {better} | {ahead} | {ahead} |" in text


def test_the_papers_values_are_of_known_rows():
    for study in ("interpolation", "cohort"):
        assert set(tables.paper_values(study)["name"]) <= set(ESTIMATORS)
    assert set(tables.paper_values("ablations")["name"]) <= {*ablations.TRAINED, *ablations.TAUS}
    assert set(tables.paper_values("continuum")["name"]) <= {*columns.ROWS["continuum"], *ESTIMATORS}
    levels = {f"{NAME}, {100 * kept:03.0f} % of the context" for kept in KEPT}
    assert set(tables.paper_values("stress")["name"]) <= levels


def test_every_figure_of_the_paper_has_a_column():
    for study in ("interpolation", "cohort", "continuum", "stress", "ablations"):
        shown = {figure for _, block in columns.BLOCKS[study] for figure in block}
        assert set(tables.paper_values(study)["figure"]) <= shown


def test_a_row_says_how_many_passes_it_takes_and_whether_it_needs_labels(whole):
    begun = [line.split(" | ")[:3] for line in tables.markdown(whole).splitlines()]
    assert ["| MC dropout (20 passes)", "20", ""] in begun
    assert ["| heteroscedastic Gaussian-NLL head", "1", "yes"] in begun


def test_every_row_of_the_ablations_has_a_title():
    assert set(columns.ROWS["ablations"]) == {*ablations.TRAINED, *ablations.TAUS}


def test_change_of_mae_is_against_the_point_model_of_the_same_seed(whole):
    table = tables.long_table(whole)
    table = table[table["dataset"] == "physionet2012"].set_index(["name", "figure"])["mean"]
    assert table["nll", "mae_change"] == pytest.approx(table["nll", "mae"] / table["disagreement", "mae"] - 1)


def test_a_report_is_a_table_a_text_and_figures(whole):
    pytest.importorskip("matplotlib")
    names = [path.name for path in run.report("interpolation", whole.folder)]
    assert names == ["table.parquet", "table.md", "sparsification-physionet2012.svg", "coverage-physionet2012.svg"]
    first = (whole.folder / "interpolation" / "coverage-physionet2012.svg").read_bytes()
    run.report("interpolation", whole.folder)
    assert (whole.folder / "interpolation" / "coverage-physionet2012.svg").read_bytes() == first


def test_levels_of_context_are_rows_with_the_rise_of_the_error(tmp_path):
    results = Results(tmp_path, "stress")
    levels = [{"kept": 1.0, "mae": 0.2, "evidence": 600.0}, {"kept": 0.1, "mae": 0.3, "evidence": 60.5}]
    results.write("physionet2012", 0, "levy", {"levels": levels})
    lines = tables.markdown(results).splitlines()
    assert "| levy, 010 % of the context | 1 | 0.300 | 0.50 (0.81) |  |  |  | 60.5 (62.0) |" in lines
    assert "| levy, 100 % of the context | 1 | 0.200 | 0.00 |  |  |  | 600.0 (632.0) |" in lines
