"""Several tables make the records that their rows make when they are put one below the other by hand."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from levyscreen.errors import CohortError
from levyscreen.records.cache import read_cohort
from levyscreen.records.mapped import buckets, tables
from levyscreen.records.mapped.mapping import parse_mapping, read_mapping
from tests.records.mapped.small_table import by_name, column
from tests.records.record_files import accounts, same

MAPPING = """
horizon_hours = 48
[time]
unit = "timestamp"
origin = "column"
[variables.HR]
unit = "bpm"
low = 1
high = 295
[variables.Temp]
unit = "degC"
low = 25
high = 45
[variables.Glucose]
unit = "mg/dL"
low = 1
high = 2000

[[table]]
source = "chart.csv"
kind = "long"
[table.columns]
record = "stay"
time = "charted"
variable = "item"
value = "num"
[table.variables.HR]
codes = ["220045"]
[table.variables.Temp]
codes = ["223761"]
factor = 0.5555555555555556
offset = -17.77777777777778

[[table]]
source = "lab.psv"
kind = "long"
decimal = ","
[table.columns]
record = "encounter"
time = "drawn"
variable = "test"
value = "result"
unit = "uom"
[table.time]
format = "%d.%m.%Y %H:%M"
[table.variables.Glucose]
codes = ["glu"]
units = ["mg/dL"]
also = [{ codes = ["glu"], units = ["mmol/L"], factor = 18.016 }]
[table.ignore]
codes = ["note"]

[[table]]
source = "monitor"
kind = "wide"
[table.columns]
record = "stay"
time = "t"
[table.variables.HR]
[table.variables.Temp]
columns = ["temp_c"]

[[table]]
source = "stays.csv"
kind = "static"
[table.columns]
record = "id"
subject = "patient"
[table.time]
column = "began"

[[table]]
source = "patients.csv"
kind = "static"
[table.columns]
subject = "patient"
[table.descriptors]
age = {}
gender = { codes = ["sex"], values = { F = 0, M = 1 } }
"""
BEGIN = pd.Timestamp("2150-01-01 08:00")
STAYS = [11, 12, 13, 14, 15]


def drawn(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Stays and times of some rows, a few before the stay, or after its 48 hours."""
    stay = rng.choice(STAYS, rows)
    minutes = rng.integers(-200, 3200, rows)
    return pd.DataFrame({"stay": stay, "at": began(pd.Series(stay)) + pd.to_timedelta(pd.Series(minutes), "min")})


def began(stay: pd.Series) -> pd.Series:
    """Each stay a week after the one before."""
    return BEGIN + pd.to_timedelta(7 * (stay - 11), "D")


def write(folder, seed=4):
    """The tables of the mapping; gives their rows as pandas has them, to be read by hand."""
    rng = np.random.default_rng(seed)
    (folder / "monitor").mkdir()
    chart, lab, monitor = drawn(rng, 400), drawn(rng, 150), drawn(rng, 200)
    chart["item"] = rng.choice([220045, 223761, 999], len(chart))
    chart["num"] = np.where(chart["item"] == 223761, rng.choice([98.6, 101, 40], len(chart)), 80)
    lab["test"] = rng.choice(["glu", "note"], len(lab))
    lab["uom"] = rng.choice(["mg/dL", "mmol/L", "furlong"], len(lab))
    lab["result"] = rng.choice([5.5, 110.0], len(lab))
    monitor["HR"] = rng.choice([60, 300, np.nan], len(monitor))
    monitor["temp_c"] = rng.choice([36.6, np.nan], len(monitor))
    monitor["at"] = monitor["at"].dt.round("h")
    chart.rename(columns={"at": "charted"}).to_csv(folder / "chart.csv", index=False)
    text = lab.assign(
        at=lab["at"].dt.strftime("%d.%m.%Y %H:%M"), result=lab["result"].astype(str).str.replace(".", ",")
    )
    text.rename(columns={"stay": "encounter", "at": "drawn"}).to_csv(folder / "lab.psv", sep="|", index=False)
    wide = monitor.rename(columns={"at": "t"})
    wide[:90].to_parquet(folder / "monitor" / "a.parquet", index=False)
    wide[90:].to_parquet(folder / "monitor" / "b.parquet", index=False)
    stays = pd.DataFrame({"id": [*STAYS, 99], "patient": [-7, -7, 8, 9, 10, 8]})
    stays["began"] = began(stays["id"])
    stays.to_csv(folder / "stays.csv", index=False)
    people = pd.DataFrame({"patient": [8, -7, 9, 10, 77], "age": [61, 50, 33, 90, 20], "sex": list("FMFMF")})
    people.to_csv(folder / "patients.csv", index=False)
    (folder / "m.toml").write_text(MAPPING)
    return chart, lab, monitor


