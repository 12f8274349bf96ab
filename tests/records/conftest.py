from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVYSCREEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def physionet() -> Path:
    """Folder of set-a.tar.gz and set-b.tar.gz."""
    root = Path(__file__).parents[2]
    for place in (root / "shared", root.parent / "shared"):
        if (place / "data/physionet2012/set-b.tar.gz").is_file():
            return place / "data/physionet2012"
    pytest.skip("set-a.tar.gz and set-b.tar.gz of PhysioNet 2012 are not in shared/data/physionet2012")
