"""`python -m tests.faults [PART OF A FAULT'S NAME ...]`: the long form of the matrix, as a Markdown table."""

from __future__ import annotations

import sys
import time

from tests.faults.matrix import ROWS
from tests.faults.row import Row, failures


def line(row: Row) -> tuple[str, bool]:
    """A row of the table, and whether nothing failed."""
    start, wrong = time.perf_counter(), []
    for seed, what in failures(row, row.long):
        if what is not None:
            wrong.append((seed, what))
            print(f"{row.fault}, seed {seed}: {what}", file=sys.stderr)
    seconds = time.perf_counter() - start
    return f"| {row.fault} | {row.must} | {row.long:,} | {len(wrong)} | {seconds:.0f} |", not wrong


def main(parts: list[str]) -> int:
    """Prints the rows asked for, each as it is done; 1 if one failed."""
    chosen = [row for row in ROWS if not parts or any(part in row.fault for part in parts)]
    print("| fault | must do | tries | failures | seconds |\n|-|-|-|-|-|", flush=True)
    fine = True
    for row in chosen:
        text, passed = line(row)
        fine &= passed
        print(text, flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
