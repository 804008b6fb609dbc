"""Commands of the service: serve decisions over HTTP, and learn from what became of them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, print_answer

STATE = Path("camdf-state")


def add_commands(commands: Any) -> None:
    """serve, learn."""
    serve = commands.add(_serve)
    option = serve.add_argument
    option("configuration", type=Path, help="camdf.toml, or a saved policy (.json) with the defaults")
    option(
        "--state",
        type=Path,
        default=STATE,
        help="a folder for outcomes and for the last version that worked (default: %(default)s)",
    )

    learn = commands.add(_learn)
    option = learn.add_argument
    option("configuration", type=Path, help="camdf.toml, with a table [learn]")
    option(
        "--state",
        type=Path,
        action="append",
        help=f"the state folder of a copy of the service; may be given several times (default: {STATE})",
    )
    option(
        "--roll-back",
        nargs="?",
        const="",
        metavar="POLICY",
        help="put back the version that served before; name the policy's file where there are several",
    )
    add_json(learn)


def _serve(options: argparse.Namespace) -> int:
    """Serve decisions over HTTP, for harnesses in any language.

    camdf serve camdf.toml
    """
    from camdf.service.server import serve

    return serve(options.configuration, options.state)


def _learn(options: argparse.Namespace) -> int:
    """Fit the service's policies again, and replace those it improves.

    camdf learn camdf.toml
    """
    from camdf.service.learning import learn, roll_back

    if options.roll_back is not None:
        print(roll_back(options.configuration, options.roll_back))
        return 0
    learned = learn(options.configuration, options.state or [STATE])
    print_answer(options, learned, asdict(learned))
    return 0
