"""What a screening could not use: lines by what is wrong with them, and records that are not ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levyscreen.types import LineClass

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from levyscreen.records.cohort import Cohort

EXAMPLES, FILES = 3, 50  # named of each kind

LINES = {
    LineClass.NEGATIVE: "a negative value, which stands for a missing one",
    LineClass.IMPLAUSIBLE: "outside the variable's plausible range: taken for a recording error",
    LineClass.REPAIRED: "a lost decimal point, put back; used as a reading",
    LineClass.UNKNOWN_PARAMETER: "a variable that is not known",
    LineClass.BLANK_PARAMETER: "no variable named",
    LineClass.NOT_A_NUMBER: "the value is no number",
    LineClass.NOT_FINITE: "the value is not finite",
    LineClass.BAD_TIME: "the time cannot be read",
    LineClass.OUTSIDE_STAY: "before the start or after the end of the stay that the model covers",
    LineClass.MALFORMED: "another number of fields than the header, or not to be told apart",
}
RECORDS = {
    "unreadable": "cannot be read as a record",
    "empty": "no reading that the model knows",
    "too_few": "too few readings: no uncertainty is claimed",
    "degenerate": "readings that repeat each other, or are of one variable or time: no uncertainty is claimed",
    "non_finite": "the model's answer was not a number",
    "too_many": "over 512 readings, which the paper's protocol leaves out",
}


def lines(cohort: Cohort, rejects: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each class of lines that are no readings as they stand, the most frequent first, with examples."""
    of_all = sum(map(cohort.count, LineClass))
    rows = []
    for line_class, meaning in LINES.items():
        count = cohort.count(line_class)
        if count:
            name = line_class.name.lower()
            some = rejects[rejects["line_class"] == name].head(EXAMPLES)
            examples = [f"{row.file}, line {row.line}" for row in some.itertuples(index=False)]
            rows.append(
                {
                    "name": name.replace("_", " "),
                    "meaning": meaning,
                    "count": count,
                    "share": count / of_all,
                    "examples": examples,
                }
            )
    return sorted(rows, key=lambda row: -row["count"])


def unranked(scores: pd.DataFrame, records: pa.Table) -> list[dict[str, Any]]:
    """A row for each status but `scored`: how many, and their ids, or files with what is wrong with them."""
    files, problems = (records.column(name).to_pylist() for name in ("file", "problem"))
    broken = [f"{file}: {problem}" for file, problem in zip(files, problems, strict=True) if problem is not None]
    rows = []
    for status, meaning in RECORDS.items():
        ids = scores.loc[scores["status"] == status, "record_id"]
        if len(ids):
            named = broken if status == "unreadable" else [str(i) for i in ids.dropna()]
            rows.append(
                {
                    "status": status.replace("_", " "),
                    "meaning": meaning,
                    "count": len(ids),
                    "named": named[:FILES],
                    "more": max(0, len(ids) - FILES),
                }
            )
    return rows
