"""How dense the code is to read: `python scripts/density.py [FOLDER...]`, by default the three distributions.

Counted are, for every 1,000 lines of code: assignments of several values in one statement (`a, b = x, y`), ternaries,
comprehensions inside of a comprehension, and lines of more than 100 characters. Beside ours stand the installed ones
of httpx, starlette, attrs and river, where they are installed. `--check` fails where ours are above the bounds.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from code_lines import PACKAGES, code_lines

ANCHORS = ("httpx", "starlette", "attr", "river")
"""Packages of others to stand beside; attrs is imported as `attr`."""

BOUNDS = {"paired assignments": 3.0, "ternaries": 18.0, "nested comprehensions": 1.5}
"""The most of each for 1,000 lines of our code."""

LONG = 100
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def counted(source: str) -> Counter[str]:
    """The lines of code of one file, and what is counted in them."""
    tree = ast.parse(source)
    counts = Counter({"lines": code_lines(source)})
    for node in ast.walk(tree):
        counts["paired assignments"] += is_paired(node)
        counts["ternaries"] += isinstance(node, ast.IfExp)
        counts["nested comprehensions"] += is_nested(node)
    counts["long lines"] = sum(len(line) > LONG for line in source.splitlines())
    return counts


def is_paired(node: ast.AST) -> bool:
    """Whether a statement gives several names a value each, as `a, b = x, y` does."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def is_nested(node: ast.AST) -> bool:
    """Whether a comprehension has another one inside of it."""
    return isinstance(node, COMPREHENSIONS) and any(isinstance(inner, COMPREHENSIONS) for inner in inside(node))


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one."""
    for child in ast.iter_child_nodes(node):
        yield from ast.walk(child)


def of_files(files: Iterable[Path]) -> Counter[str]:
    """The counts of some files together."""
    total = Counter[str]()
    for path in files:
        total.update(counted(path.read_text(encoding="utf-8")))
    return total


def per_thousand(counts: Counter[str]) -> dict[str, float]:
    """What is counted, for 1,000 lines of code."""
    names = (*BOUNDS, "long lines")
    return {name: 1000 * counts[name] / max(counts["lines"], 1) for name in names}


def installed(name: str) -> Path | None:
    """The folder of a package, if it is installed."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="fail where ours are above the bounds")
    options = parser.parse_args()
    ours = options.folders or list(PACKAGES)
    anchors = [folder for folder in map(installed, ANCHORS) if folder is not None]
    names = (*BOUNDS, "long lines")
    print(f"{'for 1,000 lines of code':<26}{'lines':>8}" + "".join(f"{name:>23}" for name in names))
    too_dense = False
    for folder in (*ours, *anchors):
        counts = of_files(sorted(folder.rglob("*.py")))
        density = per_thousand(counts)
        print(f"{folder.name:<26}{counts['lines']:>8,}" + "".join(f"{density[name]:>23.1f}" for name in names))
        if folder in ours:
            too_dense = too_dense or any(density[name] > most for name, most in BOUNDS.items())
    print(f"{'at most, for ours':<26}{'':>8}" + "".join(f"{most:>23.1f}" for most in BOUNDS.values()))
    return int(options.check and too_dense)


if __name__ == "__main__":
    sys.exit(main())
