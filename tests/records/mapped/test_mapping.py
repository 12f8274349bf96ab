"""A mapping file means one thing, or it is an error that names the file, the table and the key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from levyscreen.errors import CohortError
from levyscreen.records.mapped.codes import Codes
from levyscreen.records.mapped.mapping import Mapping, Static, parse_mapping, read_mapping
from levyscreen.records.mapped.text import Form
from levyscreen.variables import VariableSet

WHOLE = """
source = "stays.csv"
kind = "long"
[columns]
record = "stay"
time = "hours"
variable = "item"
value = "value"
[time]
unit = "hours"
[variables.HR]
codes = ["pulse", "HR*"]
unit = "bpm"
low = 1
high = 295
[variables.Temp]
codes = ["temp_c"]
unit = "degC"
also = [{ codes = ["temp_f"], factor = 0.5, offset = -17.0 }]
[descriptors]
age = {}
"""


def parsed(text: str = WHOLE, path: Path = Path("ward/my.toml")) -> Mapping:
    return parse_mapping(path, text, tomllib.loads(text))


def test_a_whole_mapping_has_variables_in_its_own_order_and_rules_for_each_code():
    found = parsed()
    assert found.variables.names == ("HR", "Temp")
    assert (found.variables.name, found.variables.horizon_hours, found.variables.negatives) == ("my", 48.0, False)
    assert [(r.name, r.target, r.codes, r.factor, r.offset) for r in found.rules] == [
        ("HR", 0, ("pulse", "HR*"), 1.0, 0.0),
        ("Temp", 1, ("temp_c",), 1.0, 0.0),
        ("Temp", 1, ("temp_f",), 0.5, -17.0),
        ("age", 2, ("age",), 1.0, 0.0),
    ]


def test_how_a_text_is_written_and_where_else_facts_are_is_as_the_mapping_says():
    found = parsed('quote = false\ndecimal = ","\nencoding = "cp1252"\ndelimiter = ";"\n' + WHOLE)
    assert found.form == Form(None, ";", False, "cp1252")
    assert (found.decimal, found.time.decimal, found.static) == (",", ",", None)
    assert parsed().form == Form(None, None, None, "utf-8")
    assert parsed(WHOLE + '[static]\nsource = "sta.csv"\n').static == Static(Path("ward/sta.csv"), "stay")


def test_the_source_stands_beside_the_mapping():
    assert parsed().source == Path("ward/stays.csv")
    assert parsed(WHOLE.replace("stays.csv", "/data/stays.csv")).source == Path("/data/stays.csv")


@pytest.mark.parametrize(
    ("key", "hours"),
    [
        ("horizon_days = 2", 48),
        ("horizon_hours = 24", 24),
        ("horizon_minutes = 90", 1.5),
        ("horizon_minutes = 23", 23 / 60),
        ("horizon_seconds = 9", 9 / 3600),
        ("horizon_seconds = 0.0036", 0.0036 / 3600),
    ],
)
def test_a_horizon_may_be_of_any_length_in_any_unit(key, hours):
    variables = parsed(f"{key}\n{WHOLE}").variables
    assert variables.horizon_hours == hours  # exactly, as a time in that unit is
    assert VariableSet.from_json(variables.to_json()) == variables  # as a cohort or a model of it is kept


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "long"', "", r"my\.toml, at the top kind: is missing"),
        ('kind = "long"', 'kind = "tall"', r"at the top kind: is 'tall', which is none of long, wide, meds"),
        (
            'record = "stay"',
            'recrod = "stay"',
            r"\[columns\] record: is missing: name the column that holds the record",
        ),
        ('unit = "hours"', 'unit = "weeks"', r"\[time\] unit: is 'weeks', which is none of timestamp, HH:MM, days"),
        ('unit = "hours"', 'unit = "timestamp"\norigin = "admission"', r'\[time\] origin: cannot be "admission" where'),
        (
            'unit = "hours"',
            'unit = "hours"\norigin = "column"',
            r"\[time\] column: is missing: origin = \"column\" needs",
        ),
        ('unit = "hours"', 'unit = "hours"\ncode = "X"', r"\[time\] code: is for origin = \"code\" alone"),
        ('unit = "bpm"', 'unitt = "bpm"', r"\[variables\.HR\] unitt: is no key here; did you mean unit\?"),
        ('kind = "long"', 'kind = "long"\nquote = "no"', r"at the top quote: must be true or false, not 'no'"),
        ('kind = "long"', 'kind = "long"\ndecimal = ";"', r"at the top decimal: is ';', which is none of \., ,"),
        ('kind = "long"', 'kind = "long"\nencoding = "base64"', r"at the top encoding: is 'base64', which Python does"),
        ("age = {}", "age = {}\n[static]\nrecord = 'a'", r"\[static\] source: is missing"),
        ("age = {}", "age = {}\n[static]\nsource = 'a.csv'\nkey = 1", r"\[static\] key: is no key here"),
        ("low = 1", "low = 300", r"\[variables\.HR\] low: is above high: 300 > 295"),
        ("low = 1", 'low = "1"', r"\[variables\.HR\] low: must be a finite number of at most 1e\+15, not '1'"),
        ("low = 1", "low = -1e16", r"low: must be a finite number of at most 1e\+15, not -1e\+16"),
        ("low = 1", "low = 1" + "0" * 400, r"low: must be a finite number of at most 1e\+15, not 1000"),
        ('unit = "hours"', "unit = inf", r"\[time\] unit: must be a text in quotes, not inf"),
        (
            'unit = "hours"',
            'unit = "timestamp"\nformat = "%Y-%m-%d %H:%m"',
            r"\[time\] format: '%Y-%m-%d %H:%m' has a directive twice: %m is the month, %M the minute",
        ),
        ('unit = "hours"', 'unit = "timestamp"\nformat = "%Q"', r"\[time\] format: 'Q' is a bad directive in"),
        ('unit = "hours"', 'unit = "timestamp"\nformat = "%Y%"', r"\[time\] format: stray %"),
        ("factor = 0.5", "factor = 0", r"\[variables\.Temp\.also\] factor: is 0"),
        ('"temp_f"', '"pulse"', r"at the top variables: gives the code 'pulse' to HR and to Temp: keep one"),
        ("age = {}", "agee = {}", r"\[descriptors\] agee: is no key here; did you mean age\?"),
        ("[variables.HR]", '[variables."a;b"]', r"\[variables\.a;b\]: has a name that cannot be shown in a list"),
        ('source = "stays.csv"', 'sorce = "stays.csv"', r"at the top source: is missing; did you mean sorce\?"),
        ('kind = "long"', 'kind = "long"\nhorizon_hours = 0', r"horizon_hours: must be 3.6 milliseconds or more"),
        ('kind = "long"', 'kind = "long"\nhorizon_hours = 2\nhorizon_days = 1', r"says again what horizon_hours says"),
    ],
)
def test_what_it_cannot_mean_is_named_with_file_table_and_key(old, new, message):
    assert old in WHOLE
    with pytest.raises(CohortError, match=message):
        parsed(WHOLE.replace(old, new))


def test_a_mapping_that_is_no_toml_or_not_there_says_so(tmp_path):
    with pytest.raises(CohortError, match=r"no such mapping file; levyscreen map COHORT writes a first one"):
        read_mapping(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("source = ")
    with pytest.raises(CohortError, match=r"bad\.toml is not a readable TOML file"):
        read_mapping(tmp_path / "bad.toml")


def test_an_exact_code_comes_before_a_pattern_and_a_variable_before_what_is_ignored():
    codes = Codes(parsed(WHOLE + '[ignore]\ncodes = ["*", "temp_c"]\n'))
    assert [codes.rule(c) for c in ("pulse", "HR, left", "temp_f", "age")] == [0, 0, 2, 3]
    assert codes.rule("anything") == Codes.IGNORED
    assert Codes(parsed()).rule("anything") == Codes.UNKNOWN


def test_only_a_star_is_a_pattern():
    codes = Codes(parsed(WHOLE.replace('"HR*"', '"a.c[1]?*"')))
    assert codes.rule("a.c[1]? left") == 0
    assert codes.rule("abc[1]? left") == Codes.UNKNOWN


def test_a_code_that_fits_two_patterns_is_an_error():
    codes = Codes(parsed(WHOLE.replace('"temp_c"', '"*left"')))
    with pytest.raises(CohortError, match=r"one code fits the patterns of HR and Temp: make them narrower, or give it"):
        codes.rule("HR left")


def test_the_example_of_the_documents_is_a_mapping():
    page = (Path(__file__).parents[3] / "docs/mapping.md").read_text()
    found = parsed(page.split("```toml\n")[1].split("```")[0])
    assert found.variables.names == ("HR", "Temp", "Glucose")
    assert (found.columns.unit, found.rules[4].units, found.rules[4].factor) == ("valueuom", ("mmol/L",), 18.016)
    assert (found.time.column, found.ignored, found.facts) == ("intime", ("DIAGNOSIS//*",), ("gender",))
