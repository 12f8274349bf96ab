"""The report of a screening: one HTML file that asks for nothing, runs nothing and can be handed on or printed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levyscreen import outputs
from levyscreen.config import WIDTH_LEVEL
from levyscreen.errors import UsageError
from levyscreen.names import printable
from levyscreen.records.alignment import left_out
from levyscreen.records.described import patients_of
from levyscreen.report import curves, rejected, tables, who
from levyscreen.report.asking import Asked, ask_again, refuse_another
from levyscreen.report.finding import Finding
from levyscreen.report.timelines import GRID, courses, picture

if TYPE_CHECKING:
    from jinja2 import Environment

    from levyscreen.records.cohort import Cohort
    from levyscreen.report.screened import Screened
    from levyscreen.report.who import Outcomes
    from levyscreen.store import Model

MOST_PICTURE_BYTES = 8_000_000  # where no number of patients is given, so that a page of 4,000 records can be sent
REASONS = {
    "thin_evidence": "little in the record bears on the queries",
    "conflict": "what was found in the record conflicts",
    "both": "little was found, and what was found conflicts",
}


def require_jinja() -> None:
    """Raises UsageError, naming the extra, where Jinja is absent; to be asked before a long computation."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise UsageError("report needs jinja2: pip install 'levyscreen[report]'") from None


def report(
    screened: Screened,
    cohort: Cohort,
    model: Model,
    outcomes: Outcomes | None = None,
    patients: int | None = None,
    command: tuple[str, ...] = (),
    done: Callable[[int], None] = lambda records: None,
) -> str:
    """The report as HTML; the same folder, cohort and model give the same text.

    `patients` is how many flagged patients are drawn, by default as many as fit into 8 MB; `command` are the words that
    asked for it, to be told. Raises UsageError where cohort or model are not those of the screening or nothing was
    scored, CalibrationError where the model has no calibration or none at 90 %.
    """
    require_jinja()
    model.require_calibration().level_index(WIDTH_LEVEL)
    refuse_another(screened, cohort, model)
    scored = screened.scores[screened.scores["status"] == "scored"]
    asked = ask_again(screened, cohort, model, done)
    environment = _environment()
    pictures = dict(_pictures(environment, screened, model, asked, patients))
    covered = curves.intervals(asked, patients_of(cohort.records, asked.record), model.require_calibration())
    sheet = _read("report.css")
    page: str = environment.get_template("report.html.j2").render(
        sheet=_safe(sheet),
        sheet_digest=base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode(),
        facts=screened.provenance,
        timing=screened.timing,
        commands=[("levyscreen", *words) for words in (screened.command, command) if words],
        counts=_counts(screened),
        flagged=_flagged(screened, pictures),
        reasons=REASONS,
        level=WIDTH_LEVEL,
        in_deviations=tables.in_deviations(screened.provenance["signal"]),
        met=model.met(cohort.fingerprint),
        ranking=curves.ranking(asked, scored),
        intervals=covered,
        finding=_finding(screened, covered),
        of_patients=_patients(asked, cohort),
        times=GRID,
        comparison=None if screened.comparison is None else screened.comparison.to_dict("records"),
        groups=who.groups(scored, cohort.records, outcomes),
        has_outcomes=outcomes is not None,
        lines=rejected.lines(cohort, screened.rejects),
        otherwise=left_out(cohort, model.preprocessor.variables),
        unranked=rejected.unranked(screened.scores, cohort.records),
    )
    return page


def _finding(screened: Screened, covered: dict[str, Any]) -> Finding | None:
    share = [row["share"] for row in covered["rows"] if row["level"] == WIDTH_LEVEL]
    return Finding.of_scores(screened.scores, screened.provenance["flag"], share[0] if share else None)


def _patients(asked: Asked, cohort: Cohort) -> int | None:
    """How many patients the ranked records are of; None where each is of its own."""
    records = np.unique(asked.record)
    found = len(np.unique(patients_of(cohort.records, records)))
    return found if found < len(records) else None


def write(path: Path, page: str) -> None:
    """Writes the page whole or not at all, for its owner alone: it holds patients' data."""
    outputs.write_text(path, page, shared=False)


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _inert(value: Any) -> Any:
    """Names that others chose show whatever they hold; what was escaped before is left."""
    return printable(value) if type(value) is str else value


def _safe(text: str) -> Any:
    """Text of the package's own that is not to be escaped."""
    from markupsafe import Markup

    return Markup(text)


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _pictures(
    environment: Environment,
    screened: Screened,
    model: Model,
    asked: Asked,
    patients: int | None,
) -> Iterator[tuple[int, Any]]:
    """An SVG element for each flagged record, the least trusted first, as many as are wanted."""
    if patients == 0:
        return
    template = environment.get_template("timeline.svg.j2")
    scores = screened.scores[screened.scores["flagged"]].dropna(subset="record_id")
    worst = [tuple(filter(None, names.split(";"))) for names in scores["worst_variables"]]
    variables = dict(zip(scores["record_id"].tolist(), worst, strict=True))
    total = 0
    hours = model.preprocessor.variables.horizon_hours
    for place, (record_id, drawn) in enumerate(courses(model, asked, variables, WIDTH_LEVEL), 1):
        text = template.render(picture=picture(record_id, drawn, hours), record_id=record_id)
        total += len(text)
        if patients is None and total > MOST_PICTURE_BYTES:
            return
        yield record_id, _safe(text)
        if place == patients:
            return


def _counts(screened: Screened) -> dict[str, Any]:
    scores = screened.scores
    scored, flagged = scores[scores["status"] == "scored"], scores[scores["flagged"]]
    error = float(flagged["mae"].mean()), float(scored.loc[~scored["flagged"].astype(bool), "mae"].mean())
    return {
        "records": len(scores),
        "scored": len(scored),
        "flagged": len(flagged),
        "hidden": int(scored["n_hidden"].sum()),
        "by_reason": {reason: int((flagged["reason"] == reason).sum()) for reason in REASONS},
        "no_reason": int(flagged["reason"].isna().sum()),
        "error_flagged": error[0],
        "error_others": error[1],
    }


def _flagged(screened: Screened, pictures: dict[int, Any]) -> list[dict[str, Any]]:
    """A row for each flagged record, the least trusted first."""
    frame = screened.scores[screened.scores["flagged"]]
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]
    for row in rows:
        row["reason"] = row["reason"] if isinstance(row["reason"], str) else ""  # pandas may hold none as NaN
        row["worst_variables"] = (row["worst_variables"] or "").replace(";", ", ")
        row["picture"] = pictures.get(row["record_id"])
    return rows
