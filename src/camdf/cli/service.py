"""The command that serves decisions over HTTP: serve."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """serve."""
    found = commands.add_parser(
        "serve", help="serve decisions over HTTP, for harnesses in any language", example="camdf serve camdf.toml"
    )
    found.add_argument("configuration", type=Path, help="camdf.toml, or a saved policy (.json) with the defaults")
    found.add_argument(
        "--state",
        type=Path,
        default=Path("camdf-state"),
        help="a folder for outcomes and for the last version that worked (default: %(default)s)",
    )
    found.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    from camdf.service.server import serve

    return serve(options.configuration, options.state)
