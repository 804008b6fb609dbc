"""The command line: `camdf COMMAND`. Each module of this package adds the commands of one kind of work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from camdf._version import __version__
from camdf.cli import lab, policy, service, tools, traces
from camdf.errors import CamdfError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 where it worked, 1 where results disagree or are incomplete, 2 where it could not run, and 3 where a policy that
    `--must-pay` is not shown to.
    """
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except CamdfError as error:
        print(f"camdf: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        print(f"camdf: {named}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("camdf: interrupted; finished work is kept, so run the same command again to go on", file=sys.stderr)
        return 130
    return code


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    found = argparse.ArgumentParser(
        prog="camdf", description="Which of the ranked tools are worth giving to the agent?"
    )
    found.add_argument("--version", action="version", version=f"camdf {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    for kind in (policy, tools, traces, service, lab):
        kind.add_commands(commands)
    return found
