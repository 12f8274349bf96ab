"""Every on-disk table: columns, Arrow types, units, what null means. Names are imported from here, never retyped."""

from __future__ import annotations

import pyarrow as pa

from levyscreen.types import LineClass

# The cohort cache ---------------------------------------------------------------------------------------------------

COUNTED_CLASSES = tuple(LineClass)


def count_column(line_class: LineClass) -> str:
    """Column of RECORDS that counts a record's lines of one class, for instance n_not_a_number."""
    return f"n_{line_class.name.lower()}"


# A row for each record file, sorted by record_id, then file.
RECORDS = pa.schema(
    [
        pa.field("record_id", pa.int64()),  # null: the file names none
        pa.field("file", pa.string()),  # the record's own file name, no folder
        pa.field("problem", pa.string()),  # why the record is unreadable; null for a readable one
        # Of mapped tables; null where it is the record itself, or is not known.
        pa.field("subject_id", pa.int64()),
        pa.field("origin", pa.timestamp("us")),  # when hour 0 was, UTC unless the source has local times
        pa.field("age", pa.float64()),  # years; null here and below: missing
        pa.field("gender", pa.float64()),  # 0 female, 1 male
        pa.field("height", pa.float64()),  # cm
        pa.field("icu_type", pa.float64()),  # 1 coronary, 2 cardiac surgery recovery, 3 medical, 4 surgical
        pa.field("weight", pa.float64()),  # kg, the first valid value
        pa.field("n_lines", pa.int32()),  # data lines; the sum of the counts below
        *(pa.field(count_column(c), pa.int32()) for c in COUNTED_CLASSES),
    ]
)

# A row for each numeric line of a known variable, in the order of RECORDS, then time, variable, value.
READINGS = pa.schema(
    [
        pa.field("record", pa.int32()),  # row of RECORDS
        pa.field("time_hours", pa.float32()),
        pa.field("variable", pa.int16()),  # index into the variable set, whose names are in the footer
        pa.field("value", pa.float64()),  # as written, in the variable's unit
        pa.field("line_class", pa.uint8()),  # LineClass by the variable set's own ranges
    ]
)

# Examples of lines that are not readings: at most a few for each file and class; the counts are in RECORDS.
REJECTS = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("line", pa.int32()),  # 1 is the header
        pa.field("line_class", pa.string()),  # lower-case name of a LineClass
    ]
)

# Screening ----------------------------------------------------------------------------------------------------------

# A row for each record file of the cohort, none missing; unranked ones first, then by trust_rank.
SCORES = pa.schema(
    [
        pa.field("record_id", pa.int64()),  # null: the file names none
        pa.field("status", pa.string()),  # one of STATUSES
        pa.field("n_readings", pa.int32()),  # that the model keeps
        pa.field("n_context", pa.int32()),  # left to the model in each masking
        pa.field("n_hidden", pa.int32()),  # held-out targets of all maskings; 0 unless scored
        # Null from here on unless scored; means over the record's held-out targets.
        pa.field("uncertainty", pa.float32()),  # the ranking signal; calibrated, the expected |error| in z units
        pa.field("deviation", pa.float32()),  # z units of the prediction
        pa.field("disagreement", pa.float32()),
        pa.field("evidence", pa.float32()),  # low means that little was found
        pa.field("sigma_hat", pa.float32()),
        pa.field("interval_width", pa.float32()),  # at 90 %, in standard deviations; null where no variable has one
        pa.field(
            "coverage", pa.float32()
        ),  # share of the held-out readings within their 90 % interval; null as the width
        pa.field("mae", pa.float32()),  # z units, against the held-out readings
        pa.field("trust_rank", pa.int32()),  # 1 = least trusted, ties by record_id
        pa.field("decile", pa.int32()),  # 1 = least trusted tenth
        pa.field("flagged", pa.bool_()),  # False unless scored
        pa.field("reason", pa.string()),  # one of REASONS; null unless flagged, or as the median record
        pa.field("worst_variables", pa.string()),  # up to three names, joined by ';', the worst first
    ]
)
# too_few: under 20 readings, repetitions not counted, or under 14 left where more is hidden than usual, and no
# uncertainty is claimed; degenerate: far fewer variables, times, values or changes than training records have, as of a
# stuck sensor; non_finite: the model's answer was not a number; too_many: over 512, which the paper's
# protocol leaves out and ours never does.
STATUSES = ("unreadable", "empty", "too_few", "degenerate", "non_finite", "too_many", "scored")
REASONS = ("conflict", "thin_evidence", "both")

# For tools of MEDS, a row for each scored record. The first three are MEDS's label schema, in which nothing is null.
MEDS_SCORES = pa.schema(
    [
        pa.field("subject_id", pa.int64()),
        pa.field("prediction_time", pa.timestamp("us")),  # hour 0 plus the horizon: data up to it were used
        pa.field("float_value", pa.float32()),  # the uncertainty
        *SCORES,
    ]
)

# A row for each held-out target; values and interval in the variable's unit.
QUERIES = pa.schema(
    [
        pa.field("record_id", pa.int64()),
        pa.field("variable", pa.dictionary(pa.int16(), pa.string())),
        pa.field("time_hours", pa.float32()),
        pa.field("truth", pa.float32()),
        pa.field("prediction", pa.float32()),
        pa.field("lower", pa.float32()),  # null where the model is uncalibrated
        pa.field("upper", pa.float32()),
        pa.field("uncertainty", pa.float32()),  # z units: what is averaged over a record's targets to rank it
        pa.field("deviation", pa.float32()),
        pa.field("disagreement", pa.float32()),
        pa.field("evidence", pa.float32()),
        pa.field("sigma_hat", pa.float32()),
        pa.field("flagged", pa.bool_()),  # the least trusted tenth of these rows, or the share of --flag
    ]
)

# Continuum ----------------------------------------------------------------------------------------------------------

# Sorted by record, variable, time; whole records in a row group; values and interval in the variable's unit. With
# --half the last six are float16. An answer that is not finite is null in all of its columns; bounds may be infinite.
CONTINUUM = pa.schema(
    [
        pa.field("record_id", pa.int64()),
        pa.field("variable", pa.dictionary(pa.int16(), pa.string())),
        pa.field("time_hours", pa.float32()),
        pa.field("prediction", pa.float32()),
        pa.field("lower", pa.float32()),
        pa.field("upper", pa.float32()),
        pa.field("sigma_hat", pa.float32()),
        pa.field("evidence", pa.float32()),
        pa.field("disagreement", pa.float32()),
    ]
)
DEVIATION = pa.field("deviation", pa.float32())  # besides, where it was asked for; z units
