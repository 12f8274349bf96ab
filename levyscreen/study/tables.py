"""Tables of a study's runs: each figure's mean and spread over seeds, with the paper's beside it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study import contests
from levyscreen.study.columns import BLOCKS, NOTES, ROWS, Columns
from levyscreen.study.datasets import DATASETS, title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from levyscreen.study.results import Results


KEYS = ["name", "figure", "seeds", "mean", "std", "paper_mean", "paper_std"]


def long_table(results: Results) -> pd.DataFrame:
    """A row for each (dataset, name, figure): seeds, mean and sample standard deviation, and the paper's two.

    Of each dataset that has a run, all rows of the paper.
    """
    runs = results.read()
    found = pd.DataFrame(
        [
            {"dataset": run["dataset"], "name": run["name"], "seed": run["seed"], "figure": figure, "value": value}
            for run in _by_group(_with_overlaps(_with_changes(runs)))
            for figure, value in run["figures"].items()
        ],
        columns=["dataset", "name", "seed", "figure", "value"],
    )
    by = ["dataset", "name", "figure"]
    ours = found.groupby(by, sort=False)["value"].agg(seeds="count", mean="mean", std="std", least="min", most="max")
    paper = paper_values(results.study).rename(columns={"mean": "paper_mean", "std": "paper_std"})
    paper = paper[paper["dataset"].isin(found["dataset"])]
    return ours.reset_index().merge(paper, on=by, how="outer").sort_values(by, ignore_index=True)


def paper_values(study: str) -> pd.DataFrame:
    """What the paper's tables say, by dataset, name and figure: table, mean and std."""
    with (files("levyscreen.study") / "paper.csv").open(encoding="utf-8") as file:
        values = pd.read_csv(file)
    return values[values["study"] == study].drop(columns="study")


