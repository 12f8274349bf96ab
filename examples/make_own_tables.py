"""Writes a table such as a hospital might export, made up from records of the sample: its own names, units and clock.

    python examples/make_own_tables.py examples/set-b-sample examples/own-tables/chart.csv

A row a measurement, with timestamps; temperature in Fahrenheit, glucose in mmol/L; one code that is no reading.
"""

import csv
import datetime
import sys
from pathlib import Path

RECORDS = 12  # the shortest with 60 lines or more
NAMES = {
    "HR": "heart rate",
    "Temp": "temperature",
    "Glucose": "glucose",
    "SysABP": "sbp",
    "DiasABP": "dbp",
    "K": "potassium",
}
NAMES |= {
    "NISysABP": "nibp sys",
    "NIDiasABP": "nibp dia",
    "RespRate": "resp",
    "GCS": "gcs",
    "Urine": "urine",
    "Age": "age",
}
ADMITTED = datetime.datetime(2031, 5, 17, 6, 30)


def in_house(name, value):
    """A value as this hospital writes it."""
    number = float(value)
    if name == "Temp":
        return f"{number * 9 / 5 + 32:.1f}"
    return f"{number / 18.016:.2f}" if name == "Glucose" else value


def rows(path, admitted):
    """Measurements of one record file; what is missing there (-1) is no row here."""
    for clock, name, value in list(csv.reader(path.read_text().splitlines()))[1:]:
        if name in NAMES and float(value) >= 0:
            hours, minutes = map(int, clock.split(":"))
            yield admitted + datetime.timedelta(hours=hours, minutes=minutes), NAMES[name], in_house(name, value)
    yield admitted + datetime.timedelta(hours=8), "seen by physio", "1"


def main(words):
    """From the folder of records to the CSV file."""
    source, target = map(Path, words)
    long_enough = [p for p in sorted(source.glob("*.txt")) if len(p.read_text().splitlines()) > 60]
    chosen = sorted(long_enough, key=lambda p: (p.stat().st_size, p.name))[:RECORDS]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("stay", "intime", "charttime", "item", "value"))
        for day, path in enumerate(sorted(chosen)):
            admitted = ADMITTED + datetime.timedelta(days=day)
            writer.writerows((f"S-{path.stem}", admitted, *row) for row in rows(path, admitted))


if __name__ == "__main__":
    main(sys.argv[1:])
