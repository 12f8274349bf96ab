"""What is known of a model, under the names of the Coalition for Health AI's Applied Model Card.

Schema v0.2 (https://mc.chai.org/v0.2/schema.xsd), whose elements and nesting this has in JSON: a list of MetricResult,
and in each ValueJson a JSON value. `Sharing` is ours: what the Hugging Face front matter asks for besides.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from levyscreen.judging import Evaluation
    from levyscreen.store import Model

SCHEMA = "Coalition for Health AI, Applied Model Card, v0.2 (https://mc.chai.org/v0.2/schema.xsd), as JSON"
LEVEL = 0.9  # of the intervals that the summary speaks of, if it was calibrated
ERRORS = 2.0  # standard errors from which on a group's coverage is called off
UNSAID = ""  # for a person to fill in
BIBLIOGRAPHY = (
    "@misc{chatzis2026levy, title = {L\\'evy Attention: Single-Pass Predictive Uncertainty for Continuous-Time "
    "Attention}, author = {Chatzis, Sotirios P. and Papadoulas, Loukas}, year = {2026}}"
)


def describe(model: Model, evaluation: Evaluation | None, why_not: str) -> dict[str, Any]:
    """card.json as far as the model's folder and its evaluation know it."""
    return {
        "Schema": SCHEMA,
        "BasicInfo": {"ModelName": model.name, "ModelDeveloper": UNSAID, "DeveloperContact": UNSAID},
        "ReleaseInfo": {
            "ReleaseStage": UNSAID,
            "ReleaseDate": UNSAID,
            "ReleaseVersion": f"levyscreen {version('levyscreen')}, weights {model.digest}",
            "GlobalAvailability": UNSAID,
            "RegulatoryApproval": UNSAID,
        },
        "ModelSummary": {
            "Summary": _summary(model),
            "Keywords": ["irregular time series", "uncertainty", "ICU records"],
        },
        "UsesAndDirections": {
            "IntendedUseAndWorkflow": UNSAID,
            "PrimaryIntendedUsers": "People who study or model retrospective records.",
            "HowToUse": "levyscreen screen COHORT --model FOLDER ranks patients by how little the model's predictions "
            "are to be believed; levyscreen continuum draws predictions and intervals over the stay.",
            "TargetedPatientPopulation": UNSAID,
            "CautionedOutOfScopeSettings": "Care of patients, alarms, the detection of deterioration; records of "
            "another site, device or case mix before the model is calibrated and evaluated there.",
        },
        "Warnings": {
            "KnownRisksAndLimitations": "Intervals hold on average over many readings of patients like those that they "
            "were calibrated on, at times when somebody took a measurement; for one patient, a rare variable or "
            "another site they may be far off. A trusted patient may be dying and a flagged one may be well.",
            "KnownBiasesOrEthicalConsiderations": _biases(evaluation, why_not),
            "ClinicalRiskLevel": UNSAID,
        },
        "TrustIngredients": {"AISystemFacts": _facts(model), "TransparencyInformation": _transparency()},
        "KeyMetrics": _metrics(model, evaluation, why_not),
        "Resources": {"PeerReviewedPublications": UNSAID, "PatientConsentOrDisclosure": UNSAID},
        "Bibliography": BIBLIOGRAPHY,
        "Sharing": {"License": UNSAID, "Dataset": UNSAID},
    }


def _summary(model: Model) -> str:
    hours = model.preprocessor.variables.horizon_hours
    return (
        f"From the readings of a record it predicts {len(model.preprocessor.variables)} variables at any time of "
        f"{hours:g} hours, and from the same pass it says how far each prediction is to be believed."
    )


def _facts(model: Model) -> dict[str, Any]:
    settings, training, protocol = model.network.config, model.training, model.preprocessor.protocol
    parameters = sum(p.numel() for p in model.network.parameters())
    sizes = ", ".join(f"{len(model.records(part)):,} {part}" for part in ("train", "validation", "test"))
    unit = "subject" if "subjects" in training else "record"
    return {
        "OutcomesAndOutputs": "For each question (variable, time): a prediction, a calibrated interval, the evidence "
        "found, its disagreement, and the deviation. For each patient: a rank of trust, and a reason.",
        "ModelType": f"Transformer encoder and one {settings.decode} cross-attention layer, {settings.head} head, "
        f"{parameters:,} parameters",
        "InputDataSource": UNSAID,
        "OutputAndInputDataTypes": "In: readings (time, variable, value). Out: numbers in each variable's unit.",
        "DevelopmentDataCharacterization": f"Cohort {training.get('cohort', 'unknown')}, split by {unit}: {sizes}. "
        f"Protocol '{protocol.name}': records of {protocol.min_readings} readings or more, {100 * protocol.hide:g} % "
        f"hidden and asked for. {_training(training)} {_calibration(model)}",
        "BiasMitigationApproaches": "None in training. Scale and intervals are fitted by variable; coverage is "
        "reported by kind of patient and by evidence.",
        "OngoingMaintenance": UNSAID,
        "Security": "Loading runs no code (safetensors and JSON) and needs no network; files carry digests.",
    }


