"""Commands that other distributions bring, by entry points of the group `camdf.commands`.

The product lists them, so that `camdf --help` shows them and an error names the extra where one is missing. The entry
point of a command's name is a function that gives the parser of the command its options and its `run`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from camdf.cli.parser import Section

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "camdf.commands"
"""The group of entry points in which a distribution names the function of each of its commands."""

REMEDY = "This needs camdf_traces. Install it with: pip install 'camdf[mining]'"
"""All of these commands are of one distribution."""


@dataclass(frozen=True)
class BroughtCommand:
    """A command of another distribution, as the table of contents has it, and what installs it."""

    name: str
    does: str
    example: str
    codes: Mapping[int, str] = field(default_factory=dict)
    """Exit codes besides those that every command has."""

    def add_commands(self, commands: Section) -> None:
        """The command by its name, still without options."""
        commands.add_parser(self.name, help=self.does, example=self.example, codes=dict(self.codes))

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Its options, where its distribution is installed."""
        for entry in self._entry_points():
            entry.load()(parser)

    def lacks(self) -> str:
        """What to install, where its distribution is not installed; else ""."""
        if self._entry_points():
            return ""
        return REMEDY

    def _entry_points(self) -> EntryPoints:
        from importlib.metadata import entry_points  # which most commands never need

        return entry_points(group=GROUP, name=self.name)


MINE = BroughtCommand("mine", "turn the traces of an agent into logged tasks", "camdf mine traces/ -o tasks.parquet")
AUDIT = BroughtCommand(
    "audit", "say whether tasks can be learned from: noise, censoring, drift", "camdf audit tasks.parquet"
)
COMPARE = BroughtCommand(
    "compare",
    "say whether gated conversations do as well, and what they save",
    "camdf compare traces/",
    {3: "success is shown to have fallen"},
)
BROUGHT = {command.name: command for command in (MINE, AUDIT, COMPARE)}
