"""The command line: `camdf COMMAND`. Each module of this package adds the commands of one kind of work."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from camdf._version import __version__
from camdf.cli import lab, policy, production, service, tools, traces
from camdf.cli.parser import Completion, Parser, Section
from camdf.errors import CamdfError

SECTIONS = {
    "On day one, without labels": tools,
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
  3    not shown to pay (with --must-pay), or success fell (compare)
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as `ENDING` has them."""
    found, options = parser(), argparse.Namespace()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a letter of a user's text
    try:
        found.parse_args(arguments, options)
        if not hasattr(options, "run"):
            found.print_help(sys.stderr)
            return 2
        code: int = options.run(options)
        sys.stdout.flush()
    except CamdfError as error:
        print(f"camdf: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"camdf: {_told(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = "; finished work is kept, so run the same command again to go on" if "resumes" in options else ""
        print(f"camdf: interrupted{kept}", file=sys.stderr)
        return 130
    return code


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    found = Parser(
        prog="camdf",
        usage="camdf COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=ENDING,
    )
    found.add_argument("--version", action="version", version=f"camdf {__version__}")
    found.add_argument(
        "--completion",
        action=Completion,
        choices=("bash", "zsh", "tcsh"),
        help='print what completes commands in a shell: eval "$(camdf --completion bash)"',
    )
    commands = found.add_subparsers(prog="camdf", metavar="COMMAND", help=argparse.SUPPRESS)
    sections = [Section(title, commands) for title in SECTIONS]
    for section, kind in zip(sections, SECTIONS.values(), strict=True):
        kind.add_commands(section)
    width = max(len(name) for section in sections for name in section.listed)
    contents = (section.contents(width) for section in sections)
    found.description = "\n\n".join(["Which of an agent's tools are worth giving to it for a task?", *contents])
    return found


def _told(error: OSError) -> str:
    """What the system says of a file, with what to do."""
    name = error.filename
    if name is None:
        return str(error.strerror or error)
    if isinstance(error, FileNotFoundError):
        folder = os.path.dirname(name)
        if folder and not os.path.isdir(folder):
            return f"There is no folder {folder}. Check its name, or make it."
        return f"There is no file or folder {name}. Check its name, or run the command where it is."
    if isinstance(error, IsADirectoryError):
        return f"{name} is a folder. Name a file in it."
    if isinstance(error, PermissionError):
        return f"{name} may not be read or written by you. Change its permissions, or name another."
    return f"{name}: {error.strerror or error}. Check it, or name another."
