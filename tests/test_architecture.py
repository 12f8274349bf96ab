"""Imports point one way, the terminal's libraries stay at the terminal, and importing levyscreen loads no torch."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest

import levyscreen

ROOT = Path(levyscreen.__file__).parent
CORE = ("errors", "variables", "schema", "config", "types", "names", "memory", "pending", "temporaries")
READERS = (
    "archives",
    "assemble",
    "cache",
    "grammar",
    "drafted.guess",
    "lines",
    "mapped.mapping",
    "mapped.meds",
    "mapped.reading",
    "mapped.tables",
    "parquet",
    "physionet2012",
    "spill",
    "ushcn",
    "validate",
)


def dotted(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports_of(module):
    """Full names of what a module imports anywhere in it, for type checkers included."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found


def inside(part):
    """Modules of a part: the module itself and, where it is a package, what lies in it."""
    whole = f"levyscreen.{part}"
    return [name for name in MODULES if name == whole or name.startswith(f"{whole}.")]


def parts_used(part):
    """First-level parts of levyscreen that a part imports, each with who does."""
    return {
        [*found.split("."), ""][1]: module
        for module in inside(part)
        for found in imports_of(module)
        if found.split(".")[0] == "levyscreen"
    }


def others_used(part):
    """Top-level packages outside the standard library that a part imports."""
    tops = {found.split(".")[0] for module in inside(part) for found in imports_of(module)}
    return tops - sys.stdlib_module_names - {"levyscreen"}


def users_of(package):
    """Modules that import a package."""
    return {m for m in MODULES if any(f == package or f.startswith(f"{package}.") for f in imports_of(m))}


@pytest.mark.parametrize(
    ("part", "allowed"),
    [
        ("errors", set()),
        ("types", set()),
        ("names", set()),
        ("config", {"types", "errors"}),
        ("variables", {"types", "errors", "config"}),
        ("schema", {"types", "variables", "config", "errors"}),
        ("operator", {"operator"}),
        ("model", {"model", "operator", "config", "types", "errors"}),
        ("calibrate", {"calibrate", "errors", "config"}),
        ("records", {"records", *CORE}),
        ("learn", {"learn", "model", "records", "calibrate", *CORE}),
        (
            "estimators",
            {"estimators", "learn", "calibrate", "questions", "model", "types", "errors", "config", "operator"},
        ),
        (
            "timeline",
            {"timeline", "model", "operator", "records", "outputs", "parallel", "store", *CORE},
        ),
        (
            "report",
            {"report", "judging", "records", "calibrate", "questions", "screen", "timeline", "plot"}
            | {"outputs", "store", *CORE},
        ),
    ],
)
def test_a_part_knows_only_the_parts_below_it(part, allowed):
    used = parts_used(part)
    assert inside(part)
    assert set(used) <= allowed, {name: by for name, by in used.items() if name not in allowed}


def test_no_module_imports_itself_by_way_of_others():
    TopologicalSorter({m: imports_of(m) & set(MODULES) for m in MODULES}).prepare()  # raises CycleError


def test_the_operator_needs_torch_and_calibration_no_torch():
    assert others_used("operator") == {"torch", "numpy"}  # numpy for the seeds of draws
    assert others_used("calibrate") == {"numpy", "pandas", "scipy"}


def test_the_core_loads_neither_torch_nor_numpy_code_of_the_parts():
    for part in CORE:
        assert others_used(part) <= {"numpy", "pyarrow", "torch"}
    assert [part for part in CORE if "torch" in others_used(part)] == ["types"]  # for type checkers alone; see below


def test_learning_and_estimating_receive_batches_and_never_files():
    readers = {f"levyscreen.records.{name}" for name in READERS}
    assert all(name in MODULES for name in readers)
    for part in ("model", "learn", "estimators", "operator", "calibrate"):
        for module in inside(part):
            assert not imports_of(module) & readers, module


def test_nobody_imports_the_commands():
    assert users_of("levyscreen.cli") <= {*inside("cli"), "levyscreen.__main__"}  # python -m levyscreen


def test_typer_lives_in_the_commands_alone_and_rich_there_and_in_the_reports():
    assert users_of("typer")
    assert users_of("typer") <= set(inside("cli"))
    assert users_of("rich")
    assert users_of("rich") <= {*inside("cli"), *inside("report")}


def test_a_library_never_prints():
    for module in set(MODULES) - {*inside("cli"), "levyscreen.store.__main__"}:
        calls = [n.func for n in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c, ast.Name) and c.id == "print"], module


def test_the_public_names_are_these():
    functions = ["calibrate", "continuum", "evaluate", "load_model", "read_cohort", "screen", "train"]
    assert levyscreen.__all__ == ["LevyAttention", *functions]
    assert {f"levyscreen.{home}" for home in levyscreen._HOMES.values()} <= set(MODULES)
    assert sorted(levyscreen._HOMES) == levyscreen.__all__
    assert levyscreen.__version__ == version("levyscreen")
    with pytest.raises(AttributeError, match="module 'levyscreen' has no attribute 'predict'"):
        _ = levyscreen.predict


# A process of its own: here torch is long loaded.
LOADED = """
import sys
import levyscreen
import levyscreen.cli.app
import levyscreen.errors, levyscreen.variables, levyscreen.schema, levyscreen.config, levyscreen.types
import levyscreen.calibrate, levyscreen.records.cache
print(sorted({"torch", "pandas", "scipy", "matplotlib"} & {name.split(".")[0] for name in sys.modules}))
import numpy
assert callable(levyscreen.read_cohort)
print("torch" in sys.modules)
for name in 2 * levyscreen.__all__:
    assert type(getattr(levyscreen, name)).__name__ == ("type" if name == "LevyAttention" else "function"), name
"""


def test_importing_levyscreen_its_command_and_its_records_loads_no_torch_and_every_public_name_can_be_had():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    loaded, torch_too = done.stdout.splitlines()
    assert "torch" not in loaded
    assert torch_too == "False"
