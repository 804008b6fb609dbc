"""The edges of camdf-traces: its version, examples that are true, what the product asks of it, a light start."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import camdf
import camdf_traces
from camdf.cli.brought import BROUGHT
from camdf.cli.brought import GROUP as COMMANDS
from camdf.examples.mined import GROUP as MINED
from camdf.examples.mined import MinedTasks, mined_tasks
from camdf_traces import for_product
from camdf_traces._version import __version__

TRACES = Path(__file__).parents[1]
PROJECT = tomllib.loads((TRACES / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PRODUCT = tomllib.loads((TRACES.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = sorted(module.name for module in pkgutil.walk_packages(camdf_traces.__path__, "camdf_traces."))


def test_it_has_the_version_of_the_product_and_each_asks_for_that_of_the_other() -> None:
    assert __version__ == camdf.__version__
    assert f"camdf=={camdf.__version__}" in PROJECT["dependencies"]
    asked = [need for needs in PRODUCT["optional-dependencies"].values() for need in needs if "camdf-traces" in need]
    assert len(asked) == 5
    assert all(need.endswith(f"=={camdf.__version__}") for need in asked)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_the_license_is_the_repositorys() -> None:
    assert (TRACES / "LICENSE").read_bytes() == (TRACES.parent / "LICENSE").read_bytes()


def test_every_command_that_the_product_lists_is_here_and_no_other() -> None:
    assert {entry.name for entry in entry_points(group=COMMANDS)} == {*BROUGHT} == {*PROJECT["entry-points"][COMMANDS]}


def test_the_product_finds_what_it_asks_for_and_nothing_else_is_offered() -> None:
    assert [*PROJECT["entry-points"][MINED].values()] == [for_product.__name__]
    assert mined_tasks() is for_product
    assert {*for_product.__all__} == {name for name in vars(MinedTasks) if not name.startswith("_")}


def test_its_commands_are_declared_without_anything_that_reads_tables() -> None:
    heavy = {"polars", "pyarrow", "deltalake", "fsspec", "msgspec", "pyspark"}
    program = f"import sys, camdf_traces.cli; assert not {heavy!r} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)
