"""Other names of tools on the command line: new names, and one name for tools that do the same."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from camdf.datasets.records import is_text
from camdf.datasets.tool_names import joined_copies
from camdf.errors import UsageError
from camdf.policies.copies import Copies, check_copies
from camdf.policies.renames import Renames, check_renames

if TYPE_CHECKING:
    from camdf.core.rankings import LoggedTasks

FOUND = "found"
"""Stands for the copies that a command finds by itself."""


def add_renamed(parser: argparse.ArgumentParser) -> None:
    """The new names of tools, where a command reads what knows them by their old ones."""
    parser.add_argument(
        "--renamed",
        type=_names_by_name,
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="a tool's new name, where policies and logs have the old one; repeat it, or name a file of {old: new}",
    )


def chosen_renames(options: argparse.Namespace) -> Renames:
    """The new names of all tools that a command was told to be renamed, by their old ones."""
    renames = _one_name_each("--renamed", options.renamed)
    check_renames(renames)
    return renames


def add_copies(parser: argparse.ArgumentParser) -> None:
    """Which tools do the same."""
    parser.add_argument(
        "--copies",
        type=_copies,
        action="append",
        default=[],
        metavar="COPY=TOOL",
        help="a tool that does the same as another; repeat it, or name a file of {copy: tool}; 'found' takes all pairs "
        "that the log suggests",
    )


def chosen_copies(options: argparse.Namespace, logged: LoggedTasks) -> Copies:
    """The tools that do the same as another one: as a command was told, and as the log suggests if that was asked."""
    from camdf.evaluation.maybe_copies import copies_among, maybe_copies

    told = _one_name_each("--copies", [part for part in options.copies if part != FOUND])
    check_copies(told)
    if FOUND not in options.copies:
        return told
    suggested = copies_among(maybe_copies(joined_copies(logged, told)))
    return {**suggested, **{copy: suggested.get(tool, tool) for copy, tool in told.items()}}


def _copies(written: str) -> str | dict[str, str]:
    return FOUND if written == FOUND else _names_by_name(written)


def _names_by_name(written: str) -> dict[str, str]:
    """One name by another, or those of a file."""
    name, is_pair, other = (part.strip() for part in written.partition("="))
    names: object = {name: other}
    if not is_pair:
        try:
            names = json.loads(Path(written).read_bytes())
        except (OSError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"must be as a=b, or a JSON file. Got {written!r}: {error}") from None
    if not isinstance(names, dict) or not all(is_text(name) for pair in names.items() for name in pair):
        raise argparse.ArgumentTypeError(f"must give each name another one, as a=b. Got {written!r} instead")
    return names


def _one_name_each(option: str, parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What an option says that may be repeated, with one other name for each."""
    names: dict[str, str] = {}
    for name, other in chain.from_iterable(map(dict.items, map(dict, parts))):
        if names.setdefault(name, other) != other:
            raise UsageError(f"{option} gives {name!r} two new names, {names[name]!r} and {other!r}. Leave one out.")
    return names
