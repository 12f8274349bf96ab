"""Variables that look like ours, and outputs that would spoil what they are made from, are told at once."""

from pathlib import Path

import pytest
import typer

from levyscreen.cli.app import app
from levyscreen.cli.environment import notes

GROUP = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LEVYSCREEN_SCREEN_HIED", "LEVYSCREEN_SCREEN_HIDE"),
        ("LEVYSCREEN_HIDE", "LEVYSCREEN_SCREEN_HIDE"),  # the command is left out
        ("LEVYSCREEN_MODEL", "LEVYSCREEN_SCREEN_MODEL"),
        ("LEVYSCREEN_GRID", "LEVYSCREEN_CONTINUUM_GRID"),
        ("LEVYSCREEN_CACHEDIR", "LEVYSCREEN_CACHE_DIR"),
        ("levyscreen_screen_seed", "LEVYSCREEN_SCREEN_SEED"),
        ("LEVYSCREN_SCREEN_SEED", "LEVYSCREEN_SCREEN_SEED"),  # the prefix is misspelt
        ("LEVY_SCREEN_SCREEN_SEED", "LEVYSCREEN_SCREEN_SEED"),
    ],
)
def test_a_misspelt_variable_is_named_with_the_one_that_is_meant(name, meant):
    assert list(notes([name, "PATH", "HOME"], GROUP)) == [
        f"the variable {name} is none of levyscreen's, and is ignored; did you mean {meant}?"
    ]


def test_an_argument_has_no_variable_and_so_one_that_is_called_so_is_told():
    (note,) = notes(["LEVYSCREEN_SCREEN_COHORT"], GROUP)
    assert note.startswith("the variable LEVYSCREEN_SCREEN_COHORT is none of levyscreen's, and is ignored")


def test_a_variable_like_no_other_says_where_the_names_are():
    assert list(notes(["LEVYSCREEN_XQZ"], GROUP)) == [
        "the variable LEVYSCREEN_XQZ is none of levyscreen's, and is ignored; levyscreen COMMAND --help names those "
        "there are"
    ]


@pytest.mark.parametrize("name", ["LEVYSCREEN_SCREEN_HIDE", "LEVYSCREEN_CONTINUUM_GRID", "LEVYSCREEN_CONFIG", "SCREEN"])
def test_variables_that_are_read_and_others_are_not_told(name):
    assert not list(notes([name], GROUP))


MAPPING = """source = "tables"
kind = "long"
[columns]
record = "id"
time = "t"
variable = "what"
value = "x"
[time]
unit = "hours"
[variables.HR]
unit = "bpm"
"""


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("tables", "tables/scores.csv", "lies within the cohort, tables, and would be read with it"),
        ("tables/chart.csv", "tables/chart.csv", "is the cohort itself: name another file for the output"),
        ("tables", "m.toml", "is the cohort itself"),
    ],
)
def test_an_output_that_would_spoil_the_source_is_refused(run, source, output, message):
    Path("tables").mkdir()
    Path("tables/chart.csv").write_text("id,t,what,x\n" + "".join(f"1,{h},HR,80\n" for h in range(30)))
    Path("m.toml").write_text(MAPPING.replace('"tables"', f'"{source}"'))
    before = Path(output).read_bytes() if Path(output).exists() else None
    code, _, err = run("screen", "m.toml", "-o", output, "--format", "csv")
    assert (code, message in err) == (2, True)
    assert (Path(output).read_bytes() if Path(output).exists() else None) == before


def test_a_table_beside_record_files_is_no_record_and_may_be_written(run, ward):
    code, _, err = run("screen", ward, "-o", "1.txt", "--format", "csv")
    assert code == 0, err
    code, _, err = run("screen", Path(), "-o", "1.txt", "--format", "csv")
    assert (code, "1.txt lies within the cohort" in err) == (2, True)
