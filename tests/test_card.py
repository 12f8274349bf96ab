"""A card says what is known, leaves empty by name what only a person can say, and keeps what a person has said."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml

from levyscreen.calibrate import clustered_error
from levyscreen.card import empty, judged_apart, write_card
from levyscreen.errors import ModelError, UsageError
from levyscreen.groups import FEWEST_PATIENTS, Given, Interval, Told, coverage_table
from levyscreen.judging import calibrate, evaluate, held_out
from levyscreen.model.network import build
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.report.card import MARK
from levyscreen.schema import RECORDS
from levyscreen.store import load_model, save_model
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, tiny_cohort

pytestmark = pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # few targets a variable
SPLIT = {"train": list(range(1, 41)), "validation": list(range(41, 51)), "test": list(range(51, 91))}
# The elements of the Applied Model Card, schema v0.2, that are not optional there.
ELEMENTS = {
    "BasicInfo": {"ModelName", "ModelDeveloper", "DeveloperContact"},
    "ReleaseInfo": {"ReleaseStage", "ReleaseDate", "ReleaseVersion", "GlobalAvailability"},
    "ModelSummary": {"Summary", "Keywords"},
    "UsesAndDirections": {
        "IntendedUseAndWorkflow",
        "PrimaryIntendedUsers",
        "HowToUse",
        "TargetedPatientPopulation",
        "CautionedOutOfScopeSettings",
    },
    "Warnings": {"KnownRisksAndLimitations", "KnownBiasesOrEthicalConsiderations", "ClinicalRiskLevel"},
    "TrustIngredients": {"AISystemFacts", "TransparencyInformation"},
    "KeyMetrics": {"UsefulnessUsabilityEfficacy", "FairnessEquity", "SafetyReliability"},
    "Resources": {"PeerReviewedPublications", "PatientConsentOrDisclosure"},
}
SYSTEM = {
    "OutcomesAndOutputs",
    "ModelType",
    "InputDataSource",
    "OutputAndInputDataTypes",
    "DevelopmentDataCharacterization",
    "BiasMitigationApproaches",
    "OngoingMaintenance",
}
METRIC = {
    "MetricGoal",
    "Results",
    "Interpretation",
    "TestType",
    "TestingDataDescription",
    "ValidationProcessAndJustification",
}


def described(cohort):
    """Of whom half are women, and one age is not known."""
    records = cohort.records
    for name, values in {"gender": [0.0, 1.0], "age": [40.0, 70.0, 85.0]}.items():
        column = pa.array([values[i % len(values)] for i in range(len(cohort))], pa.float64())
        records = records.set_column(RECORDS.get_field_index(name), RECORDS.field(name), column)
    return replace(cohort, records=records, fingerprint="of the tiny one")


@pytest.fixture(scope="module")
def cohort():
    return described(tiny_cohort(90))


@pytest.fixture(scope="module")
def calibrated(cohort, tmp_path_factory):
    preprocessor = Preprocessor.fit(cohort, np.arange(40), VARIABLES, PROTOCOL)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    about = {"settings": TRAINING.to_json(), "split": SPLIT, "cohort_fingerprint": cohort.fingerprint}
    save_model(folder, build(MODEL, 0), preprocessor, about | {"cohort": "tiny", "best_epoch": 2, "history": [{}, {}]})
    return calibrate(load_model(folder), cohort)


@pytest.fixture(scope="module")
def evaluation(calibrated, cohort):
    return evaluate(calibrated, cohort)


@pytest.fixture
def model(calibrated, tmp_path):
    return load_model(Path(shutil.copytree(calibrated.folder, tmp_path / "tiny")))


def read(model):
    page = (model.folder / "README.md").read_text()
    return page, yaml.safe_load(page.split("---\n")[1]), json.loads((model.folder / "card.json").read_text())


# What is known ------------------------------------------------------------------------------------------------------


def test_card_json_has_every_element_that_the_applied_model_card_asks_for(model, evaluation):
    write_card(model, evaluation)
    _, _, card = read(model)
    assert {*ELEMENTS, "Bibliography"} <= set(card)
    for part, elements in ELEMENTS.items():
        assert elements <= set(card[part]), part
    assert set(card["TrustIngredients"]["AISystemFacts"]) >= SYSTEM
    for metric in card["KeyMetrics"].values():
        assert set(metric) == METRIC
        assert all(set(result) == {"Label", "ValueJson"} for result in metric["Results"]["MetricResult"])
    assert "[1, 2" not in json.dumps(card)  # no record ids


def test_its_figures_are_those_of_the_evaluation(model, evaluation):
    write_card(model, evaluation)
    page, front, card = read(model)
    (result,) = front["model-index"][0]["results"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values["mae"] == pytest.approx(evaluation.summary["mae"], abs=5e-5)
    assert values["coverage_90"] == pytest.approx(evaluation.reliability["coverage_90"].iloc[0], abs=5e-5)
    assert front["library_name"] == "levyscreen"
    assert front["metrics"] == ["mae", "mse"]
    assert front["datasets"] == ["tiny"]
    (groups,) = card["KeyMetrics"]["FairnessEquity"]["Results"]["MetricResult"]
    assert [row["group"] for row in groups["ValueJson"]] == evaluation.groups["group"].tolist()
    assert f"| sex | female | {evaluation.groups.set_index('group').loc['female', 'n']} |" in page
    assert "split by record: 40 train, 10 validation, 40 test." in page
    assert "Seed 3, 2 epochs, weights of epoch 2." in page


def test_a_model_that_was_not_judged_has_a_card_that_says_why_and_no_figure(model):
    write_card(model, None, "it emits no signals")
    page, front, card = read(model)
    assert "model-index" not in front
    assert "Unknown: it emits no signals." in page
    assert all(not metric["Results"]["MetricResult"] for metric in card["KeyMetrics"].values())


def test_a_hostile_name_is_inert_in_the_front_matter_and_in_the_page(model, evaluation):
    summary = evaluation.summary | {"cohort": 'a"\n- x: [<b>](y)'}
    write_card(replace(model, name="own: {x}\n---"), replace(evaluation, summary=summary))
    page, front, _ = read(model)
    assert front["model-index"][0]["name"] == "own: {x}\\n---"
    assert "datasets" not in front  # no name that a hub takes
    assert "<b>" not in page.split("---\n", 2)[2]


# Groups -------------------------------------------------------------------------------------------------------------


def test_groups_are_covered_as_a_loop_over_the_answers_says():
    rng = np.random.default_rng(0)
    record, half = np.repeat(np.arange(40), 10), rng.gamma(2.0, 0.5, 400)
    truth = rng.standard_normal(400)
    told = Told(record, record, np.zeros(400, dtype=np.int64), truth, np.zeros(400), half)
    sex = np.where(record % 3 == 0, "female", "male")
    rare = np.where(record < FEWEST_PATIENTS - 1, "few", "many")
    table = coverage_table(told, [Given(0.8, half / 2, 1), Given(0.9, half, 1)], {"sex": sex, "rare": rare})
    assert table["group"].tolist() == ["female", "male", "many"]  # ten patients might be recognised
    for row in table[table["by"] == "sex"].to_dict("records"):
        of = sex == row["group"]
        inside = np.abs(truth[of]) <= half[of]
        assert row["coverage_90"] == pytest.approx(inside.mean())
        assert row["error_90"] == pytest.approx(clustered_error(inside, record[of]))
        assert row["coverage_80"] == pytest.approx((np.abs(truth[of]) <= half[of] / 2).mean())
        assert (row["n"], row["patients"]) == (of.sum(), len(set(record[of])))
        assert row["mae"] == pytest.approx(np.abs(truth[of]).mean())


def test_a_reading_without_an_interval_is_in_no_coverage_of_its_group():
    rng = np.random.default_rng(2)
    record, truth = np.repeat(np.arange(40), 10), rng.standard_normal(400)
    half = np.where(record % 2 == 0, 1.0, np.inf)
    told = Told(record, record, np.zeros(400, dtype=np.int64), truth, np.zeros(400), np.ones(400))
    sex = np.where(record < 20, "female", "male")  # ten patients of each have intervals at 0.9
    table = coverage_table(told, [Given(0.8, np.ones(400), 1), Given(0.9, half, 1)], {"sex": sex, "all": ["all"] * 400})
    rows = table.set_index("group")
    assert rows.loc["all", "coverage_90"] == pytest.approx((np.abs(truth[record % 2 == 0]) <= 1).mean())
    assert rows.loc["all", ["n", "patients"]].tolist() == [400, 40]
    assert rows.loc[["female", "male"], "coverage_90"].isna().all()  # of too few patients to be shown
    assert rows.loc["female", "coverage_80"] == pytest.approx((np.abs(truth[record < 20]) <= 1).mean())
    none = coverage_table(told, [Given(0.9, np.full(400, np.inf), 1)], {"all": ["all"] * 400})
    assert none["coverage_90"].isna().all()


def test_stays_of_one_patient_are_one_cluster_and_count_once():
    rng = np.random.default_rng(1)
    record, half = np.repeat(np.arange(4 * FEWEST_PATIENTS), 5), np.ones(20 * FEWEST_PATIENTS)
    of_patient = record // 3
    truth = rng.standard_normal(len(record)) + rng.standard_normal(len(record))[of_patient]
    told = Told(record, of_patient, np.zeros_like(record), truth, np.zeros(len(record)), half)
    few = np.where(of_patient < FEWEST_PATIENTS - 1, "few", "many")  # three times as many stays as are shown
    table = coverage_table(told, [Given(0.9, half, 1)], {"who": few, "all": ["all"] * len(record)})
    assert table["group"].tolist() == ["all"]
    (row,) = table.to_dict("records")
    assert row["patients"] == len(set(of_patient))
    inside = np.abs(truth) <= half
    assert row["error_90"] == pytest.approx(clustered_error(inside, of_patient))
    assert row["error_90"] > 1.1 * clustered_error(inside, record)
    noise = Interval.fit(told, 1, 0.9).noise
    assert noise.shape == (len(set(of_patient)), 1)


def test_an_evaluation_groups_the_test_records_by_who_they_are(calibrated, cohort, evaluation):
    groups = evaluation.groups.set_index("group")
    assert set(groups["by"]) == {"evidence decile", "sex", "age"}
    readings, about = held_out(calibrated, cohort, "test")
    assert about.column("record_id").to_pylist() == readings.record_id.tolist()
    assert groups.loc["female", "patients"] == about.column("gender").to_pylist().count(0.0)
    assert groups.loc[["female", "male"], "n"].sum() == evaluation.reliability["n"].iloc[0]


# What is kept -------------------------------------------------------------------------------------------------------


def test_what_only_a_person_can_say_is_empty_and_named_on_the_page(model, evaluation):
    write_card(model, evaluation)
    page, front, card = read(model)
    for name in ("BasicInfo.DeveloperContact", "UsesAndDirections.IntendedUseAndWorkflow", "Sharing.License"):
        assert name in list(empty(card))
        assert f"`{name}`" in page
    assert front["license"] == "unknown"


def test_what_a_person_filled_in_and_wrote_below_the_mark_survives_the_next_writing(model, evaluation):
    write_card(model)
    page, _, card = read(model)
    card["Sharing"]["License"], card["BasicInfo"]["DeveloperContact"] = "cc-by-4.0", "ward@example.org"
    card["BasicInfo"]["ModelName"] = "not for a person to say"
    (model.folder / "card.json").write_text(json.dumps(card))
    (model.folder / "README.md").write_text(page + "\nOur own words.\n")
    for _ in range(2):
        write_card(model, evaluation)
    page, front, card = read(model)
    assert front["license"] == "cc-by-4.0"
    assert card["BasicInfo"] == {"ModelName": "tiny", "ModelDeveloper": "", "DeveloperContact": "ward@example.org"}
    assert page.endswith(f"{MARK}\n\nOur own words.\n")


def test_figures_of_another_cohort_are_not_called_those_of_the_dataset_that_it_was_trained_on(model, cohort):
    elsewhere = replace(
        tiny_cohort(90, 5), fingerprint="another", name="another", records=with_other_ids(cohort.records)
    )
    write_card(model)
    (model.folder / "card.json").write_text(
        json.dumps(read(model)[2] | {"Sharing": {"License": "", "Dataset": "tinyset"}})
    )
    for of, called in ((cohort, "tinyset"), (elsewhere, "another")):
        write_card(model, evaluate(model, of))
        page, front, _ = read(model)
        assert front["datasets"] == ["tinyset"]
        assert front["model-index"][0]["results"][0]["dataset"] == {"type": called, "name": of.name}
        assert f"Printed by `levyscreen evaluate tiny COHORT`, of {of.name} (" in page
    (model.folder / "card.json").unlink()
    write_card(model, evaluate(model, elsewhere))
    assert "datasets" not in read(model)[1]


def with_other_ids(records):
    place = records.schema.get_field_index("record_id")
    return records.set_column(place, records.schema.field(place), pa.array(range(1001, 1001 + len(records))))


def test_a_copy_that_is_calibrated_anew_does_not_carry_what_was_written_of_the_original(model, cohort, tmp_path):
    write_card(model)
    page, _, card = read(model)
    card["KeyMetrics"]["FairnessEquity"]["Interpretation"] = "good enough"
    (model.folder / "card.json").write_text(json.dumps(card))
    (model.folder / "README.md").write_text(page + "\nOn set-b it is so good.\n")
    copy = calibrate(model, cohort, folder=tmp_path / "copy")
    assert "KeyMetrics" not in json.loads((copy.folder / "card.json").read_text())
    write_card(copy)
    assert read(copy)[0].endswith(f"{MARK}\n")
    assert read(copy)[2]["KeyMetrics"]["FairnessEquity"]["Interpretation"] == ""
    assert "so good" in read(model)[0]


def test_a_page_that_a_person_wrote_is_kept_whole_under_the_card(model):
    (model.folder / "README.md").write_text("# Mine\n\nText.\n")
    write_card(model)
    assert read(model)[0].endswith(f"{MARK}\n\n# Mine\n\nText.\n")


def test_a_card_json_that_cannot_be_read_is_not_written_over(model):
    (model.folder / "card.json").write_text("{half")
    with pytest.raises(ModelError, match=r"card\.json is no JSON, so what was filled in there would be lost"):
        write_card(model)
    assert (model.folder / "card.json").read_text() == "{half"


def test_a_cohort_that_set_the_intervals_is_no_cohort_for_the_card(calibrated, cohort, tmp_path):
    elsewhere = replace(tiny_cohort(90, 5), fingerprint="another", name="another")
    elsewhere = replace(elsewhere, records=cohort.records)
    other = calibrate(load_model(Path(shutil.copytree(calibrated.folder, tmp_path / "tiny"))), elsewhere)
    judged_apart(other, cohort)
    judged_apart(calibrated, cohort)
    with pytest.raises(UsageError, match="tiny was calibrated on another itself: a card takes another cohort"):
        judged_apart(other, elsewhere)


def test_shipped_cards_are_those_of_the_shipped_weights_with_nothing_left_unsaid_that_a_hub_needs(shipped):
    for name in ("physionet2012", "physionet2012-paper"):
        folder = shipped.folder.with_name(name)
        card = json.loads((folder / "card.json").read_text())
        front = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
        assert load_model(name).digest in card["ReleaseInfo"]["ReleaseVersion"]
        assert front["license"] == card["Sharing"]["License"] == "mit"
        assert front["model-index"][0]["name"] == name
        assert torch.tensor(front["model-index"][0]["results"][0]["metrics"][0]["value"]) < 0.31
