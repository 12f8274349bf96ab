"""The recipes run as they stand in docs/recipes.md, on what the two commands above them write."""

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from levyscreen.cli.app import main
from tests.conftest import SAMPLE

RECIPES = Path(__file__).parent.parent / "docs" / "recipes.md"
PARTS = ("pandas", "polars", "DuckDB")


def blocks(part):
    """The Python of a part, all of it in one, as a reader types it."""
    text = RECIPES.read_text(encoding="utf-8").split(f"\n## {part}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def commands():
    return [line.split()[1:] for line in RECIPES.read_text().splitlines() if line.startswith("    levyscreen ")]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder in which the recipes' commands have run, on 24 short records of the sample, with made-up outcomes."""
    folder = tmp_path_factory.mktemp("recipes")
    ward = folder / "examples" / "set-b-sample"
    ward.mkdir(parents=True)
    for path in sorted(SAMPLE.iterdir(), key=lambda path: path.stat().st_size)[:24]:
        shutil.copy(path, ward)
    ids = sorted(int(path.stem) for path in ward.iterdir())
    outcomes = pd.DataFrame({"RecordID": ids, "SAPS-I": 10, "In-hospital_death": [i % 2 for i in ids]})
    outcomes.to_csv(folder / "Outcomes-b.txt", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("levyscreen.machine.prepare", lambda: None)
        for words in commands():
            patch.setattr(sys, "argv", ["levyscreen", *words])
            with pytest.raises(SystemExit) as stopped:
                main()
            assert not stopped.value.code
    return folder


def test_every_part_has_its_own_library():
    assert [f"import {name.lower()}" in blocks(name) for name in PARTS] == [True] * 3


@pytest.mark.parametrize("part", PARTS)
def test_recipes_run_and_print_what_they_say(here, monkeypatch, capsys, part):
    pytest.importorskip(part.lower(), reason="pip install 'levyscreen[dev]' brings it")
    monkeypatch.chdir(here)
    exec(compile(blocks(part), f"recipes of {part}", "exec"), {})
    out = capsys.readouterr().out
    scores = pd.read_parquet("levyscreen-out/set-b-sample/scores.parquet")
    assert "physionet2012" in out
    for record_id in scores.loc[scores["flagged"], "record_id"].head(2):
        assert str(record_id) in out
