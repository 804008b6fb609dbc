"""What a coding agent has on this machine: the MCP servers of its files, definitions that were accepted, skills."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from camdf.errors import DataError
from camdf.integrations.gateway.config import server_names
from camdf.integrations.gateway.folder import DEFINITIONS, Folder, state_home
from camdf.integrations.skills.folders import Client, installed_skills
from camdf.integrations.transcripts.codex import codex_home
from camdf.integrations.transcripts.thread import CLAUDE_CODE, MCP, defined_tool


def listed_skills(client: str, project: str) -> dict[str, int]:
    """The tokens of each skill's part of a client's list of skills, by its name."""
    whose: Client = "claude-code" if client == CLAUDE_CODE else "codex"
    return {skill.label: skill.tokens for skill in installed_skills([whose], project or None).skills}


def accepted_definitions() -> dict[str, int]:
    """Tokens of the definitions that gateways on this machine have accepted, by the tools' full names."""
    tokens: dict[str, int] = {}
    with suppress(OSError):
        for folder in sorted(state_home().iterdir()):
            accepted = Folder(folder).read(DEFINITIONS).get("accepted")
            servers = accepted.items() if isinstance(accepted, dict) else ()
            for server, tools in servers:
                for name, record in tools.items() if isinstance(tools, dict) else ():
                    definition = record.get("definition") if isinstance(record, dict) else None
                    named = {**definition, "name": f"{MCP}{server}__{name}"} if isinstance(definition, dict) else None
                    tokens.update(dict(filter(None, [defined_tool(named)])))
    return tokens


def configured_servers(client: str, project: str) -> list[str]:
    """The MCP servers that a client's files name in a project now, in letters that tools may have."""
    here = Path(project or ".")
    files = [codex_home() / "config.toml", here / ".codex" / "config.toml"]
    if client == CLAUDE_CODE:
        beside = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home())
        files = [beside / ".claude.json", here / ".mcp.json"]
    names: dict[str, None] = {}
    for path in files:
        with suppress(OSError, ValueError, DataError, RecursionError):
            if path.is_file():
                names |= dict.fromkeys(server_names(path, project))
    return list(names)
