"""Tables of rankings in README.md and docs/measured.md, from `studies`: `python -m docs.rankings` rewrites them.

Each stands between `<!-- rankings: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd

from levyscreen.estimators.registry import ESTIMATORS

ROOT = Path(__file__).parents[1]
PAGES = {ROOT / "README.md": ("readme",), ROOT / "docs" / "measured.md": ("uncalibrated", "calibrated")}
README = {
    "rich": "**levyscreen** (meta-model on the signals)",
    "dropout": "Monte Carlo dropout",
    "ensemble": "ensemble of five networks",
    "features": "meta-model on features of the record alone",
    "record-length": "record length alone",
}
AS_IT_IS = ("record-length",)  # in the README: by variable it would also rank by which variables a record has
ROWS = {
    "disagreement": "disagreement",
    "deviation": "deviation (default of the paper's protocol)",
    "rich": "meta-model on all signals",
    "dropout": "Monte Carlo dropout",
    "ensemble": "spread of five networks",
    "softmax-dispersion": "spread of a softmax layer's values",
    "variance-head": "variance head, fitted on the network afterwards",
    "nll": "scale of an NLL head",
    "beta-nll": "scale of a beta-NLL head",
    "tnp-d": "scale of a TNP-D",
    "variable-error": "each variable's mean error",
    "features": "meta-model on features of the record alone",
    "interpolation": "linear interpolation, by its distance from the prediction",
    "last-value": "last value, by its distance from the prediction",
    "record-length": "record length alone",
    "by-lot": "random order",
}


def table(name: str) -> str:
    """Markdown: `readme` (set-b), `uncalibrated` (the paper's figures in brackets) or `calibrated` by variable."""
    kind = "" if name == "uncalibrated" else "by_variable_"
    cells = _cells()
    patient = [
        ("cohort", f"{kind}patient_spearman", _two),
        ("cohort", f"{kind}patient_flagged_decile_excess", _percent),
    ]
    if name == "readme":
        rows, columns = README, [("cohort", f"{kind}ause", _three), *patient]
        head = "| ranked by | passes | AUSE by reading | Spearman by patient | top decile |\n|-|-|-|-|-|\n"
    else:
        rows = ROWS
        columns = [("interpolation", "mae", _three), ("interpolation", f"{kind}ause", _three), *patient]
        head = "| ranked by | passes | seeds | error | AUSE | Spearman by patient | top decile |\n|-|-|-|-|-|-|-|\n"
    lines = []
    for estimator, title in rows.items():
        raw = name == "readme" and estimator in AS_IT_IS
        found = [
            cells.get((study, estimator, figure.removeprefix(kind) if raw else figure)) for study, figure, _ in columns
        ]
        seeds = [] if name == "readme" else [f"{next(row.seeds for row in reversed(found) if row is not None):.0f}"]
        shown = [
            "-" if row is None else _shown(row, form, name == "uncalibrated")
            for row, (_, _, form) in zip(found, columns, strict=True)
        ]
        lines.append(f"| {' | '.join([title, str(ESTIMATORS[estimator].passes), *seeds, *shown])} |\n")
    return head + "".join(lines)


def _cells() -> dict:
    of = {study: pd.read_parquet(ROOT / "studies" / study / "table.parquet") for study in ("interpolation", "cohort")}
    return {
        (study, row.name, row.figure): row
        for study, table in of.items()
        for row in table[table["dataset"] == "physionet2012"].itertuples(index=False)
    }


def _shown(row, form, with_paper: bool) -> str:
    paper = f" ({form(row.paper_mean, row.paper_std)})" if with_paper and not math.isnan(row.paper_mean) else ""
    return form(row.mean, row.std) + paper


def _three(mean: float, std: float) -> str:
    return f"{mean:.3f}" + ("" if math.isnan(std) else f" ± {std:.3f}")


def _two(mean: float, std: float) -> str:
    return f"{mean:.2f}" + ("" if math.isnan(std) else f" ± {std:.2f}")


def _percent(mean: float, std: float) -> str:
    return f"{100 * mean:+.1f}" + ("" if math.isnan(std) else f" ± {100 * std:.1f}") + " %"


def page(path: Path) -> str:
    """A document with its tables rewritten."""
    text = path.read_text(encoding="utf-8")
    for name in PAGES[path]:
        start = f"<!-- rankings: {name} -->\n"
        text, count = re.subn(
            f"{start}.*?<!-- end -->", lambda _, n=name, s=start: f"{s}{table(n)}<!-- end -->", text, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"{path}: {count} places for the table {name!r}, not 1")
    return text


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path), encoding="utf-8")
