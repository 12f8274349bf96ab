"""Pieces of work for a process that no command does in a way, or in a time, that suits a fault."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from levyscreen.learn.data import prepare
from levyscreen.learn.fit import fit
from levyscreen.records.cache import clear_cache, read_cohort
from levyscreen.store import load_model, save_model
from levyscreen.study.results import Results
from levyscreen.temporaries import replacing
from levyscreen.training import describe
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort


def read_often(path: str, clearing: str) -> None:
    """Reads a cohort again and again, and prints what it was each time; or clears the cache before each."""
    for _ in range(10):
        if clearing == "True":
            clear_cache()
        cohort = read_cohort(path)
        content = [*(a.tobytes() for a in vars(cohort.load()).values()), cohort.records.to_pylist()]
        print(cohort.fingerprint, cohort.notes, hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest())


def write_result(seed: str) -> None:
    """A result of a study, into the folder results."""
    figures = np.random.default_rng(int(seed)).random(200).tolist()
    Results(Path("results"), "interpolation").write("tiny", 0, "deviation", {"figures": figures})


def train_tiny(seed: str) -> None:
    """A training of a second, resumed where it was cut off, into the folder m."""
    cohort, config = tiny_cohort(40), replace(TRAINING, seed=int(seed), epochs=3)
    data = prepare(cohort, PROTOCOL, config.seed)
    state = Path("m") / f"training-{seed}"
    fitted = fit(data, MODEL, config, state, torch.device("cpu"), resume=True)
    save_model(Path("m"), fitted.network, data.preprocessor, describe(cohort, data, config, fitted))
    load_model(Path("m"))


def one_long_product(size: str) -> None:
    """A matrix product of many seconds on one core, in the midst of a write."""
    torch.set_num_threads(1)
    factor = torch.rand(int(size), int(size))
    with replacing(Path("product")) as temporary:
        temporary.write_bytes(b"half")
        print("computing", flush=True)
        while True:
            factor @ factor
