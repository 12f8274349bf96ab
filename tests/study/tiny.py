"""A study of a made-up cohort with tiny networks."""

import torch

from levyscreen.config import TrainingConfig
from levyscreen.study.datasets import Dataset
from levyscreen.study.networks import Networks
from levyscreen.study.stage import Stage
from tests.learn.tiny import MODEL, PROTOCOL, tiny_cohort

SIZES = {k: v for k, v in MODEL.to_json().items() if k not in ("variables", "decode", "head")}
CPU = torch.device("cpu")


def tiny_stage(folder, training=True, seed=3):
    recipe = TrainingConfig(epochs=2, batch_records=8, peak_rate=5e-3)
    paths = folder / "a", folder / "b"
    dataset = Dataset("physionet2012", "tiny", *paths, lambda path: tiny_cohort(40, 9), {}, PROTOCOL, recipe)
    networks = Networks(dataset, seed, folder / "runs", tiny_cohort(), CPU, training, sizes=SIZES)
    (folder / "b").touch()
    return Stage(networks, folder)
