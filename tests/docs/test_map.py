"""The map of the code: what its command writes, of every file once, with imports that point down."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "map.md"
SOURCES = {"camdf": "src/camdf", "camdf_traces": "traces/src/camdf_traces", "camdf_lab": "lab/src/camdf_lab"}


def mapped(package: str) -> list[str]:
    """The modules of a package in the order of the page."""
    page = PAGE.read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## `{SOURCES[package]}/`$(.*?)(?=^## |\Z)", page, flags=re.M | re.S)
    found = list[str]()
    above = [package]
    for indent, name, job in re.findall(r"^( *)- `([^`]+)`: (.*)$", section, flags=re.M):
        assert job
        del above[len(indent) // 2 + 1 :]
        above.append(name.removesuffix("/").removesuffix(".py"))
        found.append(".".join(above))
    return found


def test_the_map_is_what_its_command_writes() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "map_page.py"))["page"]()
    assert PAGE.read_text(encoding="utf-8") == written, "python docs/map_page.py writes it"


@pytest.mark.parametrize("package", SOURCES)
def test_the_map_names_every_folder_and_file_once_and_no_other(package: str) -> None:
    source = ROOT / SOURCES[package]
    files = [path.relative_to(source).with_suffix("") for path in source.rglob("*.py")]
    modules = [path.parent if path.name == "__init__" else path for path in files]
    there = [".".join([package, *path.parts]) for path in modules]
    assert sorted(mapped(package)) == sorted(set(there) - {package})


@pytest.mark.parametrize("package", SOURCES)
def test_every_import_points_down_the_map(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None)
    place = {name: number for number, name in enumerate(mapped(package))}
    up = [
        f"{importer} imports {imported}"
        for importer in graph.modules - {package}
        for imported in graph.find_modules_directly_imported_by(importer) - {package}
        if place[importer] > place[imported] and not importer.startswith(f"{imported}.")
    ]
    assert up == []


def test_the_first_sight_of_the_package_is_eleven_folders_and_eight_files_of_the_public() -> None:
    top = [path for path in (ROOT / "src" / "camdf").iterdir() if path.name != "__pycache__"]
    folders = [path.name for path in top if path.is_dir()]
    files = [path.name for path in top if path.is_file() and not re.match(r"_[a-z]", path.name)]
    assert len(folders) <= 11, folders
    assert len(files) <= 8, files
    assert [path.name for path in top if re.match(r"_[a-z]", path.name)] == ["_version.py"]
