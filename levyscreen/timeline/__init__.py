"""What a model says of records over a grid of times, and how that is written."""

from levyscreen.timeline.asking import WINDOW, Asker, ContinuumSettings, Timeline, timelines
from levyscreen.timeline.writing import Writer

__all__ = ["WINDOW", "Asker", "ContinuumSettings", "Timeline", "Writer", "timelines"]
