"""The networks that a study reads: which they are, and when they are refused."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from levyscreen.errors import TrainingError, UsageError
from levyscreen.store import save_member
from levyscreen.study.networks import MissingNetwork
from levyscreen.study.stage import Stage
from levyscreen.training import member_seeds


def test_an_ensemble_that_lacks_a_member_is_not_run(stage):
    without = Stage(replace(stage.networks, training=False, seed=17), stage.data)
    with pytest.raises(MissingNetwork):
        without.networks.networks("ensemble")


def test_a_shipped_model_of_other_records_is_refused(stage):
    """Of one record less the split is another, and test records would be those it was trained on."""
    dataset = replace(stage.networks.dataset, shipped={3: "physionet2012-paper"})
    with pytest.raises(UsageError, match="physionet2012-paper was trained on other records than those of tiny"):
        replace(stage.networks, dataset=dataset).model()


@pytest.mark.parametrize("training", [True, False])
def test_a_network_of_other_records_is_refused_and_stays_as_it_is(stage, whole, training):
    path = stage.networks.path("levy") / "config.json"
    before = path.read_bytes()
    others = replace(stage.networks, cohort=replace(stage.networks.cohort, fingerprint="other"), training=training)
    for kind in ("levy", "ensemble"):
        with pytest.raises(UsageError, match=r"trained on other records than those of tiny.*--networks"):
            others.networks(kind)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["levy", "nll", "ensemble", "student"])
def test_without_training_a_network_of_other_settings_is_missing_and_none_is_trained(stage, whole, kind):
    dataset = replace(stage.networks.dataset, recipe=replace(stage.networks.dataset.recipe, epochs=3))
    before = {path: path.read_bytes() for path in stage.networks.folder.rglob("config.json")}
    with pytest.raises(MissingNetwork, match="holds no finished network of these records and settings"):
        replace(stage.networks, dataset=dataset, training=False).networks(kind)
    assert {path: path.read_bytes() for path in stage.networks.folder.rglob("config.json")} == before


def test_an_ensemble_has_its_own_five_whatever_else_lies_there(stage, whole, tmp_path):
    folder = shutil.copytree(stage.networks.folder, tmp_path / "runs")
    networks = replace(stage.networks, folder=folder, training=False)
    five = [network.state_dict()["embed.value.weight"] for network in networks.networks("ensemble")]
    save_member(networks.path("levy"), 77, networks.model().network)
    again = [network.state_dict()["embed.value.weight"] for network in networks.networks("ensemble")]
    assert len(five) == 5
    assert all(torch.equal(a, b) for a, b in zip(five, again, strict=True))


def test_a_student_is_of_those_five_whatever_else_lies_there(stage, whole, tmp_path):
    folder = shutil.copytree(stage.networks.folder, tmp_path / "runs")
    networks = replace(stage.networks, folder=folder, training=False)
    before = networks.model("student").digest
    save_member(networks.path("levy"), 77, networks.model().network)
    assert networks.model("student").digest == before


def test_a_state_of_another_training_is_refused_by_what_one_can_do(stage, whole, tmp_path):
    """As where a training was cut off, and the recipe was changed; `study` has no --resume."""
    networks = replace(stage.networks, folder=Path(shutil.copytree(stage.networks.folder, tmp_path / "runs")))
    folder = networks.path("nll")
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    dataset = replace(networks.dataset, recipe=replace(networks.dataset.recipe, epochs=3))
    with pytest.raises(TrainingError, match=r"nll/training/.*give the same ones, or name another folder$") as refused:
        replace(networks, dataset=dataset).model("nll")
    assert "--" not in str(refused.value)


def test_ensembles_of_two_seeds_share_no_member():
    members = [set(member_seeds(seed, 5)) for seed in range(5)]
    assert members[0] == {1, 2, 3, 4}
    assert len(set.union(*members)) == 20
