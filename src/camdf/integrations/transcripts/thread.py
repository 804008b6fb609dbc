"""What is taken from one transcript: names and numbers; texts only where they were asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from camdf.gate.tool_search import CALL
from camdf.integrations.gateway.config import GATEWAY
from camdf.prices import estimated_tokens
from camdf.tools import Tool

CLAUDE_CODE = "claude-code"
CODEX = "codex"

TITLES = {CLAUDE_CODE: "Claude Code", CODEX: "Codex"}

LONGEST_NAME = 128
"""How many characters of a name are kept: servers and models choose what they are called."""

MOST_NAMES = 5_000
"""How many tools, and how many skills, one transcript may name."""

LONGEST_TEXT = 2_000
"""How many characters of a request are kept, where requests are."""

MCP = "mcp__"
"""How clients begin the names of servers' tools."""

GATEWAY_CALL = f"{GATEWAY}/{CALL.name}"


class AskedFor(NamedTuple):
    """What a user asked, and the MCP tools that were called until the next request."""

    text: str
    tools: tuple[str, ...]


class FoundTool(NamedTuple):
    """A tool whose definition joined a thread by a search: its tokens, and the model calls before."""

    tokens: int
    calls_before: int


@dataclass
class Thread:
    """One transcript. Tools are named as "server/tool", those of the client itself by their names alone."""

    client: str
    session: str = ""
    project: str = ""
    day: str = ""
    """When it was last written to, as the client says."""

    is_side: bool = False
    """Whether a sub-agent had it."""

    model_calls: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By model, and whether the call read its prompt from a cache."""

    tools_called: Counter[str] = field(default_factory=Counter)
    skills_used: Counter[str] = field(default_factory=Counter)
    loaded: dict[str, int] = field(default_factory=dict)
    """Tokens of the definitions that every call had, where the transcript has them."""

    deferred: set[str] = field(default_factory=set)
    """Tools of which calls had the names alone."""

    brought: dict[str, FoundTool] = field(default_factory=dict)
    skills_listed: dict[str, int] = field(default_factory=dict)
    """Tokens of each skill's part of the list of skills."""

    asked: list[AskedFor] = field(default_factory=list)
    _text: str = ""
    _called: dict[str, None] = field(default_factory=dict)

    def ask(self, text: str = "") -> None:
        """A user's request begins, and the one before ends; without its text it is not kept."""
        if self._text:
            self.asked.append(AskedFor(self._text, tuple(self._called)))
        self._text = text[:LONGEST_TEXT]
        self._called = {}

    def count_tool(self, name: str) -> None:
        """A tool was called."""
        if name in self.tools_called or len(self.tools_called) < MOST_NAMES:
            self.tools_called[name] += 1
            if server_of(name):
                self._called[name] = None

    def count_skill(self, name: object) -> None:
        """A skill was used."""
        if isinstance(name, str) and name and (name in self.skills_used or len(self.skills_used) < MOST_NAMES):
            self.skills_used[name[:LONGEST_NAME]] += 1

    def load(self, definition: object) -> None:
        """A tool's definition was in the prompt."""
        read = defined_tool(definition)
        if read is not None and len(self.loaded) < MOST_NAMES:
            name, tokens = read
            self.loaded[name] = tokens

    def defer(self, names: Iterable[object]) -> None:
        """Tools were named in the prompt, without their definitions."""
        for name in filter(None, map(full_name, names)):
            if len(self.deferred) < MOST_NAMES:
                self.deferred.add(name)

    def find(self, definition: object) -> None:
        """A search brought a tool's definition."""
        read = defined_tool(definition)
        if read is not None and len(self.brought) < MOST_NAMES:
            name, tokens = read
            self.brought.setdefault(name, FoundTool(tokens, self.model_calls.total()))

    def list_skills(self, listed: dict[str, str]) -> None:
        """Skills were listed in the prompt, each with this part of the list."""
        for name, part in listed.items():
            if len(self.skills_listed) < MOST_NAMES:
                self.skills_listed[name[:LONGEST_NAME]] = estimated_tokens(part)


def full_name(written: object) -> str:
    """A tool's name as clients write it, with its server where it has one; "" for what is no name.

    >>> full_name("mcp__mail__send_message"), full_name("Bash")
    ('mail/send_message', 'Bash')
    """
    if not isinstance(written, str):
        return ""
    server, _, name = written.removeprefix(MCP).partition("__")
    if not written.startswith(MCP) or not server or not name:
        return written[:LONGEST_NAME]
    return f"{server[:LONGEST_NAME]}/{name[:LONGEST_NAME]}"


def called_tool(written: object, arguments: object) -> str:
    """The full name of the tool that a call runs: behind a gateway of ours it is the one that `call_tool` names.

    >>> called_tool("mcp__camdf__call_tool", '{"name": "mail_send"}')
    'camdf/mail_send'
    """
    name = full_name(written)
    if name != GATEWAY_CALL:
        return name
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return name
    named = text_in(given.get("name")) if isinstance(given, dict) else ""
    return f"{GATEWAY}/{named[:LONGEST_NAME]}" if named else name


def server_of(name: str) -> str:
    """The server of a tool by its full name; "" for the client's own tools."""
    server, slash, _ = name.partition("/")
    return server if slash else ""


def defined_tool(definition: object) -> tuple[str, int] | None:
    """The full name of a tool that is defined so, and the tokens of its definition."""
    if not isinstance(definition, dict):
        return None
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        return None
    described = definition.get("description")
    schemas: list[Any] = [definition.get(key) for key in ("schema", "input_schema", "parameters", "inputSchema")]
    parameters = next((schema for schema in schemas if isinstance(schema, dict)), {})
    tool = Tool(name, described if isinstance(described, str) else "", parameters)
    return full_name(name), estimated_tokens(tool.definition())


def listed_parts(content: str) -> dict[str, str]:
    r"""The parts of a list of skills by name; a line that begins no part belongs to the one before, up to a heading.

    >>> listed_parts("- pdf: Reads PDF files.\n  Forms too.\n- zip: Packs.")
    {'pdf': '- pdf: Reads PDF files.\n  Forms too.', 'zip': '- zip: Packs.'}
    """
    parts: dict[str, str] = {}
    name = ""
    for line in content.split("\n"):
        if line.startswith("- "):
            name = line[2:].split(": ")[0].strip()[:LONGEST_NAME]
            parts[name] = line
        elif line.startswith(("#", "</")):
            name = ""
        elif name:
            parts[name] += f"\n{line}"
    return parts


def text_in(written: object) -> str:
    """A text as it is; "" for what is none."""
    return written if isinstance(written, str) else ""


def objects_among(written: object) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    if not isinstance(written, list):
        return []
    return [part for part in written if isinstance(part, dict)]
