"""Draws what commands print, as a terminal shows it.

docs/pictures/try.svg has `camdf try` for one request over 40 everyday tools, and usage.svg what docs/usage.md says that
`camdf usage` prints.

python docs/terminal_picture.py
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from xml.sax.saxutils import escape

from camdf.cli import main as camdf

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "try.svg"
TOOLS = ROOT / "tests" / "data" / "everyday" / "catalogue-40.json"
REQUEST = "Remind me on Thursday evening to water the plants"
TYPED = f"$ camdf try tools.json '{REQUEST}'"
USAGE_PICTURE = ROOT / "docs" / "pictures" / "usage.svg"
USAGE_PAGE = ROOT / "docs" / "usage.md"
USAGE_TYPED = "$ camdf usage"

ADVANCE = 8.0
"""How wide a character is."""

LINE = 19
SIZE = 13
EDGE = 20
BACKGROUND = "#1b1f24"
PLAIN = "#e6edf3"
FAINT = "#8b949e"
KEPT = "#56d4a5"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def printed() -> str:
    """What the command prints."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as a terminal is, so that bars are bars
    with redirect_stdout(said):
        assert camdf(["try", str(TOOLS), REQUEST]) == 0
    said.seek(0)
    return said.read()


def usage_printed() -> str:
    """What the page says that `camdf usage` prints, which the tests of pages hold, with bars as a terminal has them."""
    page = USAGE_PAGE.read_text(encoding="utf-8")
    return page.partition("```text\n")[2].partition("```")[0].replace("#", "█")


def picture(text: str, typed: str = TYPED) -> str:
    """The text on a grid of characters: bars as boxes, since no two fonts have them alike."""
    lines = [typed, "", *text.rstrip().splitlines()]
    width = 2 * EDGE + ADVANCE * max(map(len, lines))
    height = 2 * EDGE + LINE * len(lines)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{FONT}" font-size="{SIZE}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for row, line in enumerate(lines):
        color = color_of(line)
        for words in re.finditer(r"\S+(?: \S+)*", line):
            x = EDGE + ADVANCE * words.start()
            y = EDGE + LINE * row
            length = ADVANCE * len(words[0])
            if set(words[0]) == {"█"}:
                drawn.append(f'<rect x="{x:g}" y="{y + 4:g}" width="{length:g}" height="11" fill="{color}"/>')
            else:
                drawn.append(
                    f'<text x="{x:g}" y="{y + 14:g}" textLength="{length:g}" fill="{color}">{escape(words[0])}</text>'
                )
    return "\n".join([*drawn, "</svg>", ""])


def color_of(line: str) -> str:
    """Green for what is kept, gray for what is cut."""
    if line.endswith("kept") or line.lstrip().startswith("keep loaded"):
        return KEPT
    if line.endswith(("cut", "together")) or line.lstrip().startswith("take away"):
        return FAINT
    return PLAIN


if __name__ == "__main__":
    PICTURE.write_text(picture(printed()), encoding="utf-8")
    USAGE_PICTURE.write_text(picture(usage_printed(), USAGE_TYPED), encoding="utf-8")
