"""A tiny cohort, screened by a random network, with all of it named as badly as names can be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from levyscreen import outputs, questions, schema
from levyscreen.calibrate import Affine, fit_calibration
from levyscreen.model.network import build
from levyscreen.records.hiding import hide
from levyscreen.records.preprocessor import Preprocessor
from levyscreen.report.screened import WRITTEN, note
from levyscreen.screen import ScreenSettings, screen
from levyscreen.store import Model
from tests.learn.tiny import MODEL, PROTOCOL, VARIABLES, tiny_cohort

LIVE = '<script>alert("&")</script>'
CPU = torch.device("cpu")
RECORDS = 40


def digests(folder):
    """What a screening's note says of the files in its folder."""
    return {name: outputs.digest(folder / name) for name in WRITTEN if (folder / name).exists()}


def named(variables, prefix=LIVE):
    """The same variables with markup in their names, meanings and units."""
    odd = tuple(replace(v, name=f"{prefix}{v.name}", meaning=f"{LIVE} of it", unit=LIVE) for v in variables.variables)
    return replace(variables, variables=odd)


@pytest.fixture(scope="session")
def cohort():
    """Ages, sexes and ICU types known, one record unreadable."""
    found = tiny_cohort(RECORDS)
    rng = np.random.default_rng(5)
    columns = {
        "age": pa.array(rng.uniform(20, 95, RECORDS)),
        "gender": pa.array(rng.integers(0, 2, RECORDS), pa.float64()),
        "icu_type": pa.array(rng.integers(1, 5, RECORDS), pa.float64()),
        "n_lines": pa.array(np.diff(found.offsets), pa.int32()),
        "n_negative": pa.array([2] * RECORDS, pa.int32()),
        "problem": pa.array([f"not text {LIVE}"] + [None] * (RECORDS - 1)),
    }
    records = found.records
    for name, column in columns.items():
        place = records.schema.get_field_index(name)
        records = records.set_column(place, records.schema.field(name), column)
    rejects = pa.table({"file": [f"{LIVE}.txt"], "line": [7], "line_class": ["negative"]}, schema.REJECTS)
    return replace(found, name=LIVE, records=records, rejects=rejects, variables=named(VARIABLES))


@pytest.fixture(scope="session")
def model(cohort):
    """A random network, calibrated."""
    preprocessor = Preprocessor.fit(cohort, np.arange(len(cohort)), named(VARIABLES), PROTOCOL)
    network = build(MODEL, 0).eval()
    readings = preprocessor.apply(cohort)
    answers = questions.joined([a for _, a in questions.ask(network, readings, hide(readings, 0.3, 0), CPU)])
    variables = preprocessor.variables.names
    shown = answers.prediction, answers.truth, answers.variable
    calibration = fit_calibration(answers.deviation, "deviation", *shown, variables, by="nothing")
    if not calibration.rankable:  # a random network's deviation says nothing
        slope = 0.5 * calibration.pooled.b / float(answers.deviation.mean())
        pooled = Affine(slope, calibration.pooled.b)
        calibration = replace(calibration, pooled=pooled, a=np.full(len(variables), slope))
    return Model(f"tiny {LIVE}", Path("tiny"), "", network, preprocessor, {"deviation": calibration}, {})


@pytest.fixture(scope="session")
def _screened(cohort, model):
    return screen(cohort, model, ScreenSettings(flag=0.2))


@pytest.fixture
def folder(cohort, _screened, tmp_path):
    """An output folder, as `levyscreen screen` writes it."""
    out = tmp_path / "out"
    table = pa.Table.from_pandas(_screened.scores, schema.SCORES, preserve_index=False)
    outputs.write_parquet(out / "scores.parquet", table, _screened.provenance)
    outputs.write_parquet(out / "rejects.parquet", cohort.rejects, _screened.provenance)
    outputs.write_json(out / "timing.json", _screened.timing)
    note(out, Path("cohort"), "tiny", None, ["screen", f"{LIVE}"], digests(out))
    return out
