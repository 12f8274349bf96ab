"""A model's card as a page: Hugging Face front matter, facts, tables."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from levyscreen.names import printable
from levyscreen.report.markdown import evaluation_markdown, inert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levyscreen.judging import Evaluation

MARK = "<!-- What stands below is yours: it is kept when the card is written again. -->"
TAGS = ("irregular-time-series", "uncertainty-quantification", "intensive-care", "levy-attention")
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def card_markdown(name: str, card: dict[str, Any], unsaid: Sequence[str], evaluation: Evaluation | None = None) -> str:
    """The page up to its mark, this included; `card` is card.json, `unsaid` the names of its empty texts."""
    facts, uses, warnings = card["TrustIngredients"]["AISystemFacts"], card["UsesAndDirections"], card["Warnings"]
    said = (
        ("Data", facts["InputDataSource"]),
        ("Training", facts["DevelopmentDataCharacterization"]),
        ("Model", facts["ModelType"]),
        ("Use", uses["IntendedUseAndWorkflow"]),
        ("Not for", uses["CautionedOutOfScopeSettings"]),
        ("Limits", warnings["KnownRisksAndLimitations"]),
        ("Groups", warnings["KnownBiasesOrEthicalConsiderations"]),
        ("Loading", facts["Security"]),
    )
    parts = [
        _front_matter(name, card, evaluation),
        f"# {inert(name)}",
        inert(card["ModelSummary"]["Summary"]),
        "\n".join(f"- **{title}**: {inert(text)}" for title, text in said if text),
        "`card.json` says the same for machines, after the Applied Model Card of the Coalition for Health AI (schema "
        f"v0.2).{_still_empty(unsaid)}",
        *(_figures(name, evaluation) if evaluation else ()),
        MARK,
    ]
    return "\n\n".join(parts)


def _still_empty(unsaid: Sequence[str]) -> str:
    if not unsaid:
        return ""
    return f" What only a person can say stands empty there: {', '.join(f'`{name}`' for name in unsaid)}."


def _figures(name: str, evaluation: Evaluation) -> tuple[str, ...]:
    command, cohort = inert(f"levyscreen evaluate {name} COHORT"), inert(evaluation.summary["cohort"])
    return (
        "## On records that it never saw",
        f"Printed by `{command}`, of {cohort} (coverage over all disjoint hidings, all else over one; a variable or a "
        "group may be off by chance too: see the numbers of readings and the standard errors):",
        evaluation_markdown(name, evaluation),
    )


def _front_matter(name: str, card: dict[str, Any], evaluation: Evaluation | None) -> str:
    """YAML whose texts are JSON, which YAML holds; a licence nobody named is `unknown`."""
    sharing = card["Sharing"]
    lines = ["---", f"license: {_text(sharing['License'] or 'unknown')}", "library_name: levyscreen", "tags:"]
    lines += [f"- {tag}" for tag in TAGS]
    cohort = evaluation.summary["cohort"] if evaluation else ""
    dataset = sharing["Dataset"] or (cohort if evaluation and evaluation.own_cohort else "")
    if HUB_NAME.fullmatch(dataset):
        lines += ["datasets:", f"- {_text(dataset)}"]
    if evaluation:
        lines += [
            "metrics:",
            "- mae",
            "- mse",
            *_model_index(name, dataset if evaluation.own_cohort else cohort, evaluation),
        ]
    return "\n".join([*lines, "---"])


def _model_index(name: str, dataset: str, evaluation: Evaluation) -> list[str]:
    overall = evaluation.reliability.iloc[0]
    values = {"mae": evaluation.summary["mae"], "mse": evaluation.summary["mse"]}
    known = {str(key): value for key, value in overall.items() if value == value}
    values |= {key: value for key, value in known.items() if key.startswith("coverage_")}
    metrics = [
        line for key, value in values.items() for line in (f"    - type: {key}", f"      value: {float(value):.4f}")
    ]
    return [
        "model-index:",
        f"- name: {_text(name)}",
        "  results:",
        "  - task:",
        "      type: time-series-imputation",
        "      name: readings hidden at random, z-scored",
        "    dataset:",
        f"      type: {_text(dataset)}",
        f"      name: {_text(evaluation.summary['cohort'])}",
        "    metrics:",
        *metrics,
    ]


def _text(value: str) -> str:
    return json.dumps(printable(value))
