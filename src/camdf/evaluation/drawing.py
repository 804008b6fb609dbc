"""How pictures are drawn: in one style, with one palette, and the same to the byte every time.

Figures are made without pyplot, so nothing is shown, kept open or changed outside them. Colors are Okabe and Ito's,
which color-blind readers can tell apart, and every color comes with a marker or a word that says the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from camdf.errors import require
from camdf.runtime.files import whole_file, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GRAY = "#777777"

COLUMN = 3.5
"""The width of one column of a two-column paper, in inches."""

LOOK = {
    "axes.edgecolor": "#444444",
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "camdf",
    "xtick.labelsize": 7,
    "xtick.major.width": 0.7,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.7,
}

Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Picture]) -> Callable[Arguments, Picture]:
    """Draw with the settings of this file, and leave the reader's own as they were."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Picture:
        with matplotlib().rc_context(LOOK):
            return draw(*args, **kwargs)

    return drawn


def svg(picture: Picture) -> str:
    """The picture as SVG text, the same for the same picture: no date, no random names, no outside reference."""
    text = io.StringIO()
    with matplotlib().rc_context(LOOK):
        picture.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()


def save_picture(picture: Picture, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.svg and `stem`.png; the same picture gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    vector = stem.with_name(f"{stem.name}.svg")
    pixels = stem.with_name(f"{stem.name}.png")
    write_whole(vector, svg(picture).encode())
    with whole_file(pixels) as new, matplotlib().rc_context(LOOK):
        picture.savefig(new, format="png", dpi=200, metadata={"Software": None})
    return vector, pixels


def matplotlib() -> Any:
    """The library with the parts that pictures use, or an error that names the extra."""
    for part in ("figure", "lines", "patches"):
        require(f"matplotlib.{part}", "plot")
    return require("matplotlib", "plot")


def canvas(
    width: float, height: float, rows: int = 1, columns: int = 1, *, sharey: bool = False
) -> tuple[Picture, Any]:
    """A picture of this width and height in inches, and its axes."""
    picture = matplotlib().figure.Figure(figsize=(width, height), layout="constrained")
    return picture, picture.subplots(rows, columns, sharey=sharey)
