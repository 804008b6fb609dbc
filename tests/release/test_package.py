"""The edges of the package: public names, a light import, documents that stay true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest

import camdf
from pages import run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name / "README.md" for name in (".", "lab", "traces")]
PAGES += [page for folder in ("docs", "lab/docs", "traces/docs") for page in sorted((ROOT / folder).glob("*.md"))]
EVERY = sorted(module.name for module in pkgutil.walk_packages(camdf.__path__, "camdf."))
OF_MCP = ("beside", "guard", "intake", "link", "permission", "process", "server", "sign_in")
GATEWAY = [f"camdf.integrations.gateway.{name}" for name in OF_MCP]
ADAPTERS = [f"camdf.integrations.{path.stem}" for path in (ROOT / "src/camdf/integrations").glob("[!_]*.py")]
ADAPTERS = sorted({*ADAPTERS, *GATEWAY} - {"camdf.integrations.chat"})
MODULES = [name for name in EVERY if name not in ADAPTERS]
"""What imports in this environment; the adapters are tested beside their frameworks."""


def test_the_public_names_are_sorted_complete_and_real() -> None:
    assert camdf.__all__ == sorted(camdf.__all__)
    public = {
        name for name, value in vars(camdf).items() if not (name.startswith("_") or isinstance(value, ModuleType))
    }
    assert (public - {"Any", "TYPE_CHECKING"}) | set(camdf._LATER) | {"__version__"} == set(camdf.__all__)
    assert all(hasattr(camdf, name) for name in camdf._LATER)
    with pytest.raises(AttributeError, match="no attribute 'Price'"):
        camdf.Price  # noqa: B018


def test_importing_camdf_loads_numpy_and_the_standard_library_only() -> None:
    code = "import sys, numpy; before = set(sys.modules); import camdf; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"camdf", "numpy"}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra_that_brings_it(name: str) -> None:
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {{*sys.stdlib_module_names, "camdf", "numpy"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import camdf
try:
    import {name}
except camdf.MissingExtraError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (extra,) = re.findall(r"pip install 'camdf\[(.+)\]'", run.stdout)
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    assert importlib.import_module(name).__doc__


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")], ids=attrgetter("name")
)
def test_examples_on_a_page_run_and_print_what_they_say(page: Path) -> None:
    assert run_page(page)


def test_every_picture_that_a_document_shows_is_there() -> None:
    for document in PAGES:
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / picture).is_file(), (document.name, picture)


def test_nothing_in_the_repository_names_a_machine() -> None:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    forbidden = re.compile("/" + r"(work|root|home)/\w|pypi-" + "more")
    for name in listing.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".json", ".csv", ".sh", ""} and path.is_file():
            assert not forbidden.search(path.read_text(encoding="utf-8", errors="replace")), name
