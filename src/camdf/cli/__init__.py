"""The command line: `camdf COMMAND`. Each module of this package adds the commands of one kind of work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from camdf._version import __version__
from camdf.cli import (
    examples,
    forgetting,
    lab,
    mcp,
    policy,
    privilege,
    production,
    scoring,
    service,
    skills,
    tools,
    usage,
)
from camdf.cli.brought import AUDIT, BROUGHT, COMPARE, MINE
from camdf.cli.parser import Parser, Section, add_version_and_completion, run_command, table_of_contents


class AddsCommands(Protocol):
    """A module of this package, or a command of another distribution."""

    def add_commands(self, commands: Any) -> None:
        """Add them to their section."""


SECTIONS: dict[str, tuple[AddsCommands, ...]] = {
    "In front of the MCP servers of a client": (mcp, skills),
    "On day one, without labels": (usage, tools, privilege),
    "With a language model, once": (examples,),
    "From traces to tasks": (MINE, forgetting, AUDIT, scoring),
    "Learning from tasks": (policy,),
    "Before and after the first cut": (production, COMPARE),
    "Serving": (service,),
    "Research": (lab,),
}
"""The table of contents of `camdf --help`, and what adds the commands of each part."""

ENDING = """\
every command has an example: camdf COMMAND --help

exit codes:
  0    it worked
  1    results disagree, or are incomplete
  2    it could not run, and the error says what to do
  3    not shown to be worth it (with --must-pay), or success fell (compare)
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as `ENDING` has them."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [lab.NAME]:  # its options are not ours to read
        return lab.forwarded(given[1:])
    named = "".join(given[:1])
    if named in BROUGHT and (lacks := BROUGHT[named].lacks()):
        print(f"camdf: {lacks}", file=sys.stderr)
        return 2
    return run_command(parser(named), given)


def parser(command: str = "") -> Parser:
    """Every command with its options. Where one of ours is named, those of other distributions have none.

    Args:
        command: The command that will be run, so that nothing is loaded for the others.
    """
    program = Parser(
        prog="camdf", usage="camdf COMMAND ...", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=ENDING
    )
    add_version_and_completion(program, __version__)
    commands = program.add_subparsers(prog="camdf", metavar="COMMAND", help=argparse.SUPPRESS)
    sections = [Section(title, commands) for title in SECTIONS]
    for section, kinds in zip(sections, SECTIONS.values(), strict=True):
        for kind in kinds:
            kind.add_commands(section)
    for name, brought in BROUGHT.items():
        if name == command or command not in commands.choices:
            brought.add_options(commands.choices[name])
    program.description = table_of_contents("Which of an agent's tools are worth giving to it for a task?", sections)
    return program
