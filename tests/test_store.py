"""A model folder gives back the model that was saved; anything else in it is refused by name, and runs nothing."""

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from levyscreen import outputs
from levyscreen.calibrate import fit_calibration
from levyscreen.errors import CalibrationError, ModelError
from levyscreen.model.network import build
from levyscreen.questions import ask, joined
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.schema import RECORDS
from levyscreen.store import (
    find,
    has_member,
    load_members,
    load_model,
    manifest,
    member_path,
    save_calibrations,
    save_member,
    save_model,
    save_weights,
)
from levyscreen.store.__main__ import main as seal_folders
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, VARIABLES, tiny_cohort

CPU = torch.device("cpu")
SPLIT = {"train": [1, 2, 3], "validation": [4], "test": [5]}
SIGNALS = ("prediction", "evidence", "disagreement", "sigma_hat", "deviation")


@pytest.fixture(scope="module")
def cohort():
    return tiny_cohort(20)


@pytest.fixture(scope="module")
def network():
    return build(MODEL, 0).eval()


@pytest.fixture(scope="module")
def preprocessor(cohort):
    return Preprocessor.fit(cohort, np.arange(len(cohort)), VARIABLES, PROTOCOL)


def answers(network, preprocessor, cohort):
    readings = preprocessor.apply(cohort)
    return joined([a for _, a in ask(network, readings, hide(readings, 0.3, 0), CPU)])


