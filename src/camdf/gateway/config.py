"""The servers of a client's own file: Claude Code, Claude Desktop, Cursor and VS Code write them alike, almost."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from camdf._json import plain_json
from camdf.errors import DataError, UsageError, require

TABLES = ("mcpServers", "servers")
"""What the table of servers is called: by most clients, and by VS Code."""

GATEWAY = "camdf"
"""The name of the gateway in a client's file: an entry of this name is never started, for it would start itself."""

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}|\$\{(input:[^}]+)\}")


class ServerEntry(NamedTuple):
    """One server of a file: its name in letters that tools may have, how FastMCP starts it, and why it cannot be."""

    name: str
    entry: dict[str, Any]
    problem: str = ""


def client_json(content: bytes, path: Path) -> dict[str, Any]:
    """The object in what a client's file holds; errors name the file."""
    try:
        written = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")  # a comment ends with its line
        document = json.loads(plain_json(written) or "{}")
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 among them
        raise DataError(f"{path}: must hold one JSON object, and does not: {error}. Mend it.") from None
    return document if isinstance(document, dict) else {}


def _table(document: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The servers of a client's file by name, those of this project over those of the user, as Claude Code has them."""
    projects = document.get("projects")
    project = projects.get(folder) if isinstance(projects, dict) else None
    levels = [level.get(key) for level in (document, project) if isinstance(level, dict) for key in TABLES]
    return {name: entry for level in levels if isinstance(level, dict) for name, entry in level.items()}


def read_servers(path: Path, environ: Mapping[str, str] = os.environ) -> list[ServerEntry]:
    """All servers of a file that are not disabled. One that cannot be started says why."""
    here = str(Path.cwd())
    places = {"workspaceFolder": here, "workspaceFolderBasename": Path(here).name, "userHome": str(Path.home())}
    values = {**places, **environ}
    servers: dict[str, ServerEntry] = {}
    for written, entry in _table(client_json(path.read_bytes(), path), here).items():
        name = re.sub(r"[^A-Za-z0-9_-]", "_", written)
        if name == GATEWAY or (isinstance(entry, dict) and entry.get("disabled")):
            continue
        if name in servers:
            raise UsageError(f"{path}: two servers would both be called {name!r}. Rename one of them.")
        servers[name] = _server(name, entry, values)
    if not servers:
        raise DataError(f"{path}: must name a server in 'mcpServers', and names none. Add one, or name another file.")
    return list(servers.values())


def _server(name: str, entry: Any, values: Mapping[str, str]) -> ServerEntry:
    if not isinstance(entry, dict) or not any(isinstance(entry.get(key), str) for key in ("command", "url")):
        return ServerEntry(name, {}, "its entry must have a 'command' or a 'url'")
    missing: set[str] = set()
    filled = _filled(entry, values, missing)
    if isinstance(file := filled.pop("envFile", None), str):
        filled["env"] = {**require("dotenv", "mcp").dotenv_values(file), **filled.get("env", {})}
    kind = filled.pop("type", None)
    if "url" in filled and kind in ("http", "streamable-http", "streamableHttp", "sse"):
        filled["transport"] = "sse" if kind == "sse" else "http"
    told = f"set {', '.join(sorted(missing))} in the environment, and start again" if missing else ""
    return ServerEntry(name, filled, told)


def _filled(written: Any, values: Mapping[str, str], missing: set[str]) -> Any:
    """The same with `${VAR}`, `${VAR:-default}` and `${env:VAR}` filled in; names without a value join `missing`."""
    if isinstance(written, dict):
        return {key: _filled(value, values, missing) for key, value in written.items()}
    if isinstance(written, list):
        return [_filled(value, values, missing) for value in written]
    if not isinstance(written, str):
        return written

    def value(variable: re.Match[str]) -> str:
        name, default = variable[1] or variable[3], variable[2]
        if default is None and name not in values:
            missing.add(name)
        return values.get(name, default or "")

    return _VARIABLE.sub(value, written)
