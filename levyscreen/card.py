"""A model's card, for people (README.md) and for machines (card.json), beside its weights.

What only a person can say is an empty text there, never made up. What a person has filled in, and whatever stands in
README.md under its last generated line, is kept when the card is written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levyscreen import outputs
from levyscreen.applied_card import UNSAID, describe
from levyscreen.errors import ModelError, UsageError
from levyscreen.report.card import MARK, card_markdown
from levyscreen.store import CARD, CARD_DATA, Model

if TYPE_CHECKING:
    from levyscreen.judging import Evaluation
    from levyscreen.records.cohort import Cohort


def write_card(model: Model, evaluation: Evaluation | None = None, why_not: str = "it was not evaluated") -> Path:
    """Writes both files into the model's folder; returns the path of README.md.

    Without an `evaluation` the card has no figures and says `why_not`. Raises ModelError for a card.json that is none.
    """
    page, data = model.folder / CARD, model.folder / CARD_DATA
    card = _with_kept(describe(model, evaluation, why_not), _former(data))
    outputs.write_json(data, card)
    text = card_markdown(model.name, card, list(empty(card)), evaluation)
    outputs.write_text(page, f"{text}\n{_kept_text(page)}")
    return page


def judged_apart(model: Model, cohort: Cohort) -> None:
    """Raises UsageError where the cohort set the model's intervals, so that they cannot be judged on it."""
    if calibrated_on(model, cohort):
        raise UsageError(
            f"{model.name} was calibrated on {cohort.name} itself: a card takes another cohort, which it never saw"
        )


def calibrated_on(model: Model, cohort: Cohort) -> bool:
    """Whether all records of the cohort set the model's intervals. Raises CalibrationError where it has none."""
    model.require_calibration()
    return model.met(cohort.fingerprint) == "calibrated"


def empty(card: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of what a person is to fill in."""
    for name, value in card.items():
        if isinstance(value, dict):
            yield from empty(value, f"{prefix}{name}.")
        elif value == UNSAID:
            yield prefix + name


# What is kept -------------------------------------------------------------------------------------------------------


def _former(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(outputs.read_text(path))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON, so what was filled in there would be lost: mend or remove it") from error
    return found if isinstance(found, dict) else {}


def _with_kept(card: dict[str, Any], former: dict[str, Any]) -> dict[str, Any]:
    """The card with the texts that a person has put where it has none."""
    kept: dict[str, Any] = {}
    for name, value in card.items():
        before = former.get(name)
        if isinstance(value, dict):
            kept[name] = _with_kept(value, before if isinstance(before, dict) else {})
        else:
            kept[name] = before if value == UNSAID and isinstance(before, str) else value
    return kept


def _kept_text(page: Path) -> str:
    """What stands under the mark; all of a page that has none, since a person wrote it."""
    try:
        text = page.read_text(encoding="utf-8").rpartition(MARK)[2].strip() if page.exists() else ""
    except UnicodeDecodeError as error:
        raise ModelError(f"{page} is no UTF-8 text, so what stands in it would be lost: mend or remove it") from error
    return f"\n{text}\n" if text else ""