def figures_of(run: dict[str, Any]) -> dict[str, float]:
    """A run's figures by the names that tables use; nested ones joined by an underscore, texts left out."""

    def walk(value: Any, name: str) -> Iterable[tuple[str, float]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from walk(inner, f"{name}_{key}" if name else str(key))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, float(value)

    apart = ("format", "seed", "machine", "curve", "levels")
    return dict(walk({key: value for key, value in run.items() if key not in apart}, ""))


POINT = "disagreement"  # the row whose error stands for the point model's, where there is one
WITHOUT_A_MODEL = ("interpolation", "last-value")  # their predictions are their own


def _with_changes(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs with their figures, among them what the error is against that of other runs of the same seed."""
    of_point = [run for run in runs if "mae" in run and run.get("reads", run["name"]) == "levy"]
    of_point = [run for run in of_point if run["name"] not in WITHOUT_A_MODEL]
    of_point.sort(key=lambda run: bool(run["name"] == POINT))  # the last one counts; they differ by rounding alone
    point = {_which(run): run["mae"] for run in of_point}
    control = {_which(run): run["mae"] for run in runs if run["name"] == "softmax"}
    found = []
    for run in runs:
        figures, which = figures_of(run), _which(run)
        if "mae" in figures and which in point:
            figures["mae_change"] = figures["mae"] / point[which] - 1
            figures["mae_over_mean_path"] = figures["mae"] / point[which]
        if "mae" in figures and which in control:
            figures["mae_over_control"] = figures["mae"] / control[which]
        found.append({**run, "figures": figures})
    return found


def _with_overlaps(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that flag patients with the share of their flags that another seed's run has too, the mean over others.

    So the mean over seeds is that over all pairs of them. A lone seed has none.
    """
    found = []
    for run in runs:
        shared = [np.isin(run["flagged"], other["flagged"]).mean() for other in _other_seeds(run, runs)]
        found.append(
            {**run, "figures": run["figures"] | ({"flag_overlap_trainings": np.mean(shared)} if shared else {})}
        )
    return found


def _other_seeds(run: dict[str, Any], runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of the same name that flag patients of the same cohort."""
    same = [r for r in runs if (r["dataset"], r["name"]) == (run["dataset"], run["name"]) and r["seed"] != run["seed"]]
    return [r for r in same if "flagged" in r and "flagged" in run]


def _by_group(runs: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Every run, then one for each of its groups and levels of context."""
    for run in runs:
        yield run
        for level in run.get("levels", ()):
            name = f"{run['name']}, {100 * level['kept']:03.0f} % of the context"
            yield {**run, "name": name, "figures": level | {"mae_rise": level["mae"] / run["levels"][0]["mae"] - 1}}
        for group in run.get("groups", ()):
            yield {**run, "name": f"{run['name']}, {group['by']} {group['group']}", "figures": figures_of(group)}


def _which(run: dict[str, Any]) -> tuple[str, int]:
    return run["dataset"], run["seed"]


def markdown(results: Results) -> str:
    """The study's tables, one a dataset and block of columns."""
    table, parts, runs = long_table(results), [], _with_changes(results.read())
    if results.study in NOTES:
        parts.append(NOTES[results.study])
    known = [name for name in DATASETS if name in set(table["dataset"])]
    for name in [*known, *sorted(set(table["dataset"]) - set(known))]:
        of_dataset, called = table[table["dataset"] == name], title_of(name)
        if results.study != "continuum":  # which asks a grid, and hides nothing
            parts.extend(_asked([run for run in runs if run["dataset"] == name], called))
        for title, columns in BLOCKS.get(results.study, ()):
            if len(block := _block(of_dataset, columns, results.study)) > 1:
                parts.append(f"### {called}: {title}\n\n{_table(block)}")
            if "flag_overlap_trainings" in columns:
                parts.extend(_on_overlaps([run for run in runs if run["dataset"] == name]))
        if len(apart := _apart(of_dataset, results.study)) > 1:
            parts.append(f"### {called}: more than two of the paper's standard deviations from it\n\n{_table(apart)}")
        if len(against := contests.lines([run for run in runs if run["dataset"] == name])) > 1:
            parts.append(f"### {called}: one against another, seed by seed\n\n{_table(against)}")
    return "\n\n".join(parts) + "\n"


def _asked(runs: Sequence[dict[str, Any]], called: str) -> list[str]:
    """On how many records and hidden readings the figures of each seed stand; nothing where the runs do not say."""
    counts = {run["seed"]: (run["records"], run["queries"]) for run in runs if {"records", "queries"} <= run.keys()}
    if not counts:
        return []
    records, queries = (_range(values) for values in zip(*counts.values(), strict=True))
    return [f"{called}: each seed's figures are of {records} records and {queries} hidden readings."]


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _apart(table: pd.DataFrame, study: str) -> list[list[str]]:
    """Cells of a table: its head, then each figure that the paper has over seeds and ours is far from."""
    lines = [["", "figure", "seeds", "here", "the paper", "in its deviations"]]
    figures = {figure: title for _, columns in BLOCKS.get(study, ()) for figure, title in columns.items()}
    far = table[(table["mean"] - table["paper_mean"]).abs() > 2 * table["paper_std"]]
    rank = {name: place for place, name in enumerate(_in_order(table, study))}
    for row in sorted(far[KEYS].itertuples(index=False), key=lambda row: rank[row[0]]):
        name, figure, seeds, mean, std, paper_mean, paper_std = row
        if figure in figures:
            title, digits = figures[figure]
            here, paper = _spread(mean, std, digits), _spread(paper_mean, paper_std, digits)
            away = f"{(mean - paper_mean) / paper_std:+.1f}"
            lines.append([_title(name, study), title, str(int(seeds)), here, paper, away])
    return lines


def _in_order(table: pd.DataFrame, study: str) -> list[str]:
    """Names of rows, in the order of the study's and of the registry."""
    there = set(table["name"])
    return [name for name in dict.fromkeys([*ROWS.get(study, {}), *ESTIMATORS, *table["name"]]) if name in there]


def _title(name: str, study: str) -> str:
    """Of a row: an estimator's, the study's own, or the name itself."""
    return ROWS.get(study, {}).get(name, ESTIMATORS[name].title if name in ESTIMATORS else name)


def _on_overlaps(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Of what the flags of several trainings are compared, or why they are not; nothing where no patient is ranked."""
    seeds = sorted({run["seed"] for run in runs if "flagged" in run})
    if len(seeds) > 1:
        listed = ", ".join(map(str, seeds))
        return [f"Flags of other trainings: over all pairs of the seeds {listed}; chance alone shares a tenth."]
    if seeds:
        return [f"Flags of other trainings: none yet, seed {seeds[0]} is the only one."]
    ranked = any("flag_overlap_hidings" in run for run in runs)
    return ["Flags of other trainings: none, every seed has other test records."] if ranked else []


def _block(table: pd.DataFrame, columns: Columns, study: str) -> list[list[str]]:
    """Cells of a table: its head, then a row a name, in the order of `_in_order`; ours, in brackets the paper's."""
    cells = {(name, figure): rest for name, figure, *rest in table[KEYS].itertuples(index=False)}
    names = _in_order(table, study)
    about = ["passes", "labels"] if ESTIMATORS.keys() & set(names) else []
    lines = [["", *about, "seeds", *(title for title, _ in columns.values())]]
    for name in names:
        found = {figure: cells.get((name, figure)) for figure in columns}
        if any(cell is not None for cell in found.values()):
            known = ESTIMATORS.get(name)
            says = ["1", ""] if known is None else [str(known.passes), "yes" if known.needs_labels else ""]
            seeds = max(0 if cell is None or np.isnan(cell[0]) else int(cell[0]) for cell in found.values())
            of_row = [_cell(found[figure], digits) for figure, (_, digits) in columns.items()]
            lines.append([_title(name, study), *says[: len(about)], str(seeds), *of_row])
    return lines


def _table(lines: Sequence[Sequence[str]]) -> str:
    """As Markdown; the first line is the head."""
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["-"] * len(head), *rest))


def _cell(found: list[float] | None, digits: int) -> str:
    """`ours ± std (paper ± std)`, what there is of it."""
    if found is None:
        return ""
    _, mean, std, paper_mean, paper_std = found
    ours, paper = _spread(mean, std, digits), _spread(paper_mean, paper_std, digits)
    return f"{ours or '-'} ({paper})" if paper else ours


def _spread(mean: float, std: float, digits: int) -> str:
    if np.isnan(mean):
        return ""
    rounded = round(mean, digits) + 0.0  # no minus before a nought
    return f"{rounded:.{digits}f}" + ("" if np.isnan(std) else f" ± {std:.{digits}f}")
