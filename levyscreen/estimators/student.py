"""What one pass says of a network that learnt the ensemble's mean (`training.train_student`): the ensemble's knowledge
at the price of one network, where the spread of its members is lost.
"""

from __future__ import annotations

from levyscreen.estimators.rich import Rich
from levyscreen.estimators.signals import Deviation


class StudentDeviation(Deviation):
    """Deviation of the student's prediction, in z units."""

    title = "deviation of a student of the ensemble (added here)"
    reads = "student"


class StudentRich(Rich):
    """The student's free signals, read together."""

    title = "all signals of the student read together (added here)"
    reads = "student"
