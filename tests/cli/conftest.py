"""A folder of its own for each test of a command, and a way to run it."""

import shutil
import sys

import pytest

from levyscreen.cli.app import main
from tests.conftest import SAMPLE


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


@pytest.fixture(scope="session")
def ward(tmp_path_factory):
    """The 26 shortest records of the sample, one of them empty and one with too few readings, and its longest."""
    files = sorted(SAMPLE.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    folder = tmp_path_factory.mktemp("cohorts") / "ward"
    folder.mkdir()
    for path in [*files[:26], files[-1]]:
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def done(run):
    """As `run`, for what must succeed: (stdout, stderr)."""

    def call(*words):
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    return call