def _training(training: dict[str, Any]) -> str:
    settings = training["settings"]
    epochs = len(training.get("history", ()))
    return f"Seed {settings['seed']}, {epochs} epochs, weights of epoch {training.get('best_epoch', 'unknown')}."


def _calibration(model: Model) -> str:
    calibration = model.calibration
    if calibration is None:
        return "Not calibrated."
    facts = calibration.provenance
    return (
        f"Calibrated ({calibration.signal}, by {calibration.by}) on {facts.get('targets', 0):,} hidden readings of "
        f"{facts.get('records', 0):,} records of {facts.get('cohort', 'unknown')}."
    )


def _transparency() -> dict[str, str]:
    return {"FundingSource": UNSAID, "StakeholdersConsulted": UNSAID}


# Figures ------------------------------------------------------------------------------------------------------------


def _biases(evaluation: Evaluation | None, why_not: str) -> str:
    if evaluation is None:
        return f"Unknown: {why_not}."
    column = _column(evaluation.groups)
    if column is None:
        return "Unknown: the records tell nothing of the patients, and no group is large enough."
    level, off = float(column) / 100, []
    for row in evaluation.groups.to_dict("records"):
        coverage, error = row[f"coverage_{column}"], row[f"error_{column}"]
        if abs(coverage - level) > ERRORS * error:
            off.append(f"{row['by']} {row['group']} ({coverage:.3f})")
    return (
        f"Of {len(evaluation.groups)} groups by what the records tell of the patients and by evidence, the coverage of "
        f"the {column} % interval is more than {ERRORS:g} standard errors off in {len(off)}"
        f"{': ' + ', '.join(off) if off else ''}. Some of so many are off by chance. What the records do not tell, "
        "such as ethnicity, was not looked at."
    )


def _column(groups: pd.DataFrame) -> str | None:
    """The level that is spoken of, as in the columns' names."""
    levels = [name.removeprefix("coverage_") for name in groups.columns if name.startswith("coverage_")]
    return None if groups.empty else min(levels, key=lambda level: abs(float(level) - 100 * LEVEL))


def _metrics(model: Model, evaluation: Evaluation | None, why_not: str) -> dict[str, Any]:
    results: dict[str, list[dict[str, Any]]] = {"ranking": [], "groups": [], "coverage": []}
    described = dict.fromkeys(results, f"None: {why_not}.")
    if evaluation is not None:
        facts, folds = evaluation.summary, int(evaluation.reliability["n"].iloc[0])
        for name, targets in (("ranking", facts["targets"]), ("groups", folds), ("coverage", folds)):
            described[name] = f"{facts['records']:,} records of {facts['cohort']}, {targets:,} hidden readings."
        results["ranking"] = [
            {"Label": f"{name.upper()} (z-scored)", "ValueJson": _plain(facts[name])} for name in ("mae", "mse")
        ] + [_result("Ranking of errors", evaluation.ranking), _result("CRPS", evaluation.distribution)]
        results["groups"] = [_result("Coverage by group, with patient-clustered standard errors", evaluation.groups)]
        results["coverage"] = [_result("Coverage and median width by variable", evaluation.reliability)]
    goals = {
        "UsefulnessUsabilityEfficacy": ("Small errors, and large ones where the model doubts.", "ranking"),
        "FairnessEquity": ("Intervals that hold alike for all kinds of patients.", "groups"),
        "SafetyReliability": ("Intervals that cover their nominal share of readings.", "coverage"),
    }
    return {
        name: {
            "MetricGoal": goal,
            "Results": {"MetricResult": results[which]},
            "Interpretation": UNSAID,
            "TestType": "Retrospective, on records neither trained nor calibrated on." if evaluation else "None.",
            "TestingDataDescription": described[which],
            "ValidationProcessAndJustification": "Readings are hidden at random; real gaps are not random.",
        }
        for name, (goal, which) in goals.items()
    }


def _result(label: str, frame: pd.DataFrame) -> dict[str, Any]:
    rows = [{name: _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
    return {"Label": label, "ValueJson": rows}


def _plain(value: Any) -> Any:
    """As strict JSON has it: null for what is not finite."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value if isinstance(value, str) else int(value)
