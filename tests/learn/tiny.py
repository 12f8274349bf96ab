"""A made-up cohort small enough to train on within a test; each patient has a level of its own in every variable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from levyscreen.config import ModelConfig, Protocol, TrainingConfig
from levyscreen.records.cohort import Cohort, NumericLines
from levyscreen.schema import RECORDS, REJECTS
from levyscreen.variables import Repair, Variable, VariableSet

VARIABLES = VariableSet(
    name="tiny",
    version=1,
    horizon_hours=48.0,
    variables=(
        Variable("HR", "bpm", "heart rate", 1, 295),
        Variable("MechVent", "0/1", "mechanical ventilation", 0, 1),
        Variable("Temp", "degC", "temperature", 25, 45),
        Variable("pH", "", "arterial pH", 6.3, 8.0, Repair(650, 800, 0.01)),
    ),
)
MODEL = ModelConfig(variables=4, width=16, heads=2, blocks=1, feed_forward=32, time_cells=8, channel_cells=4)
TRAINING = TrainingConfig(seed=3, epochs=5, batch_records=8, peak_rate=5e-3)
PROTOCOL = Protocol(min_readings=10)


def cohort_of(
    lines: list[list[tuple[float, int, float]]], record_id=None, variables: VariableSet = VARIABLES
) -> Cohort:
    """A cohort from each record's lines (hours, variable, value), kept in the order given; ids count from 1."""
    record_id = list(range(1, len(lines) + 1)) if record_id is None else list(record_id)
    flat = [line for record in lines for line in record]
    hours, variable, value = (np.array([line[i] for line in flat]) for i in range(3))
    variable = variable.astype(np.int16)
    classes, _ = variables.judge(variable, value)
    columns = {field.name: pa.nulls(len(lines), field.type) for field in RECORDS}
    columns |= {"record_id": pa.array(record_id, pa.int64()), "file": pa.array([f"{i}.txt" for i in record_id])}
    return Cohort(
        name="tiny",
        fingerprint="",
        variables=variables,
        records=pa.table(columns, schema=RECORDS),
        offsets=np.concatenate([[0], np.cumsum([len(record) for record in lines])]).astype(np.int64),
        lines=NumericLines(hours.astype(np.float32), variable, value.astype(np.float64), classes),
        rejects=REJECTS.empty_table(),
    )


def tiny_cohort(records: int = 60, seed: int = 0) -> Cohort:
    """Records of 12 to 30 lines, one of them negative (missing) now and then."""
    rng = np.random.default_rng(seed)
    typical, spread = np.array([80.0, 1.0, 37.0, 7.4]), np.array([15.0, 0.0, 1.0, 0.1])
    lines = []
    for _ in range(records):
        n = int(rng.integers(12, 31))
        level = rng.standard_normal(4)
        variable = rng.integers(0, 4, n)
        value = typical[variable] + spread[variable] * (level[variable] + 0.2 * rng.standard_normal(n))
        value[rng.random(n) < 0.02] = -1.0
        lines.append(sorted(zip(rng.uniform(0, 48, n), variable.tolist(), value.tolist(), strict=True)))
    return cohort_of(lines)


def with_values(cohort: Cohort, rows, change) -> Cohort:
    """The cohort with the values of the records at `rows` changed."""
    value = cohort.value.copy()
    for row in rows:
        lines = slice(cohort.offsets[row], cohort.offsets[row + 1])
        value[lines] = np.where(cohort.value[lines] >= 0, change(value[lines]), value[lines])
    classes, _ = cohort.variables.judge(cohort.variable, value)
    return replace(cohort, lines=replace(cohort.load(), value=value, line_class=classes))
