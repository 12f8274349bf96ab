"""What the tests of training share."""

import pytest
import torch

from levyscreen.learn.data import prepare
from levyscreen.learn.fit import fit
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def data():
    return prepare(tiny_cohort(), PROTOCOL, TRAINING.seed)


@pytest.fixture(scope="session")
def whole(data, tmp_path_factory):
    """A training that nothing interrupts."""
    return fit(data, MODEL, TRAINING, tmp_path_factory.mktemp("whole"), CPU)
