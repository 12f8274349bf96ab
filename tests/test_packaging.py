"""What is built holds all that it needs: the source archive its tests, the wheel its models."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.conftest import SAMPLE

setuptools = pytest.importorskip("setuptools", "77", reason="building needs setuptools 77: pip install '.[dev]'")
pytest.importorskip("pip", reason="installing needs pip")

ROOT = SAMPLE.parent.parent
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
START = "from levyscreen.cli.app import main; main()"


def run(*words, cwd, **settings):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=environment | settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source archive, unpacked; built from a copy, since building writes beside the sources."""
    folder = tmp_path_factory.mktemp("sdist")
    leave = shutil.ignore_patterns(".*", "studies", "runs", "build", "dist", "*.egg-info", "levyscreen-out", "shared")
    shutil.copytree(ROOT, folder / "copy", ignore=leave, symlinks=True)
    run("-c", BUILD, folder, cwd=folder / "copy")
    (archive,) = folder.glob("levyscreen-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    return next((folder / "unpacked").iterdir())


@pytest.fixture(scope="module")
def installed(sdist, tmp_path_factory):
    """A folder with what a wheel installs, built from the source archive alone."""
    folder = tmp_path_factory.mktemp("wheel")
    quiet = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*quiet, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sdist, cwd=folder)
    (wheel,) = folder.glob("levyscreen-*.whl")
    run(*quiet, "install", "--no-deps", "--no-index", "--target", folder / "target", wheel, cwd=folder)
    return folder / "target"


def test_the_source_archive_holds_what_tests_benchmarks_and_make_need(sdist):
    parts = ("levyscreen", "tests", "examples", "benchmarks", "models")
    wanted = [
        path.relative_to(ROOT)
        for part in parts
        for path in (ROOT / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "training" not in path.parts
    ]
    wanted += [Path(name) for name in ("Makefile", "constraints.txt", "LICENSE", "README.md", "pyproject.toml")]
    assert [str(name) for name in wanted if not (sdist / name).is_file()] == []


def test_an_installed_wheel_says_its_version_and_screens_with_its_own_model(installed, tmp_path):
    ward = tmp_path / "ward"
    ward.mkdir()
    for record in sorted(SAMPLE.iterdir())[:2]:
        shutil.copy(record, ward)
    settings = {"PYTHONPATH": str(installed), "LEVYSCREEN_CACHE_DIR": str(tmp_path / "cache")}
    where = "import levyscreen.store as s; print(s.shipped_folder())"
    assert run("-c", where, cwd=tmp_path, **settings).strip() == str(installed / "levyscreen" / "models")
    assert run("-c", START, "--version", cwd=tmp_path, **settings).startswith("levyscreen 0.")
    scores = run("-c", START, "screen", ward, cwd=tmp_path, **settings).splitlines()
    assert len(scores) == 3
    assert (tmp_path / "levyscreen-out" / "ward" / "scores.parquet").is_file()


def test_the_wheel_holds_every_module_and_nothing_that_is_not_the_packages(installed):
    def modules(folder):
        return {path.relative_to(folder) for path in folder.rglob("*.py") if "models" not in path.parts}

    assert modules(installed / "levyscreen") == modules(ROOT / "levyscreen")
    tops = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"levyscreen", "bin"}
