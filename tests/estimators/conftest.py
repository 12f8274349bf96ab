import pytest

from tests.estimators.cast import tiny_batches, tiny_networks


@pytest.fixture(scope="package")
def networks():
    return tiny_networks()


@pytest.fixture(scope="package")
def batches():
    """Three to train on, two to validate on, one to ask; eight records each."""
    return tiny_batches()


@pytest.fixture(scope="package")
def train(batches):
    return batches[:3]


@pytest.fixture(scope="package")
def validation(batches):
    return batches[3:5]


@pytest.fixture(scope="package")
def asked(batches):
    return batches[5]