def counts(cohort):
    """Lines of all records by class."""
    return sum((of_one for _, of_one in accounts(cohort).values()), Counter())


def concatenated(chart, lab, monitor):
    """All values one below the other: stay, hours, variable, value, as pandas computes them."""
    glucose = lab[(lab["test"] == "glu") & (lab["uom"] != "furlong")]
    factor = glucose["uom"].map({"mg/dL": 1.0, "mmol/L": 18.016})
    fahrenheit = chart[chart["item"] == 223761]
    parts = [
        chart[chart["item"] == 220045].assign(variable="HR", value=lambda f: f["num"]),
        fahrenheit.assign(variable="Temp", value=fahrenheit["num"] * 0.5555555555555556 - 17.77777777777778),
        glucose.assign(variable="Glucose", value=glucose["result"] * factor),
        monitor.assign(variable="HR", value=monitor["HR"]),
        monitor.assign(variable="Temp", value=monitor["temp_c"]),
    ]
    rows = pd.concat([part[["stay", "at", "variable", "value"]] for part in parts]).dropna()
    rows["hours"] = (rows["at"] - began(rows["stay"])) / pd.Timedelta(hours=1)
    return rows


def kept(rows):
    """What of it lies within the stay, in the form of by_name, without what is judged by range."""
    inside = rows[(rows["hours"] >= 0) & (rows["hours"] <= 48)]
    hours = inside["hours"].astype(np.float32).astype(float)
    return sorted(zip(inside["stay"], hours, inside["variable"], inside["value"], strict=True))


def test_records_of_several_tables_are_those_that_pandas_puts_together(tmp_path):
    rows = concatenated(*write(tmp_path))
    found = read_cohort(tmp_path / "m.toml", cache=False)
    assert [line[:4] for line in by_name(found)] == kept(rows)
    assert column(found, "record_id") == STAYS
    assert column(found, "subject_id") == [-7, -7, 8, 9, 10]
    assert column(found, "age") == [50, 50, 61, 33, 90]
    assert column(found, "gender") == [1, 1, 0, 0, 1]
    starts = [int((BEGIN + pd.Timedelta(days=7 * i)).timestamp() * 1e6) for i in range(5)]
    assert [int(start.timestamp() * 1e6) for start in column(found, "origin")] == starts


def test_every_value_of_every_table_is_accounted_for(tmp_path):
    chart, lab, monitor = write(tmp_path)
    rows = concatenated(chart, lab, monitor)
    found = counts(read_cohort(tmp_path / "m.toml", cache=False))
    furlongs = int(((lab["test"] == "glu") & (lab["uom"] == "furlong")).sum())
    assert found["unknown_parameter"] == int((chart["item"] == 999).sum()) + furlongs
    assert found["outside_stay"] == len(rows) - len(kept(rows))
    assert found["descriptor"] == 10  # age and sex of the patient of each of the five stays
    assert sum(found.values()) == len(rows) + found["unknown_parameter"] + found["descriptor"]


def test_the_tables_by_hand_below_each_other_are_the_same_cohort(tmp_path):
    """The other way to have it: one long table that somebody has made of all, with one plain mapping."""
    rows = concatenated(*write(tmp_path))
    rows.to_csv(tmp_path / "all.csv", index=False, date_format="%Y-%m-%d %H:%M")
    head = 'source = "all.csv"\nkind = "long"\n[columns]\nrecord = "stay"\ntime = "hours"\nvariable = "variable"\n'
    variables = MAPPING[MAPPING.index("[variables.HR]") : MAPPING.index("[[table]]")]
    (tmp_path / "one.toml").write_text(head + 'value = "value"\n[time]\nunit = "hours"\n' + variables)
    several, one = (read_cohort(tmp_path / name, cache=False) for name in ("m.toml", "one.toml"))
    assert [line[2:] for line in by_name(several)] == [line[2:] for line in by_name(one)]
    assert np.array_equal([line[1] for line in by_name(several)], [line[1] for line in by_name(one)])


