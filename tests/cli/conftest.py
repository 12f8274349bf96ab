"""A folder of its own for each test of a command, and a way to run it."""

import sys

import pytest

from levyscreen.cli.app import main


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Each test in a folder of its own, and no process-wide setting changed for the tests that follow."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("levyscreen.machine.prepare", lambda: None)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs levyscreen in this process: (exit code, stdout, stderr)."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["levyscreen", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call
