"""What is given away works where nothing of the checkout is: the source distribution and the wheel made from it.

Nothing is downloaded: setuptools is at hand, and what levyscreen depends on is taken from the tests' own environment.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BACKEND = "from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
needs_setuptools = pytest.mark.skipif(
    importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed, and nothing is downloaded here"
)
needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout: nothing to compare with"
)


def tracked():
    """Files of the checkout that git has or would take."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in listed if name and (ROOT / name).is_file()}


def built(kind, source, folder):
    """One distribution of the project in `source`, made by the backend that pip calls."""
    code = "import sys; " + BACKEND.format(kind=kind)
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=source, capture_output=True, text=True, check=True)
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what git has, so that nothing built or left lying about is taken along."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def sdist(checkout, tmp_path_factory):
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", checkout, folder)) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The wheel that is made from the source distribution."""
    return built("wheel", sdist, tmp_path_factory.mktemp("wheel"))


@needs_setuptools
@needs_git
def test_the_source_distribution_holds_every_file_that_git_has(sdist):
    packed = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    made = {"PKG-INFO", "setup.cfg"}
    assert tracked() - packed == set()
    assert {name for name in packed - tracked() - made if ".egg-info/" not in name} == set()


@needs_setuptools
@needs_git
def test_the_wheel_holds_the_package_and_the_shipped_models_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    of_package = {name for name in tracked() if name.startswith("levyscreen/")}
    models = {f"levyscreen/{name}" for name in tracked() if name.startswith("models/")}
    assert names == of_package | models


SCREENING = """
import os, sys
sys.path.insert(0, sys.argv[1])
import levyscreen
assert levyscreen.__file__.startswith(sys.argv[1]), levyscreen.__file__
from importlib.metadata import version
scores = levyscreen.screen(levyscreen.read_cohort(sys.argv[2], cache=False), levyscreen.load_model()).scores
print(version("levyscreen"), scores["status"].tolist())
"""


@needs_setuptools
@needs_git
def test_the_wheel_screens_where_nothing_of_the_checkout_is(wheel, tmp_path):
    """Installed by itself into an empty folder, found before the environment's own copy, run from another folder."""
    site, cohort = tmp_path / "site", tmp_path / "two"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(words, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    cohort.mkdir()
    for path in sorted((ROOT / "examples" / "set-b-sample").glob("*.txt"))[:2]:
        shutil.copy(path, cohort)
    words = [sys.executable, "-c", SCREENING, site, cohort]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0.1.0 ['scored', 'scored']"]
    assert (site / "bin" / "levyscreen").exists()