def test_tables_too_large_for_memory_and_in_another_order_are_the_same_cohort(tmp_path, monkeypatch):
    write(tmp_path)
    whole = read_cohort(tmp_path / "m.toml", cache=False)
    head, *parts = MAPPING.split("[[table]]")
    (tmp_path / "m.toml").write_text("[[table]]".join([head, *reversed(parts)]))
    monkeypatch.setattr(buckets, "MEMORY_ROWS", 50)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 10)
    turned = read_cohort(tmp_path / "m.toml", cache=False)
    assert by_name(whole) == by_name(turned)
    assert whole.fingerprint == turned.fingerprint


def test_an_edit_of_any_of_the_tables_is_seen_through_the_cache(tmp_path):
    write(tmp_path)
    before = read_cohort(tmp_path / "m.toml")
    assert same(before, read_cohort(tmp_path / "m.toml"))
    for name, old, new in (("patients.csv", "8,61,F", "8,62,F"), ("lab.psv", "5,5", "6,5")):
        path = tmp_path / name
        path.write_text(path.read_text().replace(old, new))
        after = read_cohort(tmp_path / "m.toml")
        assert after.fingerprint != before.fingerprint
        before = after


# Who knows whom -----------------------------------------------------------------------------------------------------

TWO = """
[time]
unit = "hours"
[variables.HR]
[variables.K]
[[table]]
source = "a.csv"
kind = "wide"
[table.columns]
record = "id"
time = "t"
[table.variables.HR]
[[table]]
source = "b.csv"
kind = "wide"
[table.columns]
record = "id"
time = "m"
[table.time]
unit = "minutes"
[table.variables.K]
"""
PEOPLE = """
[[table]]
source = "p.csv"
kind = "static"
[table.columns]
record = "id"
[table.descriptors]
age = {}
"""


def two(folder, a, b, text=TWO, people=None):
    for name, head, rows in (("a", "id,t,HR", a), ("b", "id,m,K", b), ("p", "id,age", people or [])):
        (folder / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "m.toml").write_text(text)
    return read_cohort(folder / "m.toml", cache=False)


def test_tables_may_count_time_in_different_units(tmp_path):
    found = two(tmp_path, ["1,0.1,80", "1,2,81"], ["1,90,4.1", "1,2880,4.2", "1,2881,4.3"])
    assert [line[1:4] for line in by_name(found)] == [
        (float(np.float32(0.1)), "HR", 80.0),
        (1.5, "K", 4.1),
        (2.0, "HR", 81.0),
        (48.0, "K", 4.2),
    ]
    assert counts(found)["outside_stay"] == 1


def test_rows_of_ids_that_no_other_table_has_are_read_counted_and_named_by_table_and_row(tmp_path):
    found = two(tmp_path, ["1,0,80", "2,0,81", "2,1,82"], ["1,0,4", "x,5,5", "1,1,4", "x,6,6", "y,6,6"])
    assert sorted(column(found, "file")) == ["1", "2", "x", "y"]
    assert counts(found) == {"reading": 8}
    alone = [note for note in found.notes if "no other table" in note]
    assert alone == [
        "2 rows of a.csv of 1 record that no other table has, the first in a.csv, row 3; read all the same",
        "3 rows of b.csv of 2 records that no other table has, the first in b.csv, row 3; read all the same",
    ]


def test_a_patient_table_makes_no_record_and_its_strangers_and_gaps_are_counted(tmp_path):
    found = two(tmp_path, ["1,0,80", "2,0,81"], ["1,0,4"], TWO + PEOPLE, ["1,50", "3,60", "4,70"])
    assert column(found, "record_id") == [1, 2]
    assert column(found, "age")[0] == 50
    assert np.isnan(np.array(column(found, "age")[1], float))
    assert [note for note in found.notes if "p.csv" in note] == [
        "p.csv: 2 values in p.csv of records that have no row",
        "2 rows of p.csv of ids that no table of readings has, not read",
        "1 of 2 records have no row in p.csv",
    ]


def test_tables_without_one_id_in_common_are_refused(tmp_path):
    with pytest.raises(CohortError, match=r"a\.csv: none of its ids in 'id' is in another table of m\.toml: name a"):
        two(tmp_path, ["1,0,80"], ["x1,0,4"])


