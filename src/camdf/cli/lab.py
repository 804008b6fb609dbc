"""`camdf lab`: what the distribution camdf-lab does, where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

NAME = "lab"
PACKAGE = "camdf_lab"


def add_commands(commands: Any) -> None:
    """lab, for the table of contents: `forwarded` runs it."""
    commands.add_parser(
        NAME, help="replay the paper's tables and the studies past it (camdf-lab)", example="camdf lab run main"
    )


def forwarded(arguments: Sequence[str]) -> int:
    """The exit code of `camdf-lab` with these arguments; 2, and what to install, where it is missing."""
    if find_spec(PACKAGE) is None:
        print("camdf: The lab is a package of its own. Install it with: pip install camdf-lab", file=sys.stderr)
        return 2
    code: int = import_module(f"{PACKAGE}.cli").main(arguments, "camdf lab")
    return code