@pytest.fixture(scope="module")
def saved(network, preprocessor, cohort, tmp_path_factory):
    """A whole, calibrated folder; copied before it is harmed."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder, network, preprocessor, {"settings": TRAINING.to_json(), "split": SPLIT})
    a = answers(network, preprocessor, cohort)
    names = preprocessor.variables.names
    fitted = fit_calibration(a.deviation, "deviation", a.prediction, a.truth, a.variable, names, by="nothing")
    save_calibrations(load_model(folder), [fitted], RECORDS.empty_table())
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "tiny"))


def edit(path, change, seal=True):
    """As whoever wrote something else into the file would have, with a digest that fits; or as damage would."""
    data = json.loads(path.read_text())
    change(data)
    content = {k: v for k, v in data.items() if k != outputs.SEAL}
    path.write_text(json.dumps(outputs.sealed(content) if seal else data))
    if seal:
        manifest.seal(path.parent)


# Round trip ---------------------------------------------------------------------------------------------------------


def test_a_loaded_model_gives_bit_for_bit_the_answers_of_the_saved_one(saved, network, preprocessor, cohort):
    model = load_model(saved)
    assert model.preprocessor == preprocessor
    assert model.network.config == network.config
    one, other = answers(network, preprocessor, cohort), answers(model.network, model.preprocessor, cohort)
    for name in SIGNALS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert not model.network.training


def test_a_loaded_model_knows_its_name_records_and_calibration(saved, network, preprocessor, cohort):
    model = load_model(saved)
    assert (model.name, model.folder) == ("tiny", saved)
    assert {part: model.records(part).tolist() for part in SPLIT} == SPLIT
    a = answers(network, preprocessor, cohort)
    expected = model.calibration.pooled.a * a.deviation + model.calibration.pooled.b
    np.testing.assert_allclose(model.calibration.scale(a.deviation, a.variable), expected, rtol=1e-6)
    assert model.provenance()["model_digest"] == model.digest
    assert len(model.digest) == 32


def test_saving_other_weights_removes_the_calibration_of_the_old_ones(folder, preprocessor):
    save_model(folder, build(MODEL, 1), preprocessor, {"split": SPLIT})
    model = load_model(folder)
    assert model.calibration is None
    with pytest.raises(CalibrationError, match=r"model tiny is not calibrated: run levyscreen calibrate .*tiny COHORT"):
        model.require_calibration()


def test_members_of_an_ensemble_are_loaded_beside_the_model(folder):
    for seed in (1, 2):
        save_member(folder, seed, build(MODEL, seed))
    members = load_members(load_model(folder))
    for seed, member in zip((1, 2), members, strict=True):
        assert torch.equal(member.head.layers[0].weight, build(MODEL, seed).head.layers[0].weight)
        assert not member.training


def test_nothing_temporary_is_left_beside_a_saved_model(saved):
    names = {"model.safetensors", "config.json", "preprocessor.json", "calibration.json", "manifest.json"}
    assert {path.name for path in saved.iterdir()} == names


# Refused ------------------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


def test_a_pickle_by_the_name_of_the_weights_is_refused_and_its_code_does_not_run(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelError, match=r"tiny/model\.safetensors is not a whole safetensors file"):
        load_model(folder)
    torch.save({"weights": Bomb()}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"tiny/model\.safetensors is not a whole safetensors file"):
        load_model(folder)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_cut_weights_file_is_refused(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"tiny/model\.safetensors is not a whole safetensors file"):
        load_model(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_with_their_name(folder, value):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["decode.key.weight"][0, 0] = value
    save_file(tensors, path)
    with pytest.raises(ModelError, match=r"model\.safetensors holds weights that are not finite, in decode\.key\.weig"):
        load_model(folder)


def test_weights_of_another_network_are_refused(folder):
    edit(folder / "config.json", lambda data: data["model"].update(width=32))
    with pytest.raises(ModelError, match=r"model\.safetensors holds other weights than config\.json describes"):
        load_model(folder)


@pytest.mark.parametrize("number", [2, 0, None, "1"])
def test_another_format_number_is_refused(folder, number):
    edit(folder / "config.json", lambda data: data.update(format=number))
    with pytest.raises(ModelError, match=rf"config\.json has format {number!r}; this version reads 1"):
        load_model(folder)


def test_a_preprocessor_of_another_vocabulary_is_refused(folder):
    edit(folder / "config.json", lambda data: data["model"].update(variables=5))
    with pytest.raises(ModelError, match=r"fit together: 5 variables in config\.json, 4 in preprocessor\.json"):
        load_model(folder)


def test_a_calibration_of_other_variables_is_refused(folder):
    edit(folder / "calibration.json", lambda data: data["calibrations"][0].update(variables=["HR", "A", "B", "C"]))
    with pytest.raises(ModelError, match=r"tiny/calibration\.json is of a model with other variables"):
        load_model(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "preprocessor.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"tiny/{name} "):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "preprocessor.json", "calibration.json"])
def test_json_that_is_none_is_refused_with_the_file(folder, name):
    (folder / name).write_text("{half")
    with pytest.raises(ModelError, match=f"tiny/{name} cannot be read"):
        load_model(folder)
    (folder / name).write_text("[]")
    with pytest.raises(ModelError, match=f"tiny/{name} is not a JSON object"):
        load_model(folder)
    (folder / name).write_text("[" * 100_000)
    with pytest.raises(ModelError, match=f"tiny/{name} cannot be read"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda data: data["model"].update(colour="blue")),
        ("config.json", lambda data: data.pop("model")),
        ("config.json", lambda data: data.pop("training")),
        ("config.json", lambda data: data["model"].update(decode="other")),
        ("preprocessor.json", lambda data: data.pop("mean")),
        ("preprocessor.json", lambda data: data["mean"].pop()),
        ("preprocessor.json", lambda data: data.update(scale=[1.0, "a", 1.0, 1.0])),
        ("preprocessor.json", lambda data: data.update(scale=[1.0, 0.0, 1.0, 1.0])),
        ("preprocessor.json", lambda data: data.update(mean=[1.0, float("nan"), 1.0, 1.0])),
        ("calibration.json", lambda data: data.pop("calibrations")),
        ("calibration.json", lambda data: data["calibrations"][0].pop("a")),
        ("calibration.json", lambda data: data["calibrations"][0].update(format=9)),
    ],
)
def test_a_file_with_the_wrong_keys_or_numbers_is_refused_by_name(folder, name, change):
    edit(folder / name, change)
    with pytest.raises(ModelError, match=f"tiny/{name}"):
        load_model(folder)


def test_what_a_folder_does_not_remember_of_its_training_is_named_when_it_is_needed(folder):
    edit(folder / "config.json", lambda data: data["training"].pop("settings"))
    model = load_model(folder)
    with pytest.raises(ModelError, match=r"tiny/config\.json does not say settings\.seed of its training"):
        model.remembered("settings", "seed")


def test_a_cohort_of_other_stays_than_the_models_is_refused(folder, cohort):
    edit(folder / "preprocessor.json", lambda data: data["variables"].update(horizon_hours=24.0))
    with pytest.raises(ModelError, match="cohort tiny has stays of 48 hours, the model was made for 24"):
        load_model(folder).preprocessor.apply(cohort)


def test_a_link_that_leads_nowhere_is_no_model_without_calibration(folder):
    (folder / "calibration.json").unlink()
    (folder / "calibration.json").symlink_to("nowhere")
    with pytest.raises(ModelError, match=r"tiny/calibration\.json cannot be read: it is missing, or no file"):
        load_model(folder)


def test_a_flipped_bit_in_the_weights_is_refused(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"tiny/model\.safetensors is damaged: it is not what was written with its"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda data: data["model"].update(tau=0.25)),
        ("preprocessor.json", lambda data: data["mean"].reverse()),
        ("calibration.json", lambda data: data["calibrations"][0].update(signal="disagreement")),
    ],
)
def test_a_number_changed_in_a_sealed_file_is_refused_though_it_can_be_read(folder, name, change):
    edit(folder / name, change, seal=False)
    with pytest.raises(ModelError, match=rf"tiny/{name} is damaged"):
        load_model(folder)


def test_a_folder_without_a_manifest_is_refused_until_its_owner_seals_it(folder):
    for name in ("config.json", "preprocessor.json", "calibration.json"):
        edit(folder / name, lambda data: (data.pop("digest"), data.pop("weights", None)))
    (folder / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"tiny/manifest\.json is missing, .* by python -m levyscreen\.store .*tiny$"):
        load_model(folder)
    assert seal_folders([str(folder)]) == 0
    assert load_model(folder).name == "tiny"


def test_a_folder_that_is_no_model_is_not_sealed(folder, capsys):
    (folder / "manifest.json").unlink()
    (folder / "preprocessor.json").write_text("{}")
    assert seal_folders([str(folder)]) == 1
    assert "is left as it is" in capsys.readouterr().err
    assert not (folder / "manifest.json").exists()


# The weights are the ones that config.json does not name, whichever of the two is another training's.
CULPRITS = {name: name for name in ("preprocessor.json", "calibration.json", "model.safetensors")}
CULPRITS["config.json"] = "model.safetensors"


@pytest.mark.parametrize("name", CULPRITS)
def test_a_file_of_another_training_is_refused_by_its_name(folder, tmp_path, name, preprocessor):
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    first, *further = load_model(folder).calibrations.values()
    save_model(other, build(MODEL, 5), replace(preprocessor, mean=tuple(m + 1 for m in preprocessor.mean)), {})
    moved = replace(first, provenance=first.provenance | {"records": 7})
    save_calibrations(load_model(other), [moved, *further], RECORDS.empty_table())
    shutil.copy(other / name, folder / name)
    with pytest.raises(ModelError, match=rf"{CULPRITS[name]} is damaged: it is not what was written"):
        load_model(folder)


def test_a_calibration_that_is_gone_or_was_never_there_is_told_of(folder, preprocessor):
    kept = (folder / "calibration.json").read_bytes()
    (folder / "calibration.json").unlink()
    with pytest.raises(ModelError, match=r"calibration\.json is missing, and manifest\.json names it"):
        load_model(folder)
    save_model(folder, build(MODEL, 2), preprocessor, {"split": SPLIT})
    (folder / "calibration.json").write_bytes(kept)
    with pytest.raises(ModelError, match=r"calibration\.json is not of this model, for manifest\.json does not name"):
        load_model(folder)


def test_a_write_that_is_killed_between_two_renames_leaves_a_model_that_loads(folder, monkeypatch):
    model, renames = load_model(folder), []
    for last in range(3):
        renames.clear()

        def killed(source, target, last=last):
            renames.append(target)
            if len(renames) > last:
                raise KeyboardInterrupt
            os.rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", killed)
            with pytest.raises(KeyboardInterrupt):
                save_calibrations(model, list(model.calibrations.values())[:1], RECORDS.empty_table())
        assert load_model(folder).calibration is not None
    save_calibrations(load_model(folder), list(model.calibrations.values()), RECORDS.empty_table())
    assert not (folder / ".manifest.json").exists()


def test_new_weights_beside_an_old_configuration_are_refused_as_a_save_cut_short(folder):
    save_weights(folder / "model.safetensors", build(MODEL, 1))
    with pytest.raises(ModelError, match=r"damaged: .* train anew \(--resume, if a training was cut short\)"):
        load_model(folder)


def test_new_weights_end_the_old_ensemble(folder, preprocessor):
    """Its members were trained on another split, whose training records may be among these test records."""
    save_member(folder, 1, build(MODEL, 1))
    save_model(folder, build(MODEL, 2), preprocessor, {"split": SPLIT})
    assert load_members(load_model(folder)) == []
    assert not member_path(folder, 1).exists()


def test_weights_that_no_configuration_names_are_no_member(folder):
    save_weights(member_path(folder, 1), build(MODEL, 1))
    model = load_model(folder)
    assert not has_member(folder, 1)
    assert load_members(model) == []
    with pytest.raises(ModelError, match=r"member-1\.safetensors is not of this ensemble: config\.json"):
        load_members(model, seeds=[1])
    save_member(folder, 1, build(MODEL, 1))
    assert has_member(folder, 1)


def test_a_damaged_member_is_refused(folder):
    path = save_member(folder, 1, build(MODEL, 1))
    assert len(load_members(load_model(folder))) == 1
    save_weights(path, build(MODEL, 2))
    with pytest.raises(ModelError, match=r"tiny/member-1\.safetensors is damaged"):
        load_members(load_model(folder))


def test_every_file_of_the_shipped_models_is_sealed():
    for name in ("physionet2012", "physionet2012-paper"):
        folder = find(name)
        config = json.loads((folder / "config.json").read_text())
        assert set(config["weights"]) == {path.name for path in folder.glob("*.safetensors")}
        for path in set(folder.glob("*.json")) - {folder / "card.json"}:  # which people fill in
            assert "digest" in json.loads(path.read_text())


# Shipped models -----------------------------------------------------------------------------------------------------


def test_shipped_models_load_by_name_from_any_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, protocol in (("physionet2012", "ours"), ("physionet2012-paper", "paper")):
        model = load_model(name)
        assert (model.name, model.preprocessor.protocol.name) == (name, protocol)
        first, cheap = (
            ("meta_model", "meta_model_without_deviation") if protocol == "ours" else ("deviation", "sigma_hat")
        )
        assert model.calibration.signal == first
        assert model.calibration.rankable
        assert model.timeline_calibration(with_deviation=False).signal == cheap
        assert model.timeline_calibration(with_deviation=True).signal == first
        size = sum(p.numel() for p in model.network.parameters())
        assert size == (797_363 if protocol == "ours" else 687_365)


def test_the_default_is_the_shipped_model(shipped):
    assert load_model().digest == shipped.digest


def test_an_unknown_name_lists_what_is_shipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ModelError, match="no model 'physionet2013': shipped are physionet2012, physionet2012-paper; or"
    ):
        find("physionet2013")


def test_a_folder_of_another_name_here_is_taken_by_its_path(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert load_model("tiny").name == "tiny"
    assert load_model(Path("tiny")).name == load_model(folder).name


def test_a_model_knows_which_cohorts_it_has_met(folder, preprocessor):
    save_model(folder, build(MODEL, 1), preprocessor, {"split": SPLIT, "cohort_fingerprint": "a"})
    model = load_model(folder)
    assert (model.met("a"), model.met("b")) == ("trained", None)


def test_provenance_tells_two_calibrations_apart(saved):
    model = load_model(saved)
    (name, one), *_ = model.calibrations.items()
    other = replace(model, calibrations={name: replace(one, b=2 * one.b)})
    assert model.provenance()["calibration_digest"] == load_model(saved).provenance()["calibration_digest"]
    assert model.provenance()["calibration_digest"] != other.provenance()["calibration_digest"]
    assert model.provenance()["model_digest"] == other.provenance()["model_digest"]
