"""The plan of the package: no circle of imports, a short path of a decision, and one name for every policy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from inspect import getmembers, isabstract, isclass
from pathlib import Path
from pkgutil import iter_modules

import pytest

import camdf
from camdf import Policy, UsageError, policies
from camdf.policies.registry import DEFAULT, LIBRARY, POLICIES, policy_name
from saying import says

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "camdf"
LAB = ROOT / "lab" / "src" / "camdf_lab"
TRACES = ROOT / "traces" / "src" / "camdf_traces"

SAME_PART = {
    "add_commands": "each module of the command line has it",
    "convention_columns": "each reader of a convention has it",
    "jobs": "each study has it",
    "load": "camdf.load a policy, camdf_lab.domains.load a domain",
    "main": "the product's command, and the lab's",
    "measure": "each study has it",
    "mine": "on one machine, and on Spark",
    "mine_day": "on one machine, and on Spark",
    "parser": "the product's command, and the lab's",
    "parts": "each reader of a format has it",
    "pictures": "each study has it",
    "recheck": "each study has it",
    "rows_of": "each study has it",
    "section": "each study has it",
    "span": "each reader of a format has it",
    "ToolGate": "each adapter has it",
}
"""Names that stand in several files, because what they name plays one part in each."""

ROOMS = (PACKAGE, TRACES, LAB)
"""Where every variable says what it holds."""


# Names.


def test_two_classes_or_functions_never_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for module, path in (module for room in ROOMS for module in module_files(room).items()):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                "_"
            ):
                places.setdefault(node.name, []).append(module)
    assert {name for name, found in places.items() if len(found) > 1} == SAME_PART.keys(), places


def test_every_variable_says_what_it_holds() -> None:
    files = [path for room in ROOMS for path in ([room] if room.is_file() else sorted(room.rglob("*.py")))]
    assert len(files) > 100
    assert {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in ("each", "found")
    } == set()


# Imports.


def test_no_test_imports_another() -> None:
    files = [path for folder in ("tests", "traces/tests", "lab/tests") for path in (ROOT / folder).rglob("*.py")]
    assert {
        (path.name, name)
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None) or "", *(alias.name for alias in node.names))
        if name.startswith("test_")
    } == set()


def module_files(package: Path = PACKAGE) -> dict[str, Path]:
    """Every module of the package by its dotted name; a folder is its `__init__.py`."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a file names in any import: at its top, in a function, or for types alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                if inner in known:
                    yield inner
                elif origin in known:
                    yield origin


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    known = module_files(package)
    return {name: set(imported(name, path, known)) - {name} for name, path in known.items()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, the first again at the end; none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_file_imports_itself_through_others() -> None:
    for room in ROOMS:
        assert circle(imports(room)) == []


def test_every_file_is_seen_and_so_are_imports_in_functions_and_for_types() -> None:
    graph = imports()
    assert len(graph) > 100
    assert "camdf.gate" in graph["camdf"]  # under TYPE_CHECKING
    assert "camdf.evaluation.fit" in graph["camdf.cli.policy"]  # in a function
    assert "camdf_lab.domains" in imports(LAB)["camdf_lab.beyond.frontier"]  # a folder, by `from camdf_lab import`


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    package = tmp_path / "made_up"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("def late():\n    from made_up import two\n")
    (package / "two.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import three\n")
    (package / "three.py").write_text("import made_up.one\n")
    found = circle(imports(package))
    assert found[0] == found[-1]
    assert set(found) == {"made_up.one", "made_up.two", "made_up.three"}
    (package / "three.py").write_text("")
    assert circle(imports(package)) == []


# The path of a decision, and what CONTRIBUTING names.


def test_one_decision_can_be_followed_through_few_functions_and_files() -> None:
    told = subprocess.run([sys.executable, ROOT / "scripts" / "decision_moves.py"], capture_output=True, text=True)
    counts = re.findall(
        r"(\d+) functions in (\d+) files, \d+ calls, (\d+) moves between files, threads: (\d)", told.stdout
    )
    with_limit, without_limit, _ = ([int(count) for count in row] for row in counts)
    assert with_limit[0] <= 80, told.stdout
    assert with_limit[2] <= 54, told.stdout
    assert without_limit[1] <= 14, told.stdout
    assert without_limit[3] == 1, "the caller's own thread"


def test_every_file_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    linked = [ROOT / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    quoted = [
        ROOT / name
        for name in re.findall(r"`((?:lab|traces|src|tests|docs|benchmarks|examples|results|\.ci)/[^`*\s]*)`", text)
    ]
    assert linked + quoted
    assert [path.as_posix() for path in linked + quoted if not path.exists()] == []


# One name for every policy.


@pytest.mark.parametrize("policy", LIBRARY, ids=lambda policy: policy.kind)
def test_a_policys_name_is_its_class_in_lower_case_with_hyphens(policy: type[Policy]) -> None:
    assert policy.kind.replace("-", "") == policy.__name__.lower()
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", policy.kind)
    assert POLICIES[policy.kind] is policy


@pytest.mark.parametrize("policy", LIBRARY, ids=lambda policy: policy.kind)
def test_the_page_of_policies_says_where_every_policy_is_imported_from(policy: type[Policy]) -> None:
    name = policy.__name__
    place = name if name in camdf.__all__ else f"{policy.__module__}.{name}"
    assert f"`{place}`" in (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")


def test_every_policy_of_the_package_is_in_the_registry_once() -> None:
    files = [import_module(f"camdf.policies.{module.name}") for module in iter_modules(policies.__path__)]
    written = {
        each
        for file in files
        for _, each in getmembers(file, isclass)
        if issubclass(each, Policy) and each.__module__ == file.__name__ and vars(each).get("kind")
    }
    assert written == set(LIBRARY)
    assert len({policy.kind for policy in LIBRARY}) == len(LIBRARY)
    assert not any(isabstract(policy) for policy in LIBRARY)


@pytest.mark.parametrize("name", POLICIES)
def test_a_variants_name_begins_with_the_policy_that_it_is(name: str) -> None:
    made = POLICIES[name]()
    kind, _, what = name.partition(", ")
    assert made.kind == kind
    assert bool(what) == (repr(made) != f"{type(made).__name__}()")
    assert POLICIES[policy_name(name)] is POLICIES[name]


def test_no_two_variants_are_the_same_policy() -> None:
    made = [repr(make()) for make in POLICIES.values()]
    assert len(set(made)) == len(made)


def test_an_unknown_name_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(UsageError) as refused:
        policy_name("magic")
    assert all(f"{name};" in str(refused.value) for name in POLICIES)
    assert says(str(refused.value), "'magic'")
    assert DEFAULT in POLICIES
