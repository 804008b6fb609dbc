"""A page of documentation: one Markdown file, with its pictures in a folder beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from camdf.evaluation.drawing import save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PICTURES = "pictures"
"""The folder of a page's pictures, beside the page."""


def write_page(path: Path, text: str, pictures: Mapping[str, Picture]) -> None:
    """Write the text to `path`, and each picture beside it as pictures/STEM.svg and pictures/STEM.png."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for stem, picture in pictures.items():
        save_picture(picture, path.parent / PICTURES / stem)
    path.write_text(text, encoding="utf-8")


def yes_or_no(reached: bool) -> str:
    """How a table says whether a target is reached: what was missed stands out."""
    return "yes" if reached else "**no**"


def picture_line(stem: str, title: str) -> str:
    """The line of Markdown that shows a page's picture.

    >>> picture_line("main", "Payoff by dispersion")
    '![Payoff by dispersion](pictures/main.png)'
    """
    return f"![{title}]({PICTURES}/{stem}.png)"
