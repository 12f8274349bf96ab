"""What the documents say is so: their commands and Python run, their links lead somewhere, no made page is stale.

A block marked `sh` or `python` is run, in one folder and in the order of the page, with examples/ in it. Blocks marked
`sh parsed`, indented ones and commands within a line are checked against the commands and options that exist.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main
import yaml
from markdown_it import MarkdownIt

from docs import rankings
from levyscreen.cli.app import app, main
from levyscreen.study import tables
from levyscreen.study.results import Results
from tests.conftest import SAMPLE

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/*.md", "models/*/*.md")
    for page in ROOT.glob(pattern)
)
TESTS = [path for path in (ROOT / "tests").glob("test_*.py") if path != Path(__file__)]
# Pages whose blocks a test of their own runs, on data that it makes for them.
RUN_ELSEWHERE = {page for page in PAGES if any(Path(page).name in test.read_text("utf-8") for test in TESTS)} - {
    "README.md"
}
RUN = [page for page in PAGES if page.startswith(("README", "docs/")) and page not in RUN_ELSEWHERE]
MARKDOWN = MarkdownIt("commonmark").enable("table")
TOOLS = ("levyscreen", "make", "pip", "python", "physionet")  # what a line of a block may begin with


def read(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)  # front matter


def blocks(page):
    """(language and marks, content) of every block of code; no language where it is indented."""
    return [(t.info.split(), t.content) for t in MARKDOWN.parse(read(page)) if t.type in ("fence", "code_block")]


def inline(page):
    """(type, content) of what stands within lines."""
    return [child for token in MARKDOWN.parse(read(page)) for child in token.children or ()]


def lines(content):
    """Commands of a block, without what is said of them after two spaces or a #."""
    joined = content.replace("\\\n", " ")
    found = [line.split("   ")[0].partition("  #")[0].strip() for line in joined.splitlines()]
    return [line for line in found if line.split(" ")[0] in TOOLS]


def shell(page):
    """Every command of a page's blocks, with whether it is to be run."""
    return [
        (line, marks == ["sh"])
        for marks, content in blocks(page)
        if not marks or marks[0] == "sh"
        for line in lines(content)
    ]


# Commands that exist -------------------------------------------------------------------------------------------------


def command_of(words):
    """The command that some words call, and the words that are left."""
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


