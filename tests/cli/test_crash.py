"""An error that nobody meant is told by its places; its message, which may quote a reading, stays unsaid."""

import sys
import warnings

import pytest

from levyscreen.calibrate import CalibrationWarning
from levyscreen.cli import crash
from levyscreen.cli.app import main


def caught(break_it):
    try:
        break_it()
    except Exception as error:
        return error


def converted():
    float("98.6x")


def looked_up():
    try:
        converted()
    except ValueError as error:
        raise KeyError(132539) from error


def test_a_crash_says_kind_file_line_and_function_and_no_message(capsys):
    crash.report(caught(converted))
    err = capsys.readouterr().err
    assert "builtins.ValueError\n" in err
    assert f"{__file__}:{converted.__code__.co_firstlineno + 1} in converted" in err
    assert "98.6" not in err
    assert "this is a bug" in err
    assert "Please report the lines above" in err


def test_what_led_to_it_stands_before_it(capsys):
    crash.report(caught(looked_up))
    lines = capsys.readouterr().err.splitlines()
    assert lines.index("builtins.ValueError") < lines.index("which led to") < lines.index("builtins.KeyError")


def test_in_debug_mode_lines_of_code_and_masked_messages_are_added(capsys, monkeypatch):
    monkeypatch.setenv("LEVYSCREEN_DEBUG", "1")
    crash.report(caught(looked_up))
    err = capsys.readouterr().err
    assert "ValueError: could not convert string to float: ...\n" in err
    assert "raise KeyError(132539) from error" in err  # the line of code, which no record wrote
    assert "KeyError: ...\n" in err


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("shape (3, 128) of float32", "shape (... ...) of float32"),
        ("reading -1.5e+04 in 'HR' and \"K\"", "reading ... in ... and ..."),
        ("no module named levyscreen", "no module named levyscreen"),
    ],
)
def test_numbers_and_quoted_text_are_masked_and_names_stay(message, said):
    assert crash.masked(message) == said


def test_a_warning_of_ours_is_said_and_one_of_another_library_only_named(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        crash.prepare()
        warnings.warn("too few targets", CalibrationWarning, stacklevel=1)
        warnings.warn("odd value 98.6", UserWarning, stacklevel=1)
    ours, other = capsys.readouterr().err.splitlines()
    assert ours == "warning: too few targets"
    assert other.startswith(f"warning: UserWarning at {__file__}:")


def test_a_command_that_crashes_exits_with_1_and_without_pythons_traceback(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("levyscreen.machine.prepare", lambda: None)
    monkeypatch.setattr("levyscreen.records.cache.read_cohort", lambda *_, **__: converted())
    monkeypatch.setattr(sys, "argv", ["levyscreen", "validate", "."])
    with warnings.catch_warnings(), pytest.raises(SystemExit) as stopped:
        main()
    err = capsys.readouterr().err
    assert stopped.value.code == 1
    assert "in converted" in err
    assert "Traceback" not in err
    assert "98.6" not in err
