"""The edges of the lab: its version, examples that are true, a page that says what is stored, wheel and sdist."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest

import camdf
import camdf_lab
from camdf_lab._version import __version__
from camdf_lab.paper.replication import markdown_page
from camdf_lab.paper.results import stored_results

LAB = Path(__file__).parents[1]
MODULES = sorted(module.name for module in pkgutil.walk_packages(camdf_lab.__path__, "camdf_lab."))


def test_the_lab_has_the_version_of_the_product_and_asks_for_it() -> None:
    needed = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert __version__ == camdf.__version__
    assert needed[0].endswith(f"=={camdf.__version__}")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_the_replication_page_is_what_the_stored_results_say() -> None:
    page = (LAB / "docs" / "replication.md").read_text(encoding="utf-8")
    assert page == markdown_page(stored_results(LAB / "results").results)


def test_the_license_is_the_repositorys() -> None:
    assert (LAB / "LICENSE").read_bytes() == (LAB.parent / "LICENSE").read_bytes()
