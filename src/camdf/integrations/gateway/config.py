"""The servers of a client's own file: Claude Code, Claude Desktop, Cursor and VS Code write them alike, almost.

Codex has them in TOML and in words of its own, which are read as those of the others.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from camdf.errors import DataError, require
from camdf.runtime.loose_json import plain_json

TABLES = ("mcpServers", "servers")
"""What the table of servers is called: by most clients, and by VS Code."""

CODEX_SERVERS = "mcp_servers"
"""And by Codex."""

GATEWAY = "camdf"
"""The name of the gateway in a client's file: an entry of this name is never started, for it would start itself."""

LONGEST_NAME = 64
"""How many characters the name of a server may have: it stands before the names of its tools."""

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}|\$\{(input:[^}]+)\}")


class ServerEntry(NamedTuple):
    """One server of a file: its name in letters that tools may have, how FastMCP starts it, and why it cannot be."""

    name: str
    entry: dict[str, Any]
    problem: str = ""
    only: frozenset[str] | None = None
    """The tools that the file lets through, by the server's names; None for all."""

    without: frozenset[str] = frozenset()
    """Those that it does not."""

    lazy: bool = False
    """Whether it is started when a tool of it is first called, once its tools are known."""

    def lets_through(self, tool: str) -> bool:
        """Whether a tool of the server may be taken in."""
        return (self.only is None or tool in self.only) and tool not in self.without


def client_document(content: bytes, path: Path) -> dict[str, Any]:
    """What a client's file holds, with servers as most clients write them; errors name the file."""
    if path.suffix != ".toml":
        return client_json(content, path)
    try:
        document = tomllib.loads(content.decode())
    except ValueError as error:  # text that is no UTF-8 among them
        raise DataError(f"{path}: must hold TOML, and does not: {error}. Mend it.") from None
    servers = _as_object(document.pop(CODEX_SERVERS, None))
    return {**document, TABLES[0]: {name: _entry_of_codex(entry) for name, entry in servers.items()}}


def _entry_of_codex(entry: Any) -> Any:
    """An entry of Codex as other clients would write it."""
    if not isinstance(entry, dict):
        return entry
    entry = dict(entry)
    headers = {**_as_object(entry.pop("http_headers", None))}
    for name, variable in _as_object(entry.pop("env_http_headers", None)).items():
        headers[name] = f"${{{variable}}}"
    token = entry.pop("bearer_token_env_var", None)
    if token:
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        entry["headers"] = headers
    passed_on = [name for name in entry.pop("env_vars", None) or () if isinstance(name, str)]
    if passed_on:
        entry["env"] = {**{name: f"${{{name}:-}}" for name in passed_on}, **_as_object(entry.get("env"))}
    seconds = entry.pop("tool_timeout_sec", None)
    if isinstance(seconds, (int, float)):
        entry["timeout"] = 1000 * seconds
    if entry.pop("enabled", True) is False:
        entry["disabled"] = True
    return entry


def client_json(content: bytes, path: Path) -> dict[str, Any]:
    """The object in what a client's file holds; errors name the file."""
    try:
        written = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")  # a comment ends with its line
        document = json.loads(plain_json(written) or "{}")
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 among them
        raise DataError(f"{path}: must hold one JSON object, and does not: {error}. Mend it.") from None
    return _as_object(document)


def _as_object(written: Any) -> dict[str, Any]:
    """What stands somewhere in a file, if it is an object; else an empty one."""
    return written if isinstance(written, dict) else {}


