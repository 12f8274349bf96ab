"""The sample cohort and the table beside it are what their README says, whole and by the stated rule; examples run."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from levyscreen.records.cache import read_cohort

EXAMPLES = Path(__file__).parent.parent / "examples"
SAMPLE = EXAMPLES / "set-b-sample"
EMPTY, NEARLY_EMPTY, USUAL, LONG = 1, 1, 95, 3


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rule():
    return example("make_sample")


@pytest.fixture(scope="module")
def cohort():
    return read_cohort(SAMPLE, cache=False)


def test_the_sample_has_a_hundred_readable_records_of_every_kind(rule, cohort):
    n = rule.count_readings(cohort)
    kinds = [(n == 0).sum(), ((n > 0) & (n < 20)).sum(), ((n >= 20) & (n <= 512)).sum(), (n > 512).sum()]
    assert kinds == [EMPTY, NEARLY_EMPTY, USUAL, LONG]
    assert cohort.records.column("problem").null_count == 100


def test_the_sample_holds_record_files_alone_with_their_ids_for_names(cohort):
    assert sorted(p.name for p in SAMPLE.iterdir()) == sorted(cohort.records.column("file").to_pylist())
    ids = cohort.records.column("record_id").to_pylist()
    assert [f"{i}.txt" for i in ids] == cohort.records.column("file").to_pylist()


def test_the_rule_copies_byte_for_byte_and_chooses_the_sample_from_itself(rule, tmp_path):
    rule.main([str(SAMPLE), str(tmp_path / "copy")])
    assert {p.name: p.read_bytes() for p in (tmp_path / "copy").iterdir()} == {
        p.name: p.read_bytes() for p in SAMPLE.iterdir()
    }


def test_the_rule_takes_the_smallest_hashes_of_each_kind_whatever_the_order(rule):
    ids, readings = np.arange(1000, 1400), np.repeat([0, 5, 100, 600], 100)
    chosen = set(ids[rule.choose(ids, readings)])
    assert chosen == set(ids[::-1][rule.choose(ids[::-1], readings[::-1])])
    for kind, wanted in zip(range(4), (EMPTY, NEARLY_EMPTY, USUAL, LONG), strict=True):
        group = sorted(ids[100 * kind : 100 * (kind + 1)], key=rule.by_hash)
        assert chosen & set(group) == set(group[:wanted])


def test_a_folder_with_other_files_is_not_written_to(rule, tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(SystemExit, match=r"holds 1 other files, for instance notes\.md"):
        rule.main([str(SAMPLE), str(tmp_path)])
    assert [p.name for p in tmp_path.iterdir()] == ["notes.md"]


def test_a_network_of_ones_own_finds_less_evidence_and_errs_more_away_from_its_readings(capsys):
    waves = example("levy_attention")
    rows = waves.by_distance(*waves.train())
    near, *_, gap = rows
    assert gap["evidence"] < 0.7 * near["evidence"]
    assert gap["sigma_hat"] > 1.2 * near["sigma_hat"]
    assert gap["error"] > 1.2 * near["error"]


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_the_notebook_runs_from_its_folder_draws_a_patient_and_is_kept_without_outputs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    assert any("image/png" in data for data in shown)
    assert all(cell.outputs for cell in cells)


# A table of one's own -----------------------------------------------------------------------------------------------

OWN = EXAMPLES / "own-tables"


@pytest.fixture(scope="module")
def own():
    return read_cohort(OWN / "chart.toml", cache=False)


def test_the_table_is_what_its_script_makes_of_the_sample(tmp_path):
    spec = importlib.util.spec_from_file_location("make_own_tables", EXAMPLES / "make_own_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main([str(SAMPLE), str(tmp_path / "chart.csv")])
    assert (tmp_path / "chart.csv").read_bytes() == (OWN / "chart.csv").read_bytes()


def test_the_mapping_is_the_first_one_but_for_what_it_ignores(tmp_path):
    from levyscreen.records.drafted.draft import draft
    from levyscreen.records.drafted.guess import guess

    first, edited = draft(guess(OWN / "chart.csv"), OWN), (OWN / "chart.toml").read_text()
    assert edited.split("\n[ignore]")[0].rstrip() == first.split("\n# Not mapped")[0].rstrip()


def test_its_mapping_brings_the_records_back_in_their_own_units(own, cohort):
    sample_row = {f"S-{i}": row for row, i in enumerate(cohort.records.column("record_id").to_pylist())}
    for row, label in enumerate(own.records.column("file").to_pylist()):
        theirs, ours = (c.part(r, r + 1) for c, r in ((cohort, sample_row[label]), (own, row)))
        for name in ("HR", "Temp", "Glucose"):
            mine, other = (c.value[np.array(c.variables.names)[c.variable] == name] for c in (ours, theirs))
            assert mine == pytest.approx(other[other >= 0], rel=2e-3)
    assert len(own) == 12
    assert own.records.column("n_unknown_parameter").to_pylist() == [0] * 12


def test_the_shipped_model_screens_it(own, shipped):
    from levyscreen.screen import screen

    scores = screen(own, shipped).scores
    assert (scores["status"] == "scored").all()
    assert scores["flagged"].sum() == 1
