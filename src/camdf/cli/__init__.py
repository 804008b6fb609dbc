"""The command line: `camdf COMMAND`. Each module of this package adds the commands of one kind of work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from camdf._version import __version__
from camdf.cli import examples, lab, mcp, policy, production, service, tools, traces
from camdf.cli.parser import Parser, Section, add_version_and_completion, run_command, table_of_contents

SECTIONS = {
    "In front of the MCP servers of a client": mcp,
    "On day one, without labels": tools,
    "With a language model, once": examples,
    "From traces to tasks": traces,
    "Learning from tasks": policy,
    "Before and after the first cut": production,
    "Serving": service,
    "Research": lab,
}
"""The table of contents of `camdf --help`, and where the commands of each part are."""

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
    return run_command(parser(), given)


def parser() -> Parser:
    """Every command with its options."""
    program = Parser(
        prog="camdf", usage="camdf COMMAND ...", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=ENDING
    )
    add_version_and_completion(program, __version__)
    commands = program.add_subparsers(prog="camdf", metavar="COMMAND", help=argparse.SUPPRESS)
    sections = [Section(title, commands) for title in SECTIONS]
    for section, kind in zip(sections, SECTIONS.values(), strict=True):
        kind.add_commands(section)
    program.description = table_of_contents("Which of an agent's tools are worth giving to it for a task?", sections)
    return program
