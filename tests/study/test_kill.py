"""A study killed at any moment and called again ends in the tables of one that was not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from levyscreen.study import tables
from levyscreen.study.results import Results

NAMES = "disagreement,deviation,draws-prediction,laplace,dropout,variance-head,nll,ensemble"
RUNS = {"interpolation": set(NAMES.split(",")), "cohort": set(NAMES.split(",")), "stress": {"levy"}}
SCRIPT = f"""
import sys, torch
from pathlib import Path
from levyscreen.study.ranking import rank
from levyscreen.study.results import Results
from levyscreen.study.stress import stress
from tests.study.tiny import tiny_stage
torch.set_num_threads(1)
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for study in ("interpolation", "cohort"):
    rank(tiny_stage(folder), Results(folder / "results", study), {NAMES.split(",")})
stress(tiny_stage(folder), Results(folder / "results", "stress"))
"""
ROOT = Path(__file__).parents[2]


def started(folder):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder)], cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}
    )


def killed_at(folder, done):
    """Kills a study once it has that many results, in the midst of the next, or while it trains where it has none."""
    process = started(folder)
    what = "results/*/*/*/*.json" if done else "runs/*/*/*/training/*.safetensors"
    while process.poll() is None and len(list(folder.glob(what))) < max(done, 1):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # else it had ended before, and nothing was killed


def figures(folder, study):
    table = tables.long_table(Results(folder / "results", study))
    return table[(table["figure"] != "seconds") & table["mean"].notna()].reset_index(drop=True)


def test_kills_in_a_training_and_between_runs_change_no_figure(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for done in (0, 1, 4, 10, 16):
        killed_at(killed, done)
    assert started(killed).wait() == 0
    assert started(whole).wait() == 0
    for study, names in RUNS.items():
        pd.testing.assert_frame_equal(figures(killed, study), figures(whole, study))
        ours = figures(whole, study).dropna(subset="seeds")["name"]
        assert {name.split(", ")[0] for name in ours} == names
