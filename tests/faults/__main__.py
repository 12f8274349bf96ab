"""`python -m tests.faults [--tries N] [PART OF A FAULT'S NAME ...]`: the matrix in its long form, as Markdown."""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.matrix import ROWS
from tests.faults.row import Row, failures


def line(row: Row, most: int) -> tuple[str, bool]:
    """A row of the table, of `most` tries at most, and whether nothing failed."""
    start, wrong, tries = time.perf_counter(), [], min(row.long, most)
    for seed, what in failures(row, tries):
        if what is not None:
            wrong.append((seed, what))
            print(f"{row.fault}, seed {seed}: {what}", file=sys.stderr)
    seconds = time.perf_counter() - start
    return f"| {row.fault} | {row.must} | {tries:,} | {len(wrong)} | {seconds:.0f} |", not wrong


def main(words: list[str]) -> int:
    """Prints the rows asked for, each as it is done; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The fault matrix in its long form.")
    parser.add_argument("parts", nargs="*", help="only rows with one of these in the fault's name")
    parser.add_argument("--tries", type=int, default=sys.maxsize, help="at most so many of each row")
    asked = parser.parse_args(words)
    chosen = [row for row in ROWS if not asked.parts or any(part in row.fault for part in asked.parts)]
    print("| fault | must do | tries | failures | seconds |\n|-|-|-|-|-|", flush=True)
    fine = True
    for row in chosen:
        text, passed = line(row, asked.tries)
        fine &= passed
        print(text, flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
