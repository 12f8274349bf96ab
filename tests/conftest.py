import os
import shutil
from pathlib import Path

import pytest

# Tensors here are tiny: threads that wait for each other on a busy machine cost ten times what they save. Set before
# torch is first imported; processes that a test starts inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SAMPLE = Path(__file__).parent.parent / "examples" / "set-b-sample"


def pytest_collection_modifyitems(items):
    """Of several processes each takes whole modules, whose tests share what they fit; of the fault matrix, rows.

    All studies share their networks. They come first, since one process has long to do with them.
    """
    for item in items:
        module = item.nodeid.partition("::")[0]
        group = item.nodeid if module.endswith("test_matrix.py") else "studies" if "/study/" in module else module
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: "/study/" not in item.nodeid)


@pytest.fixture(scope="session", autouse=True)
def _never_the_users_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVYSCREEN_CACHE_DIR", str(tmp_path_factory.mktemp("session-cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _a_meta_model_need_not_be_good():
    """Fitting it takes longest of all that a training does; tests of it set the number back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("levyscreen.learn.reader.EPOCHS", 1)
        yield


@pytest.fixture(scope="session")
def sample_files(tmp_path_factory):
    """31 of the sample's records, among them the odd ones."""
    files = sorted(path for path in SAMPLE.iterdir() if path.stem.isdigit())
    few, empty, long = 23, 81, 83
    folder = tmp_path_factory.mktemp("sample") / SAMPLE.name
    folder.mkdir()
    for path in [*files[:4], *files[4::4], files[few], files[empty], files[long]]:
        shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="session")
def sample(sample_files):
    """Their cohort: one is empty, one has too few readings, three have over 512."""
    from levyscreen.records.cache import read_cohort

    return read_cohort(sample_files, cache=False)


@pytest.fixture(scope="session")
def whole_sample():
    """All hundred records."""
    from levyscreen.records.cache import read_cohort

    return read_cohort(SAMPLE, cache=False)


@pytest.fixture(scope="session")
def shipped():
    """The shipped model."""
    from levyscreen.store import load_model

    return load_model("physionet2012")
