"""What the documents claim of a screened cohort: python -m benchmarks.claims OUT [--outcomes Outcomes-b.txt].

OUT is the folder of `levyscreen screen COHORT --queries --out OUT`. Prints how well the uncertainty ranks patients and
readings beside record length and chance, with 95 % intervals from bootstrap samples of the patients. With
outcomes, also whether flagged patients are sicker than others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from levyscreen import load_model
from levyscreen.calibrate import ause, flagged_excess, spearman

SAMPLES, SEED = 1_000, 0  # of the bootstrap
Floats = NDArray[np.float64]


def interval(figure: Callable[[Floats, Floats], float], signal: Floats, error: Floats) -> str:
    """A figure of all patients, with the 2.5 and 97.5 % points of it over bootstrap samples of them."""
    draw = np.random.default_rng(SEED)
    found = [figure(signal[i], error[i]) for i in draw.integers(0, len(error), (SAMPLES, len(error)))]
    low, high = np.quantile(found, [0.025, 0.975])
    return f"{figure(signal, error):.3f} ({low:.3f} to {high:.3f})"


def patients(scored: pd.DataFrame) -> str:
    """A row per ranking score."""
    chance = np.random.default_rng(SEED).random(len(scored))
    rankings = {
        "uncertainty": scored["uncertainty"],
        "least evidence": -scored["evidence"],
        "fewest readings": -scored["n_readings"],
        "most readings": scored["n_readings"],
        "at random": chance,
    }
    error = scored["mae"].to_numpy(float)
    lines = ["| patients ranked by | Spearman | excess error of the top decile |", "|-|-|-|"]
    for name, signal in rankings.items():
        signal = np.asarray(signal, float)
        lines.append(f"| {name} | {interval(spearman, signal, error)} | {interval(flagged_excess, signal, error)} |")
    return "\n".join(lines)


def readings(queries: pd.DataFrame, scale: dict[str, float]) -> str:
    """AUSE of held-out readings, its random level, and how the error falls as readings or patients are set aside."""
    error = ((queries["prediction"] - queries["truth"]).abs() / queries["variable"].astype(str).map(scale)).to_numpy()
    order = queries["uncertainty"].to_numpy(float)
    chance = np.random.default_rng(SEED).random(len(error))
    by_patient = queries.groupby("record_id")["uncertainty"].mean()
    of_its_patient = queries["record_id"].map(by_patient).to_numpy(float)
    kept = {
        "readings": order <= np.quantile(order, 0.9),
        "patients": of_its_patient <= by_patient.quantile(0.9),
    }
    falls = ", ".join(f"of {name} {error[rest].mean() / error.mean() - 1:+.1%}" for name, rest in kept.items())
    return (
        f"{len(error):,} held-out readings: AUSE {ause(order, error):.3f}, at random {ause(chance, error):.3f}\n"
        f"error of the rest without the most uncertain tenth {falls}"
    )


def sickness(scored: pd.DataFrame, outcomes: Path) -> str:
    """Mortality and SOFA of the top decile and of the others."""
    table = scored.merge(pd.read_csv(outcomes), left_on="record_id", right_on="RecordID", validate="one_to_one")
    table = table[table["SOFA"] >= 0]  # -1 is unknown
    top, rest = table[table["decile"] == 1], table[table["decile"] > 1]
    died = [100 * part["In-hospital_death"].mean() for part in (top, rest)]
    sofa = [part["SOFA"].median() for part in (top, rest)]
    severity, error = table["SOFA"].to_numpy(float), table["mae"].to_numpy(float)
    return (
        f"mortality: top decile {died[0]:.1f} %, others {died[1]:.1f} %\n"
        f"median SOFA: top decile {sofa[0]:.0f}, others {sofa[1]:.0f}\n"
        f"SOFA against error: Spearman {interval(spearman, severity, error)}"
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--outcomes", type=Path)
    options = parser.parse_args()
    scores = pd.read_parquet(options.out / "scores.parquet")
    scored = scores[scores["status"] == "scored"]
    print(f"{len(scored):,} of {len(scores):,} records scored\n\n{patients(scored)}\n")
    if (options.out / "queries.parquet").exists():
        known = load_model(json.loads((options.out / "screening.json").read_text())["model"]).preprocessor
        scale = dict(zip(known.variables.names, known.scale, strict=True))
        print(readings(pd.read_parquet(options.out / "queries.parquet"), scale) + "\n")
    if options.outcomes:
        print(sickness(scored, options.outcomes))


if __name__ == "__main__":
    main()
