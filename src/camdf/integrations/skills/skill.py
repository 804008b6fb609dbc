"""A skill as a candidate: a tool that is ranked by what its file says, and shown by its description."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from camdf.prices import estimated_tokens
from camdf.tools import READ, Tool

LISTED = 1_536
"""How many characters of a description Claude Code lists; Codex refuses a skill with more than 1,024."""


@dataclass(frozen=True)
class Skill(Tool):
    """A folder with a SKILL.md, in any place that takes a tool: a gate, a scorer, a fit.

    A scorer reads the description and then the body, since a description often says less than the body what people ask
    for. A model is told one line in every call: name and description. That line is what a skill costs.
    """

    body: str = field(default="", repr=False)
    """What stands below the front matter of its file."""

    path: str = ""
    """Its file, or the URI under which a server has it."""

    origin: str = ""
    """Where it was found: "user", "project", "plugin", "system" or "server"; "" for a folder that somebody named."""

    client: str = ""
    """Whose folder it lies in, "claude-code" or "codex"."""

    on_request: bool = False
    """Whether only the user can start it. Then no model is told of it: it costs nothing, and no prompt needs it."""

    @property
    def described(self) -> str:
        return f"{self.description} {self.body}"[:READ].strip()

    @property
    def label(self) -> str:
        """What a client calls it: a plugin's skill has the plugin's name before its own.

        >>> Skill("merge", "Merges pages.", server="pdf").label
        'pdf:merge'
        """
        return f"{self.server}:{self.name}" if self.server else self.name

    @property
    def listing(self) -> str:
        """The line of a client's list of skills, "" where no model is told of it; Codex adds where the file is."""
        if self.on_request:
            return ""
        line = f"- {self.label}: {self.description[:LISTED]}"
        if self.client == "codex":
            return f"{line} (file: {self.path})"
        return line

    @property
    def tokens(self) -> int:
        """How many tokens its line has, about: what it costs in every call of a session."""
        return estimated_tokens(self.listing) if self.listing else 0

    def definition(self) -> str:
        """What a model is sent of it, which prices count."""
        return self.listing

    def digest(self) -> str:
        """SHA-256 of the skill: changes with any byte that a model is told or reads."""
        told = [self.name, self.description, self.body]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()
