"""The picture in the README: python examples/make_screenshot.py [examples/screenshot.svg]."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from levyscreen import load_model, machine, read_cohort, screen
from levyscreen.report.tables import scores_table

HERE = Path(__file__).parent


def main(path: Path) -> None:
    machine.prepare()
    screening = screen(read_cohort(HERE / "set-b-sample"), load_model())
    scores = screening.scores
    shown = scores[scores["flagged"] | (scores["status"] != "scored")]
    console = Console(record=True, width=128, file=sys.stderr, force_terminal=True, highlight=False)
    console.print("$ levyscreen screen examples/set-b-sample --top-decile")
    console.print(scores_table(shown, scores, screening.signal))
    console.save_svg(str(path), title="levyscreen")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "screenshot.svg")
