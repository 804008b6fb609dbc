"""How a command is declared and run: contents, example, exit codes, errors in one line."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from inspect import getdoc
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TextIO

from camdf.errors import CamdfError, UsageError, require

CODES = {0: "it worked", 2: "it could not run, and the error says what to do"}
"""Exit codes that every command has."""


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and where to look."""

    def error(self, message: str) -> NoReturn:
        """One line on standard error, and exit code 2."""
        self.exit(2, f"{_program(self)}: {self._in_our_words(message)} See: {self.prog} --help\n")

    def _in_our_words(self, message: str) -> str:
        """What argparse says, in words that tell what to do."""
        unknown = re.match(r"argument (?:COMMAND|ACTION): invalid choice: '(.*?)'", message)
        if unknown is not None:
            alike = get_close_matches(unknown[1], self._commands(), n=1, cutoff=0.65)
            meant = f" Did you mean {alike[0]!r}?" if alike else ""
            return f"there is no command {unknown[1]!r}.{meant}"
        if re.match("unrecognized arguments: [^-]", message):
            return f"{message}. A text of several words goes in quotes."
        return f"{message}."

    def _commands(self) -> Iterable[str]:
        """Those that can follow."""
        return (name for action in self._actions if action.nargs == argparse.PARSER for name in action.choices or ())


def run_command(parser: Parser, arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments name, and return its exit code; every error of ours is one line."""
    name = _program(parser)
    options = argparse.Namespace()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a letter of a user's text
    try:
        parser.parse_args(arguments, options)
        if not hasattr(options, "run"):
            parser.print_help(sys.stderr)
            return 2
        code: int = options.run(options)
        sys.stdout.flush()
    except CamdfError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"{name}: {_system_error(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        why = "interrupted"
        if "resumes" in options:
            why += "; finished work is kept, so run the same command again to go on"
        print(f"{name}: {why}", file=sys.stderr)
        return 130
    return code


def _program(parser: argparse.ArgumentParser) -> str:
    return parser.prog.split()[0]


def _system_error(error: OSError) -> str:
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


class Section:
    """Commands of one kind of work, listed under one title in the order in which they are added."""

    def __init__(self, title: str, commands: Any) -> None:
        self.title = title
        self.commands = commands
        self.listed: dict[str, str] = {}
        """What each command does, by its name."""

    def add(self, run: Callable[[argparse.Namespace], int], codes: dict[int, str] | None = None) -> Any:
        """A command as a function: its name, and in its docstring what it does and an example that can be typed."""
        name = run.__name__.strip("_").replace("_", "-")
        does, _, example = (getdoc(run) or name).partition("\n\n")
        parser = self.add_parser(name, help=f"{does[:1].lower()}{does[1:].rstrip('.')}", example=example, codes=codes)
        parser.set_defaults(run=run)
        return parser

    def add_parser(
        self, name: str, *, help: str, example: str = "", codes: dict[int, str] | None = None
    ) -> argparse.ArgumentParser:
        """A command: `help` says what it does, and `example` is one that can be typed."""
        self.listed[name] = help
        codes = CODES | (codes or {})
        shown = f"example:\n  {example}\n\n" if example else ""
        numbered = "\n".join(f"  {code}  {codes[code]}" for code in sorted(codes))
        parser: argparse.ArgumentParser = self.commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}.",
            epilog=f"{shown}exit codes:\n{numbered}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        return parser

    def contents(self, width: int) -> str:
        """Its part of the table of contents."""
        return "\n".join([f"{self.title}:", *(f"  {name:<{width}}  {does}" for name, does in self.listed.items())])


def table_of_contents(opening: str, sections: Sequence[Section]) -> str:
    """What a program is for, and its commands by section."""
    width = max(len(name) for section in sections for name in section.listed)
    return "\n\n".join([opening, *(section.contents(width) for section in sections)])


def add_version_and_completion(parser: Parser, version: str) -> None:
    """What every program of ours has besides its commands."""
    parser.add_argument("--version", action="version", version=f"{parser.prog} {version}")
    parser.add_argument(
        "--completion",
        action=Completion,
        choices=("bash", "zsh", "tcsh"),
        help=f'print what completes commands in a shell: eval "$({parser.prog} --completion bash)"',
    )


class Completion(argparse.Action):
    """Prints what makes a shell complete commands and options: a script, so that pressing Tab starts no Python."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: object = None) -> None:
        """The script for the shell that `values` names, on standard output; then the command ends."""
        shtab = require("shtab", "completion")
        _complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, values))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Where a path is asked for, files are offered; commands are offered although the help lists them by section."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.help = None
            for below in action.choices.values():
                _complete_files(below, files)
        elif action.type is Path:
            action.complete = files  # type: ignore[attr-defined]


def add_json(parser: argparse.ArgumentParser) -> None:
    """For commands that print results."""
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output, and no text")


def print_json(document: Any) -> None:
    """The one document of a command that was asked for it."""
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


def notes_stream(options: argparse.Namespace) -> TextIO:
    """Where that goes which comes before the answer: it is kept out of a JSON document."""
    return sys.stderr if options.json else sys.stdout


def print_answer(options: argparse.Namespace, answer: object, document: Any) -> None:
    """What a command answers in words, or with --json as a document."""
    if options.json:
        print_json(document)
    else:
        print(answer)


def read_day(text: str) -> date:
    """The day that an option names."""
    return read_time(text).date()


def read_time(text: str) -> datetime:
    """The time that an option names, or the beginning of a day."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day, as 2026-01-31. Got {text!r} instead") from None


def check_output(path: Path, endings: tuple[str, ...]) -> None:
    """Refuse a place that cannot be written to before the work is done, and not after minutes of it."""
    if path.is_dir():
        raise UsageError(f"The output {path} is a folder. Name a file in it.")
    if path.suffix not in endings:
        raise UsageError(f"The output must end in {_joined_by_or(endings)}. Got {path.name!r} instead.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent} to write {path.name} into. Make it, or name another.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"The folder {path.parent} may not be written to. Name another.")
    if path.exists() and not os.access(path, os.W_OK):
        raise UsageError(f"The output {path} may not be written to. Name another.")


def _joined_by_or(names: tuple[str, ...]) -> str:
    *others, last = names
    return " or ".join(filter(None, (", ".join(others), last)))
