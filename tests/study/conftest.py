"""What tests of several modules ask: a stage, and every estimator's result of it."""

from pathlib import Path

import pytest

from levyscreen.estimators.registry import ESTIMATORS
from levyscreen.study.ranking import rank
from levyscreen.study.results import Results
from tests.study.tiny import tiny_stage


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """No process-wide setting is changed for the tests that follow."""
    monkeypatch.setattr("levyscreen.machine.prepare", lambda: None)


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    return tiny_stage(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def whole(stage, tmp_path_factory):
    """Every estimator's result."""
    results = Results(tmp_path_factory.mktemp("results"), "interpolation")
    rank(stage, results, list(ESTIMATORS))
    return results


def pytest_collection_modifyitems(items):
    """Cohorts here are of few patients, and calibrations say so: to whichever test asks for a fixture first."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning"))
