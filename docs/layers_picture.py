"""Draws docs/pictures/layers.svg: the layers of the package, from the import contracts in pyproject.toml.

python docs/layers_picture.py
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "layers.svg"
SHOWN = 500
"""The width in pixels at which a page shows the picture; all other sizes are in the picture's own units."""

WIDTH = 420
ARROW = 14
GAP = 3
PAD = 6
LINE = 13
NAME_LETTER = 6.7
"""About how wide a letter of a name is."""

JOB_LETTER = 5.3
"""About how wide a letter is of what a module is for."""

STYLE = """
  rect { rx: 4px }
  .layer > rect { fill: #bfe0da }
  .box > rect { fill: #ffffff; stroke: #4d8a81 }
  .box .layer > rect { fill: #e3f1ef }
  text { font: 10.5px sans-serif; fill: #24403c }
  .name { font: bold 11px monospace; fill: #0b2b27 }
  .box .box .name { font-weight: normal }
  .arrow { stroke: #4d9a8f; stroke-width: 2; fill: none }
"""

Layers = Sequence[str]
"""As import-linter writes them, the topmost first: 'a | b' never import each other, 'a : b' may."""


def contracts() -> dict[str, Layers]:
    """The layers of every package that has a contract of layers, by its name."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    found = (each for each in tools["importlinter"]["contracts"] if each["type"] == "layers")
    return {container: each["layers"] for each in found for container in each.get("containers", ())}


def jobs() -> dict[str, tuple[str, str]]:
    """What docs/map.md says of the top level: by module, how it is written there and what it is for."""
    product = (ROOT / "docs" / "map.md").read_text(encoding="utf-8").split("\n## ")[1]
    lines = re.findall(r"^- `(\S+)`: (\S.*)$", product, flags=re.M)
    return {name.removesuffix("/").removesuffix(".py"): (name, job.replace("`", "")) for name, job in lines}


def picture() -> str:
    """The whole drawing."""
    height, drawn = _layers("camdf", ARROW, 0, WIDTH - ARROW)
    middle = ARROW / 2 - 2
    end = height - 4
    arrow = f"M{middle} 4 V{end} M{middle - 4} {end - 6} L{middle} {end} L{middle + 4} {end - 6}"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{SHOWN}" height="{round(SHOWN * height / WIDTH)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    title = "<title>The layers of camdf: imports point down</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", f'<path class="arrow" d="{arrow}"/>', *drawn, "</svg>\n"])


def _layers(package: str, x: float, y: float, width: float) -> tuple[float, list[str]]:
    """The layers of a package below one another, and how far down they reach."""
    drawn = []
    for layer in contracts()[package]:
        boxes = [box.strip().split(" : ") for box in layer.split(" | ")]
        height, inside = _flow(package, boxes, x + GAP, y + GAP, width - 2 * GAP)
        drawn += ['<g class="layer">', _rect(x, y, width, height - y + GAP), *inside, "</g>"]
        y = height + 2 * GAP
    return y - GAP, drawn


def _flow(package: str, boxes: list[list[str]], x: float, y: float, width: float) -> tuple[float, list[str]]:
    """The boxes of one layer side by side, in as many rows as it takes."""
    drawn: list[str] = []
    left = x
    bottom = y
    across = (width + GAP) / min(len(boxes), 3) - GAP
    for names in boxes:
        wide = across
        if package != "camdf":
            wide = NAME_LETTER * len(", ".join(names)) + 2 * PAD
        if left > x and left + wide > x + width + 0.1:
            left = x
            y = bottom + GAP
        height, inside = _box(package, names, left, y, min(wide, width))
        drawn += inside
        left += wide + GAP
        bottom = max(bottom, height)
    return bottom, drawn


def _box(package: str, names: list[str], x: float, y: float, width: float) -> tuple[float, list[str]]:
    """Modules in one box; at the top level what each is for, and the layers inside of it where they have a contract."""
    shown = ", ".join(names)
    job = ""
    pad = PAD - 3
    if package == "camdf":
        shown, job = jobs()[names[0]]
        pad = PAD
    down = y + pad + 9
    beside = NAME_LETTER * len(shown) + PAD
    drawn = [_text(shown, x + PAD, down, "name")]
    if beside + JOB_LETTER * len(job) <= width - 2 * PAD:
        drawn.append(_text(job, x + PAD + beside, down))
    else:
        for line in textwrap.wrap(job, int((width - 2 * PAD) / JOB_LETTER)):
            down += LINE
            drawn.append(_text(line, x + PAD, down))
    inner = f"{package}.{names[0]}"
    if inner in contracts():
        down, inside = _layers(inner, x + PAD, down + PAD, width - 2 * PAD)
        drawn += inside
    bottom = down + pad + 1
    return bottom, ['<g class="box">', _rect(x, y, width, bottom - y), *drawn, "</g>"]


def _rect(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(text: str, x: float, y: float, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
