"""What a command is given, and what it left behind."""

import io
from pathlib import Path

import pandas as pd

from tests.records.record_files import HEAD

# A record in which no line is rejected.
CLEAN = HEAD + "00:00,RecordID,{id}\n00:00,Age,54\n"
CLEAN += "".join(f"{h:02d}:00,{('HR', 'MAP')[h % 2]},{60 + h}\n" for h in range(25))


def written(name="scores.parquet", cohort="ward"):
    return pd.read_parquet(Path("levyscreen-out") / cohort / name)


def written_to(folder):
    return pd.read_parquet(Path(folder) / "scores.parquet")


def frame_of(csv):
    return pd.read_csv(io.StringIO(csv))
