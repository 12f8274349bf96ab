"""Every stage against what a user would run instead, and against the machine: `python -m benchmarks [COHORT]`.

All ratios are of one run. COHORT is set-b or another PhysioNet-2012 cohort; by default ../shared/data's, or else the
sample in examples/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks import ceilings, ingest, operator, stages
from benchmarks.table import markdown
from levyscreen import load_model, machine, read_cohort

COHORTS = (Path("../shared/data/physionet2012/set-b.tar.gz"), Path("examples/set-b-sample"))


def main() -> None:
    """Print the machine, its ceilings, and the table."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("cohort", nargs="?", type=Path)
    parser.add_argument("--model", default="physionet2012-paper")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--records", type=int, default=256, help="of 20 to 512 readings, evenly chosen")
    options = parser.parse_args()
    machine.prepare()
    where = options.cohort or next(path for path in COHORTS if path.exists())
    device = machine.device(options.device)
    model = load_model(options.model, device)
    cohort = read_cohort(where)
    readings = model.preprocessor.apply(cohort)
    rows = np.flatnonzero((readings.lengths >= 20) & (readings.lengths <= 512))
    chosen = readings.take(rows[:: max(1, len(rows) // options.records)][: options.records])
    limits = ceilings.measure(device)
    described = machine.describe(device)
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    print(f"{where.name}: {len(chosen)} records of 20 to 512 readings; model {model.name}")
    print(f"ceilings: {limits}\n")
    few = chosen.take(np.arange(0, len(chosen), 3))
    found = [
        *operator.rows(device, limits),
        *stages.screening(model, few, device, limits),
        *stages.timeline(model, cohort, chosen, device, limits),
        *stages.training(model, chosen, device, limits),
        *ingest.rows(where),
    ]
    print(markdown(found))


if __name__ == "__main__":
    main()
