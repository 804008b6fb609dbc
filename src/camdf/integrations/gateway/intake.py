"""What of a server's list is taken in: every tool that can be named, read in one way, and afforded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from camdf.errors import needs
from camdf.gate.tool_search import NAME
from camdf.tools import Tool, view

with needs("mcp"):
    from mcp_types import Tool as McpTool

MOST_TOOLS = 2_000
"""How many tools a server may have."""

LONGEST_TOOL = 100_000
"""How many characters the definition of one may have."""

MOST_CHARACTERS = 2_000_000
"""How many the definitions of a server may have together. Those of 500 tools have about a million."""


class ListedTool(NamedTuple):
    """A tool as its server lists it, and as it is read."""

    native: Any
    tool: Tool


class Intake(NamedTuple):
    """The tools of a server that are taken in, by name, and how many are left out, by reason."""

    tools: dict[str, ListedTool]
    left_out: Counter[str]


def taken_in(listed: Iterable[object]) -> Intake:
    """What is taken in of a list, whatever stands in it: this never raises, and no tool costs another its place.

    Names have the characters that the protocol and the providers of models allow. Of two tools of one name the first is
    taken. Sizes are counted in the order of the list: a tool that has no room leaves it to the next.
    """
    intake = Intake({}, Counter())
    room = MOST_CHARACTERS
    for native in listed:
        name = _own_name(native)
        if not NAME.fullmatch(name):
            intake.left_out["its name is not 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'"] += 1
        elif name in intake.tools:
            intake.left_out["its name stands twice"] += 1
        elif len(intake.tools) == MOST_TOOLS:
            intake.left_out[f"the server has more than {MOST_TOOLS:,} tools"] += 1
        elif (size := characters(native)) > LONGEST_TOOL:
            intake.left_out[f"it has more than {LONGEST_TOOL:,} characters"] += 1
        elif size > room:
            intake.left_out[f"the server's tools have more than {MOST_CHARACTERS:,} characters"] += 1
        elif (tool := _read_tool(native)) is None:
            intake.left_out["it cannot be read"] += 1
        else:
            intake.tools[name] = ListedTool(native, tool)
            room -= size
    return intake


def _own_name(native: Any) -> str:
    """What a tool calls itself; "" where that is no text."""
    try:
        name = native.name
    except Exception:
        return ""
    return name if type(name) is str else ""


def characters(native: Any) -> int:
    """How long a definition is; 0 of one that cannot be written at all."""
    try:
        return len(native.model_dump_json())
    except Exception:
        return 0


def _read_tool(native: Any) -> Tool | None:
    """A tool as it is read; None where there is no way, or more than one, to read it."""
    try:
        written = native.model_dump(by_alias=True, exclude_none=True)
        type(native).model_validate(written)
        tool = view(written)
        json.loads(tool.definition())
        tool.digest()
    except Exception:  # a field of another type, an attribute that raises, a number too long, nesting too deep
        return None
    if not tool.readable or tool.foreign or tool.name != native.name:
        return None
    return tool


def remembered(records: Mapping[str, Mapping[str, Any]]) -> Intake | None:
    """What a server listed before, by the records of its definitions; None where a tool would not be the same again."""
    try:
        written = [dict(record["definition"]) for record in records.values()]
        natives = [McpTool.model_validate({"inputSchema": tool.pop("parameters"), **tool}) for tool in written]
    except (ValueError, TypeError, KeyError):
        return None
    intake = taken_in(natives)
    digests = {name: listed.tool.digest() for name, listed in intake.tools.items()}
    same = digests == {name: record["digest"] for name, record in records.items()}
    return intake if same and digests else None
