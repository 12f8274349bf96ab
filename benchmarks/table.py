"""The table that the benchmarks print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A measured time, as a multiple of another measured beside it, and of the least time that a ceiling leaves."""

    what: str
    seconds: float
    against: str = ""
    ratio: float | None = None
    ceiling: float | None = None  # seconds

    def cells(self) -> tuple[str, ...]:
        """As they are printed."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        ceiling = "" if self.ceiling is None else f"{self.ceiling / self.seconds:.2f}"
        return self.what, f"{1000 * self.seconds:,.1f}", ratio, self.against, ceiling


HEADER = ("what", "ms", "times", "the", "of ceiling")


def markdown(rows: list[Row]) -> str:
    """A Markdown table, columns lined up."""
    cells = [HEADER, *(row.cells() for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADER))]
    left = (0, 3)

    def line(row: tuple[str, ...]) -> str:
        padded = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (w + 1) + ("-" if i in left else ":") for i, w in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])