def _written_servers(document: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The servers of a client's file by name, those of this project over those of the user, as Claude Code has them."""
    project = _as_object(_as_object(document.get("projects")).get(folder))
    tables = [_as_object(level.get(key)) for level in (document, project) for key in TABLES]
    return {name: entry for table in tables for name, entry in table.items()}


def served_file(path: Path) -> Path:
    """The file whose servers stand behind a client: after `camdf mcp install` not its own, but the copy of it."""
    servers = _written_servers(client_document(path.read_bytes(), path), str(Path.cwd()))
    arguments = _as_object(servers.get(GATEWAY)).get("args")
    if not isinstance(arguments, list) or not arguments:
        return path
    named = arguments[-1]
    if isinstance(named, str) and named.endswith((".json", ".toml")) and Path(named).is_file():
        return Path(named)
    return path


def server_names(path: Path, folder: str) -> list[str]:
    """The servers that a client has by its file in this folder, in letters that tools may have; none is started."""
    servers = _written_servers(client_document(path.read_bytes(), path), folder)
    return [tool_letters(name) for name, entry in servers.items() if not _as_object(entry).get("disabled")]


def read_servers(path: Path, environ: Mapping[str, str] = os.environ) -> list[ServerEntry]:
    """All servers of a file that are not disabled. One that cannot be started says why.

    Of servers whose names become one the first keeps it, unless one of them is written so; the others cannot be
    started, and go by the names that they have in the file.
    """
    here = str(Path.cwd())
    places = {"workspaceFolder": here, "workspaceFolderBasename": Path(here).name, "userHome": str(Path.home())}
    values = {**places, **environ}
    servers = _written_servers(client_document(path.read_bytes(), path), here)
    enabled = {
        written: entry
        for written, entry in servers.items()
        if tool_letters(written) != GATEWAY and not (isinstance(entry, dict) and entry.get("disabled"))
    }
    if not enabled:
        table = CODEX_SERVERS if path.suffix == ".toml" else TABLES[0]
        raise DataError(f"{path}: must name a server in '{table}', and names none. Add one, or name another file.")
    owners: dict[str, str] = {}
    for written in sorted(enabled, key=lambda written: written != tool_letters(written)):
        owners.setdefault(tool_letters(written), written)
    entries: list[ServerEntry] = []
    for written, entry in enabled.items():
        name = tool_letters(written)
        if owners[name] == written:
            entries.append(_server_entry(name, entry, values))
        else:
            problem = f"its tools would be called {name}_…, as those of {owners[name]!r}. Rename it"
            entries.append(ServerEntry(written, {}, problem))
    return entries


def tool_letters(written: str) -> str:
    """The name of a server in letters that names of tools may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", written)


def _server_entry(name: str, entry: Any, values: Mapping[str, str]) -> ServerEntry:
    if not 1 <= len(name) <= LONGEST_NAME:
        return ServerEntry(name, {}, f"its name must have 1 to {LONGEST_NAME} characters")
    if not isinstance(entry, dict) or not any(isinstance(entry.get(key), str) for key in ("command", "url")):
        return ServerEntry(name, {}, "its entry must have a 'command' or a 'url'")
    missing: set[str] = set()
    try:
        filled = _filled(entry, values, missing)
    except RecursionError:
        return ServerEntry(name, {}, "its entry is nested too deeply")
    own = filled.pop("env", None) or {}
    if not isinstance(own, dict) or not all(isinstance(value, str) for value in own.values()):
        return ServerEntry(name, {}, "its 'env' must be an object of names and texts")
    only = filled.pop("enabled_tools", None)
    without = filled.pop("disabled_tools", None) or ()
    file = filled.pop("envFile", None)
    if file is not None:
        try:
            own = {**_variables_in(file), **own}
        except (OSError, ValueError, TypeError) as error:
            return ServerEntry(name, {}, f"its envFile {str(file)!r} cannot be read: {error}")
    if own:
        filled["env"] = own
    kind = filled.pop("type", None)
    if "url" in filled and kind in ("http", "streamable-http", "streamableHttp", "sse"):
        filled["transport"] = "sse" if kind == "sse" else "http"
    lazy = filled.pop("lazy", False) is True
    problem = ""
    if missing:
        problem = f"set {', '.join(sorted(missing))} in the environment, and start again"
    if only is not None:
        only = frozenset(only)
    return ServerEntry(name, filled, problem, only, frozenset(without), lazy)


def _variables_in(file: str) -> dict[str, str]:
    """The variables of an `envFile`; an OSError or a ValueError where it cannot be read."""
    written = Path(file).read_text(encoding="utf-8-sig")
    if "\0" in written:
        raise ValueError("it is not a text")
    variables = require("dotenv", "mcp").dotenv_values(stream=StringIO(written))
    return {name: value for name, value in variables.items() if value is not None}


def _filled(written: Any, values: Mapping[str, str], missing: set[str]) -> Any:
    """The same with `${VAR}`, `${VAR:-default}` and `${env:VAR}` filled in; names without a value join `missing`."""
    if isinstance(written, dict):
        return {key: _filled(value, values, missing) for key, value in written.items()}
    if isinstance(written, list):
        return [_filled(value, values, missing) for value in written]
    if not isinstance(written, str):
        return written

    def value(variable: re.Match[str]) -> str:
        name = variable[1] or variable[3]
        default = variable[2]
        if default is None and name not in values:
            missing.add(name)
        return values.get(name, default or "")

    return _VARIABLE.sub(value, written)
