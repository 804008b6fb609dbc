"""Writes docs/map.md: every folder and file of the three distributions by the first line of its docstring.

python docs/map_page.py

Imports point down the page: a file stands above those that it imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "map.md"
SOURCES = {"camdf": "src/camdf", "camdf_traces": "traces/src/camdf_traces", "camdf_lab": "lab/src/camdf_lab"}
"""The package of each distribution, and where it stands."""

HEAD = """# The map

Every folder and file has one job, and its docstring says it first. An import points down this page and never up:
`lint-imports` holds the layers, `[tool.importlinter]` in `pyproject.toml`. `python docs/map_page.py` writes the page.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package, place in SOURCES.items():
        graph = grimp.build_graph(package, cache_dir=None)
        lines = "\n".join(_lines(package, ROOT / place, graph, depth=0))
        parts.append(f"## `{place}/`\n\n{job(ROOT / place)}\n\n{lines}\n")
    return "\n".join(parts)


def job(path: Path) -> str:
    """What a file or a folder is for: the first line of its docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _lines(package: str, folder: Path, graph: grimp.ImportGraph, depth: int) -> Iterator[str]:
    """A line for each module of a package, the topmost first, and below a folder what is in it."""
    for module in _top_down(package, graph):
        name = module.rpartition(".")[2]
        path = folder / name
        if path.is_dir():
            yield f"{'  ' * depth}- `{name}/`: {job(path)}"
            yield from _lines(module, path, graph, depth + 1)
        else:
            yield f"{'  ' * depth}- `{name}.py`: {job(path.with_suffix('.py'))}"


def _top_down(package: str, graph: grimp.ImportGraph) -> Iterator[str]:
    """The modules right inside a package: each before those that it imports, and else by name."""
    waiting = _importers(package, graph)
    order = TopologicalSorter(waiting)
    order.prepare()
    ready = list(order.get_ready())
    while ready:
        ready.sort()
        module = ready.pop(0)
        yield module
        order.done(module)
        ready += order.get_ready()


def _importers(package: str, graph: grimp.ImportGraph) -> Mapping[str, set[str]]:
    """By module right inside a package: those beside it that import it, or import what is in it."""
    beside = graph.find_children(package)
    within = {module: {module, *graph.find_descendants(module)} for module in beside}
    return {
        module: {
            other
            for other in beside - {module}
            if any(within[module] & graph.find_modules_directly_imported_by(part) for part in within[other])
        }
        for module in sorted(beside)
    }


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
