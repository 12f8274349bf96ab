"""Tables of rankings in README.md and docs/measured.md, from `studies`: `python -m docs.rankings` writes them anew."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from levyscreen.estimators.registry import ESTIMATORS

ROOT = Path(__file__).parents[1]
HEAD = "| what ranks | passes | seeds | error | AUSE | Spearman by patient | flagged tenth |\n|-|-|-|-|-|-|-|\n"
ROWS = {
    "disagreement": "disagreement",
    "deviation": "deviation",
    "rich": "all signals read together by a small network",
    "dropout": "Monte Carlo dropout",
    "ensemble": "spread of five networks",
    "softmax-dispersion": "spread of a softmax layer's values",
    "variance-head": "variance head, fitted on the network afterwards",
    "nll": "scale of an NLL head",
    "beta-nll": "scale of a beta-NLL head",
    "tnp-d": "scale of a TNP-D",
    "variable-error": "each variable's mean error",
}


def rankings(calibrated: bool) -> str:
    """As they are, with the paper's figures in brackets, or calibrated by variable, which the paper has not."""
    kind = "by_variable_" if calibrated else ""
    of = {study: pd.read_parquet(ROOT / "studies" / study / "table.parquet") for study in ("interpolation", "cohort")}
    cells = {
        (study, row.name, row.figure): row
        for study, table in of.items()
        for row in table[table["dataset"] == "physionet2012"].itertuples(index=False)
    }
    lines = []
    for name, title in ROWS.items():
        figures = (
            (cells["interpolation", name, "mae"], _three),
            (cells["interpolation", name, f"{kind}ause"], _three),
            (cells["cohort", name, f"{kind}patient_spearman"], _two),
            (cells["cohort", name, f"{kind}patient_flagged_decile_excess"], _percent),
        )
        said = (
            f"{title}, what ranks by default in the paper's protocol" if calibrated and name == "deviation" else title
        )
        found = [said, str(ESTIMATORS[name].passes), f"{figures[0][0].seeds:.0f}"]
        for row, shown in figures:
            paper = "" if calibrated or math.isnan(row.paper_mean) else f" ({shown(row.paper_mean, row.paper_std)})"
            found.append(shown(row.mean, row.std) + paper)
        lines.append(f"| {' | '.join(found)} |\n")
    return HEAD + "".join(lines)


def _three(mean: float, std: float) -> str:
    return f"{mean:.3f}" + ("" if math.isnan(std) else f" ± {std:.3f}")


def _two(mean: float, std: float) -> str:
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" ± {std:.2f}")


def _percent(mean: float, std: float) -> str:
    return f"{100 * mean:+.1f}" + ("" if math.isnan(std) else f" ± {100 * std:.1f}") + " %"


def page(path: Path, calibrated: bool) -> str:
    """A document with its table anew."""
    before, rest = path.read_text(encoding="utf-8").split(HEAD)
    after = rest[rest.index("\n\n") + 1 :]
    return before + rankings(calibrated) + after


PAGES = {ROOT / "README.md": True, ROOT / "docs" / "measured.md": False}

if __name__ == "__main__":
    for path, calibrated in PAGES.items():
        path.write_text(page(path, calibrated), encoding="utf-8")