def options(command):
    return {"-h", "--help", *(o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-"))}


def check_levyscreen(words, whole):
    command, rest = command_of(words)
    if words == ["COMMAND", "--help"]:
        return
    assert not hasattr(command, "commands") or not rest or rest[0].startswith("-"), f"no command {rest[0]}"
    given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
    assert given <= options(command), f"no option {sorted(given - options(command))} of {words[0]}"
    if whole and "--help" not in rest:
        command.make_context(words[0], list(rest))  # arguments are all there, and of the right kind


def check(line, whole=True):
    """Raises where a command names what does not exist; `whole` if it is to be one that could be typed."""
    for part in line.split("|"):
        words = shlex.split(part, comments=True)
        tool, words = words[0], words[1:]
        if tool == "levyscreen":
            check_levyscreen(words, whole)
        elif tool == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
            assert {word for word in words if "=" not in word} <= set(targets), line
        elif tool == "python" and words[0] == "-m":
            check_module(words[1:])
        elif tool == "python" and words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file(), line
        elif tool == "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert set(re.findall(r"\[(\w+)\]", line)) <= set(extras), line


def check_module(words):
    if words[0].split(".")[0] in ("benchmarks", "docs", "levyscreen", "tests"):
        path = ROOT / words[0].replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), words[0]
    elif words[0] == "pytest":
        assert all((ROOT / word).exists() for word in words[1:] if not word.startswith("-")), words


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_exist_with_their_options(page):
    for line, _ in shell(page):
        check(line)
    for token in inline(page):
        words = token.content.split() if token.type == "code_inline" else []
        if words and words[0] == "levyscreen" and len(words) > 1 and words[1] in command_of([])[0].commands:
            check(" ".join(word for word in words if word not in ("...", "…")), whole=False)


def test_an_option_or_a_command_that_does_not_exist_is_found():
    for wrong in ("levyscreen scren set-b", "levyscreen screen set-b --topp", "make everything", "pip install '.[x]'"):
        with pytest.raises(AssertionError):
            check(wrong)


# Commands that run --------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder as a clone of the repository would be to a reader, with set-b, set-a and a model of their own."""
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, count in (("set-a", 30), ("set-b", 12)):
        (tmp_path / name).mkdir()
        for path in sorted(SAMPLE.iterdir())[:count]:
            (tmp_path / name / path.name).symlink_to(path)
    (tmp_path / "my-tables.csv").symlink_to(ROOT / "examples/own-tables/chart.csv")
    shutil.copytree(ROOT / "models" / "physionet2012", tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("levyscreen.machine.prepare", lambda: None)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return tmp_path


def run(line, monkeypatch):
    """In this process where it is a command of levyscreen alone, else by a shell."""
    if line.startswith("levyscreen") and not set("|>") & set(line):
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0
    levyscreen = f'{sys.executable} -c "from levyscreen.cli.entry import main; main()"'
    script = re.sub(
        r"\blevyscreen (?=\w)", lambda _: f"{levyscreen} ", re.sub(r"\bpython ", f"{sys.executable} ", line)
    )
    return subprocess.run(["bash", "-ceuo", "pipefail", script], stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")  # the sample has few of some variables
@pytest.mark.parametrize("page", RUN)
def test_commands_and_python_of_a_page_run_in_its_order(page, here, monkeypatch, capsys):
    names = {}
    for marks, content in blocks(page):
        if marks == ["sh"]:
            for line in lines(content):
                assert run(line, monkeypatch) == 0, (line, capsys.readouterr().err)
        elif marks == ["python"]:
            exec(compile(content, page, "exec"), names)


# The README's blocks are indented, its cohorts the full ones: here they are the sample.
README = [line for line, _ in shell("README.md") if line.startswith("levyscreen")]
FULL_DATA = ("train", "study", "calibrate", "evaluate")


@pytest.mark.filterwarnings("ignore::levyscreen.calibrate.CalibrationWarning")
def test_the_readmes_commands_and_its_python_run_on_the_sample(here, monkeypatch, capsys):
    ran = [line for line in README if line.split()[1] not in FULL_DATA]
    assert len(ran) >= 6
    for line in ran:
        line = line.replace("--grid 288", "--grid 12")
        assert run(line, monkeypatch) == 0, (line, capsys.readouterr().err)
    ((_, python),) = [block for block in blocks("README.md") if "import levyscreen" in block[1]]
    names = {}
    exec(compile(python, "README.md", "exec"), names)
    assert names["flagged"]["flagged"].all()


def test_a_block_is_marked_in_a_way_that_says_what_becomes_of_it():
    known = (["sh"], ["sh", "parsed"], ["python"], ["toml"], ["text"], [])
    assert RUN
    for page in RUN:
        for marks, _ in blocks(page):
            assert marks in known, (page, marks)


# Links --------------------------------------------------------------------------------------------------------------


def anchors(page):
    """As GitHub makes them of headings: lower case, no punctuation, hyphens for spaces."""
    tokens = MARKDOWN.parse(read(page.relative_to(ROOT).as_posix()))
    titles = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_within_the_repository_lead_somewhere(page):
    targets = [t.attrs.get("href") or t.attrs.get("src") for t in inline(page) if t.type in ("link_open", "image")]
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert found.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(found), f"{page}: {target}"


def test_every_page_of_docs_is_in_its_index():
    index = (DOCS / "README.md").read_text("utf-8")
    assert [p.name for p in DOCS.glob("*.md") if p.name != "README.md" and f"({p.name})" not in index] == []


# Pages and figures that are made --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cli", "api"])
def test_a_page_made_of_the_code_is_not_stale(name):
    made = __import__(f"docs.{name}", fromlist=["page"])
    assert made.PAGE.read_text("utf-8") == made.page(), f"python -m docs.{name} writes docs/{name}.md anew"


@pytest.mark.parametrize("study", sorted(path.name for path in (ROOT / "studies").iterdir() if path.name != "networks"))
def test_the_tables_of_a_study_are_those_of_its_results(study):
    text = (ROOT / "studies" / study / "table.md").read_text("utf-8")
    assert text == tables.markdown(Results(ROOT / "studies", study)), f"levyscreen study {study} --tables"


@pytest.mark.parametrize("path", rankings.PAGES, ids=lambda path: path.name)
def test_the_rankings_in_a_document_are_those_of_the_studies(path):
    assert path.read_text("utf-8") == rankings.page(path), "python -m docs.rankings rewrites them"


def test_the_reference_names_every_command_and_option():
    text = (DOCS / "cli.md").read_text("utf-8")
    for words in __import__("docs.cli", fromlist=["commands"]).commands():
        section = text.partition(f"## {' '.join(('levyscreen', *words))}\n")[2].partition("\n## ")[0]
        command, _ = command_of(words)
        assert all(option in section for option in options(command)), words


def test_figures_are_made_are_small_and_are_shown(tmp_path):
    from docs import figures

    figures.main(tmp_path)
    shown = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (DOCS / "figures").iterdir()}
    for path in (DOCS / "figures").iterdir():
        assert path.stat().st_size < 100_000
        assert f"(figures/{path.name})" in shown


def test_what_is_said_of_the_coverage_by_group_is_in_the_card():
    card = json.loads((ROOT / "models/physionet2012/card.json").read_text("utf-8"))
    (result,) = card["KeyMetrics"]["FairnessEquity"]["Results"]["MetricResult"]
    rows = {(row["by"], row["group"]): row for row in result["ValueJson"]}
    assert 0.9 < rows["evidence decile", "01"]["coverage_90"] < 0.9035
    assert 0.905 <= rows["evidence decile", "10"]["coverage_90"] < 0.906
    assert max(abs(row["coverage_90"] - 0.9) for row in rows.values()) <= 0.01


# Other files ----------------------------------------------------------------------------------------------------------


def test_the_citation_and_the_changelog_name_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == version
    assert f"[Unreleased]: {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "MIT License" in (ROOT / "LICENSE").read_text("utf-8")