def test_what_a_table_says_is_told_with_its_name(tmp_path):
    found = two(tmp_path, ["1,0,80", ",0,80"], [f"1,{i * 60},4" for i in range(40, 200)])
    assert "a.csv: 1 value in rows that name no record, and so of nobody" in found.notes
    said = next(note for note in found.notes if "fall outside" in note)
    assert re.match(r"b\.csv: 151 of 160 readings \(94%\) fall outside their stay; with unit = \"seconds\"", said)


def test_static_facts_reach_every_window_of_a_record(tmp_path):
    rows = ["1,0,80", "1,50,81", "1,100,82"]
    found = two(tmp_path, rows, ["1,3600,4"], "windows = true\n" + TWO + PEOPLE, ["1,50"])
    assert sorted(column(found, "file")) == ["1#0", "1#1", "1#2"]
    assert column(found, "age") == [50, 50, 50]


def test_times_of_one_table_with_a_zone_and_of_another_without_are_refused(tmp_path):
    text = TWO.replace('unit = "hours"', 'unit = "timestamp"').replace('[table.time]\nunit = "minutes"\n', "")
    rows = ["1,2150-01-01T00:00:00Z,80"], ["1,2150-01-01T00:00:00,4"]
    with pytest.raises(
        CohortError, match=r"b\.csv: column 'm': the times of one table say a zone and those of another"
    ):
        two(tmp_path, *rows, text)
    zoned = text.replace("[table.variables.K]", '[table.time]\nzone = "Europe/Berlin"\n[table.variables.K]')
    found = two(tmp_path, *rows, zoned)
    assert [line[1:3] for line in by_name(found)] == [(0.0, "K"), (1.0, "HR")]


# The mapping --------------------------------------------------------------------------------------------------------


def test_the_mapping_that_the_page_on_mappings_shows_is_one_of_four_tables():
    page = (Path(__file__).parents[3] / "docs" / "mapping.md").read_text(encoding="utf-8")
    shown = next(block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[[table]]" in block)
    found = parse_mapping(Path("ward.toml"), shown, tomllib.loads(shown))
    assert [(part.kind, part.source.name) for part in found.parts] == [
        ("long", "chart.csv"),
        ("long", "lab.csv"),
        ("static", "stays.csv"),
        ("static", "patients.csv"),
    ]


def test_a_mapping_of_several_tables_has_one_list_of_variables_and_each_table_its_rules(tmp_path):
    write(tmp_path)
    found = read_mapping(tmp_path / "m.toml")
    assert found.variables.names == ("HR", "Temp", "Glucose")
    assert found.facts == ("age", "gender")
    assert [[(r.name, r.target) for r in part.rules] for part in found.parts] == [
        [("HR", 0), ("Temp", 1)],
        [("Glucose", 2), ("Glucose", 2)],
        [("HR", 0), ("Temp", 1)],
        [],
        [("age", 3), ("gender", 4)],
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[variables.HR]", '[variables.HR]\ncodes = ["x"]', r"\[variables.HR\] codes: says how one table is read: put"),
        ("[table.variables.HR]", "[table.variables.HR]\nlow = 1", r"\[table 1.variables.HR\] low: says what the vari"),
        (
            "[table.variables.HR]",
            "[table.variables.HRR]",
            r"\[table 1.variables\] HRR: is no key here; did you mean HR",
        ),
        ("[table.variables.K]", "", r"at the top variables.K: is read from no table"),
        ('unit = "minutes"', 'unit = "timestamp"', r"at the top table: has timestamps in one table and numbers"),
        (
            'unit = "minutes"',
            'origin = "first"',
            r"\[table 2.time\] origin: is one for all tables: say it under \[time",
        ),
        ('[time]\nunit = "hours"', '[time]\nunit = "hours"\norigin = "column"', r"no table names its column"),
        ('source = "b.csv"', 'sauce = "b.csv"', r"\[table 2\] source: is missing; did you mean sauce"),
        ('kind = "wide"', 'kind = "static"', r"\[table 1.columns\] time: is no key of a static table"),
        ("[time]", "[columns]\n[time]", r"at the top columns: is of one table: with \[\[table\]\] put it into one"),
        ("[time]", 'source = "a.csv"\n[time]', r"at the top source: is no key here"),
    ],
)
def test_what_a_mapping_of_several_tables_cannot_mean_names_the_table_and_the_key(old, new, said, tmp_path):
    (tmp_path / "m.toml").write_text(TWO.replace(old, new, 1))
    with pytest.raises(CohortError, match=said):
        read_mapping(tmp_path / "m.toml")
