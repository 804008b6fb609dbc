"""How much code there is to read: `python scripts/code_lines.py [FOLDER...]`, by default the three distributions.

Counted are the lines of Python files without docstrings, other bare strings, comments, blank lines and imports.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    ROOT / "src" / "camdf",
    ROOT / "traces" / "src" / "camdf_traces",
    ROOT / "lab" / "src" / "camdf_lab",
)
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """The lines of one file that hold code."""
    written: set[int] = set()
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            written.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            written.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(bool(lines[number - 1].strip()) for number in written)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def by_part(package: Path) -> Counter[str]:
    """The lines of code of every file and folder right inside a package."""
    lines = Counter[str]()
    for path in sorted(package.rglob("*.py")):
        lines[path.relative_to(package).parts[0]] += code_lines(path.read_text(encoding="utf-8"))
    return lines


def main(packages: list[Path]) -> None:
    """A table for each package."""
    for package in packages:
        parts = by_part(package)
        print(f"{parts.total():6,}  {package.name}")
        for name, count in parts.most_common():
            print(f"{count:6,}    {name}")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]] or list(PACKAGES))
