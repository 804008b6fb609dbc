"""A door to the tools that a conversation was not given: two fixed tools that an adapter adds where some are cut.

The agent searches with `find_tool` and runs what it found with `call_tool`, since a tool that is not declared cannot be
called by its own name. The tool list, and the cached prompt with it, stands. An adapter answers `find_tool` with
`listing(gate.find(query, tools))`, and runs `call_tool` through its framework's own path to the tool that is meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from camdf.gate.decision import Mode
from camdf.tools import Tool, view

FOUND, IN_FULL = 5, 2
"""How many tools a search finds, and how many of them come with their parameters, which are most of a definition: five
such entries are as long as three whole ones. Three tools would miss some that everyday requests need of 400."""

FIND = Tool(
    "find_tool",
    "Search for a tool that is not in your list. Describe in a few English words what it should do, such as "
    "'create a calendar event'. Answers with the names and descriptions of the tools that match best, and with the "
    "parameters of the first ones; to get those of another, search for its name. Run one of them with call_tool.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)

CALL = Tool(
    "call_tool",
    "Run a tool that find_tool has found.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool, as find_tool gave it."},
            "arguments": {"type": "object", "description": "Its arguments, as its parameters say."},
        },
        "required": ["name", "arguments"],
    },
)

DOOR = (FIND, CALL)


def fits(mode: Mode, names: Iterable[str]) -> bool:
    """Whether a list of tools can have a door: only what is dropped needs one, and its names must be free."""
    return mode == "drop" and {tool.name for tool in DOOR}.isdisjoint(names)


def listing(found: Iterable[Any], others: Iterable[Any] = ()) -> str:
    """What `find_tool` answers: the tools that were found, the first in full; if none, the names of all `others`."""
    tools = [view(native) for native in found]
    if tools:
        told: list[dict[str, Any]] = [{"name": each.name, "description": each.description} for each in tools]
        for entry, tool in zip(told[:IN_FULL], tools, strict=False):
            entry["parameters"] = tool.schema
        return json.dumps(told, default=str, ensure_ascii=False)
    names = ", ".join(sorted({view(native).name for native in others}))
    return f"No tool matches. Search again in other words. All there are, by name: {names}."


def arguments_of(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool that a `call_tool` means, and what it is called with; models also write the arguments as JSON text."""
    inner = arguments.get("arguments") or {}
    if isinstance(inner, str):
        try:
            inner = json.loads(inner)
        except ValueError:
            inner = {}
    return str(arguments.get("name", "")), dict(inner) if isinstance(inner, Mapping) else {}


def unknown(name: str) -> str:
    """What `call_tool` answers where no tool has that name."""
    return f"There is no tool named {name!r}. Search with find_tool, and give the name as it is listed there."
