"""Everything levyscreen raises on purpose.

LevyscreenError
├── UsageError        the call cannot be carried out as asked (exit code 2)
├── CohortError       a cohort cannot be read
│   └── RecordError   one record file cannot be read; the others can
├── ModelError        a model folder is missing, damaged or of another kind
│   └── CalibrationError   a calibration is missing, or its signal carries nothing
└── TrainingError     a training cannot start, go on or be resumed
"""

from __future__ import annotations

MOST_CHARACTERS = 2_000


def shortened(text: str) -> str:
    """The text, or as much of its two ends as a message may have."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} [...] {text[-half:]}"


class LevyscreenError(Exception):
    """Root of every error that levyscreen raises on purpose; its text says what was wrong, where, and what to do.

    The text is of bounded length, and quotes nothing of a patient's file (records/quoting.py).
    """

    def __init__(self, text: str = ""):
        super().__init__(shortened(text))


class UsageError(LevyscreenError):
    """The call cannot be carried out as asked."""


class CohortError(LevyscreenError):
    """A cohort cannot be read."""


class RecordError(CohortError):
    """One record file cannot be read; the others of its cohort can."""


class ModelError(LevyscreenError):
    """A model folder is missing, damaged or of another kind."""


class CalibrationError(ModelError):
    """A calibration is missing, or the signal it was fitted on carries nothing."""


class TrainingError(LevyscreenError):
    """A training cannot start, go on or be resumed."""
