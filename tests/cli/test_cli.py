"""The commands: help texts, exit codes that mean what they say, defaults."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from levyscreen.cli.app import app
from tests.cli.outputs import frame_of, written

# Help and start -------------------------------------------------------------------------------------------------------


def commands(group=None, prefix=""):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        yield f"{prefix}{name}", command


def test_every_command_and_every_option_has_a_help_text():
    found = dict(commands())
    assert {
        "screen",
        "continuum",
        "train",
        "calibrate",
        "evaluate",
        "plot",
        "validate",
        "cache list",
        "cache clear",
    } <= set(found)
    for name, command in found.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name}"


def test_every_commands_help_can_be_printed(run):
    for name, _ in commands():
        code, out, err = run(*name.split(), "--help")
        assert (code, err) == (0, "")
        assert f"levyscreen {name}" in out


def test_the_command_starts_without_torch():
    code = "import sys, levyscreen.cli.app; print(sorted({'torch', 'pandas', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_version_is_printed(done):
    assert done("--version")[0].startswith("levyscreen 0.")


# Exit codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--signal", "doubt"], "levyscreen: unknown signal 'doubt': use calibrated, deviation"),
        (["--top-decile", "--flag", "0.05"], "levyscreen: --top-decile flags a tenth: give either it or --flag"),
        (["--flag", "2"], "levyscreen: the flagged fraction must lie in (0, 1], got 2.0"),
        (["--hide", "1"], "levyscreen: the hidden fraction must lie between 0 and 1"),
        (["--format", "xml"], "levyscreen: unknown format 'xml': use table, csv, json, ndjson, parquet"),
        (["-o", "rows.xyz"], "levyscreen: give rows.xyz a format by --format"),
        (["--protocol", "other"], "levyscreen: unknown protocol 'other': use ours or paper"),
        (["--device", "tpu"], "levyscreen: unknown device 'tpu': use auto, cpu or cuda"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--colour"], "No such option"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what_is_right(run, ward, words, message):
    code, out, err = run("screen", ward, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("levyscreen-out").exists()  # said before anything is computed


def test_continuum_without_a_cohort_screened_here_says_what_to_type(run):
    code, out, err = run("continuum")
    assert (code, out) == (2, "")
    assert err == (
        "levyscreen: no cohort was screened from this folder yet: "
        "type levyscreen continuum COHORT, or screen one first\n"
    )


def test_a_missing_cohort_or_model_exits_with_one_line_and_code_one(run, ward):
    code, out, err = run("screen", "nowhere")
    assert (code, out) == (1, "")
    assert err.startswith("levyscreen: ")
    assert "nowhere" in err
    assert err.count("\n") == 1
    code, _, err = run("screen", ward, "--model", "physionet2013")
    assert code == 1
    assert "no model 'physionet2013': shipped are physionet2012, physionet2012-paper" in err


def test_a_folder_that_cannot_be_written_to_is_said_without_a_traceback(run, ward):
    Path("taken").write_text("a file")
    code, _, err = run("screen", ward, "--out", "taken/inside")
    assert code == 1
    assert "levyscreen: folder taken/inside could not be made: Not a directory" in err


def test_an_interrupt_exits_with_130_and_leaves_no_output(run, ward, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("levyscreen.screen"), "ask", interrupted)
    assert run("screen", ward)[0] == 130
    assert not Path("levyscreen-out").exists()


# Defaults -------------------------------------------------------------------------------------------------------------


def test_options_fall_back_to_the_environment_then_to_a_toml_file(done, ward, monkeypatch):
    Path("levyscreen.toml").write_text('[screen]\nseed = 2\nsignal = "evidence"\ntop-decile = true\n')
    assert len(frame_of(done("screen", ward)[0])) == 4
    assert (written().attrs["seed"], written().attrs["signal"]) == (2, "evidence")
    monkeypatch.setenv("LEVYSCREEN_SCREEN_SEED", "3")
    done("screen", ward)
    assert (written().attrs["seed"], written().attrs["signal"]) == (3, "evidence")
    done("screen", ward, "--seed", "4")
    assert written().attrs["seed"] == 4
    Path("other.toml").write_text("[screen]\nhide = 0.5\n")
    done("--config", "other.toml", "screen", ward)
    assert (written().attrs["hide"], written().attrs["signal"]) == (0.5, "calibrated")


def test_of_two_options_that_exclude_each_other_the_typed_one_counts(done, run, ward, monkeypatch):
    Path("levyscreen.toml").write_text("[screen]\nflag = 0.2\n")
    assert len(frame_of(done("screen", ward)[0])) == 7
    assert len(frame_of(done("screen", ward, "--top-decile")[0])) == 4
    Path("levyscreen.toml").unlink()
    monkeypatch.setenv("LEVYSCREEN_SCREEN_TOP_DECILE", "1")
    assert len(frame_of(done("screen", ward, "--flag", "0.2")[0])) == 7
    code, _, err = run("screen", ward, "--flag", "0.2", "--top-decile")
    assert (code, "--top-decile flags a tenth: give either it or --flag" in err) == (2, True)


def test_a_version_in_the_environment_is_the_packages_and_asks_for_nothing(done, ward, monkeypatch):
    for value in ("0.1.0", "1"):
        monkeypatch.setenv("LEVYSCREEN_VERSION", value)
        assert len(frame_of(done("screen", ward)[0])) == 27


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 3\n", "has 'seed' outside a table: put it under its command"),
        ("[screen", "is not a readable TOML file"),
        ("x = " + "[" * 5000, "is not a readable TOML file"),
        ("[scren]\nseed = 3\n", "has a table [scren], but there is no such command: use screen"),
        ("[screen]\nsed = 3\n", "has 'sed' in [screen], which has no such option: use seed"),
        ("[screen]\nzzz = 3\n", "has 'zzz' in [screen], which has no such option: use cohort, compare, device, "),
        ("[train]\nmember = 3\n", "has 'member' in [train], which has no such option: use members"),
        ("[cache]\nfolder = 'x'\n", "has 'folder' in [cache], which has no such option: delete it"),
        ("[screen]\ntop-decile = true\ntop_decile = false\n", "has one option twice in [screen]"),
        ("[screen]\nseed = [1]\n", "has neither a text nor a number nor true or false as 'seed' in [screen]"),
    ],
)
def test_a_toml_file_that_is_none_is_wrong_usage(run, ward, text, message):
    Path("levyscreen.toml").write_text(text)
    code, _, err = run("screen", ward)
    assert code == 2
    assert f"levyscreen: levyscreen.toml {message}" in err
