"""The gateway in the file of Codex, which is TOML: tables are cut out of the text, and all else of it stays as it is.

What comes out is parsed, and must say what was meant: a file that writes its servers in another form is refused.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from camdf.cli.client_file import Document
from camdf.cli.servers_file import ServersFile, own_place
from camdf.errors import DataError, UsageError
from camdf.integrations.gateway.config import CODEX_SERVERS, GATEWAY
from camdf.runtime.files import held_bytes

START_SECONDS = 60
"""How long Codex may wait for the gateway, which starts its servers first."""

NAMING = ("bearer_token_env_var",)
NAMING_SEVERAL = ("env_vars", "env_http_headers")
"""Keys of a server that name variables: Codex passes on no others but the usual ones."""


class TomlTable(NamedTuple):
    """A table of a file: its keys, and where its lines begin and end."""

    keys: tuple[str, ...]
    begins: int
    ends: int


class TomlServers(ServersFile):
    """Servers of Codex."""

    copy_name = "servers.toml"

    def has_servers(self) -> bool:
        return self.backup.is_file() or bool(self._servers_in(held_bytes(self.path)))

    def entry_in(self, content: bytes) -> Document | None:
        return next((entry for entry in self._servers_in(content).values() if self.starts_gateway(entry)), None)

    def missing_in(self, content: bytes) -> list[str]:
        if not self.backup.is_file():
            return []
        return [name for name in self._servers_in(self.backup.read_bytes()) if name not in self._servers_in(content)]

    def is_untouched(self, copy: bytes, content: bytes) -> bool:
        expected = {**self._document(copy), CODEX_SERVERS: {GATEWAY: self.entry_in(content)}}
        written = self._replaced(copy.decode(), "", None).strip()
        now = self._replaced(content.decode(), "", None).strip()
        return self._document(content) == expected and now == written

    def with_ours(self, content: bytes) -> bytes:
        entry = self._gateway_entry(self._servers_in(content).values())
        text = self._replaced(content.decode(), table_text((CODEX_SERVERS, GATEWAY), entry), {GATEWAY: entry})
        return text.encode()

    def without_ours(self, copy: bytes, content: bytes) -> bytes:
        """The tables of the copy, as they stood there, and those that came since, in the place of the gateway."""
        since = {name: entry for name, entry in self._servers_in(content).items() if not self.starts_gateway(entry)}
        old = {name: entry for name, entry in self._servers_in(copy).items() if name not in since}
        texts = [
            *_texts_of_servers(copy.decode(), old),
            *_texts_of_servers(content.decode(), since),
        ]
        return self._replaced(content.decode(), "\n".join(texts), {**old, **since}).encode()

    def _document(self, content: bytes) -> Document:
        try:
            return tomllib.loads(content.decode())
        except ValueError as error:
            raise DataError(f"{self.path}: must hold TOML, and does not: {error}. Mend it.") from None

    def _servers_in(self, content: bytes) -> Document:
        servers = self._document(content).get(CODEX_SERVERS)
        return servers if isinstance(servers, dict) else {}

    def _replaced(self, text: str, put: str, servers: Document | None) -> str:
        """The text with other tables of servers in the place of the first that it has, or at its end.

        A UsageError where it then says anything else than before beside these `servers`.
        """
        own = [table for table in toml_tables(text) if table.keys[0] == CODEX_SERVERS]
        kept = text
        place = own[0].begins if own else len(text)
        for table in reversed(own):
            kept = kept[: table.begins] + kept[table.ends :]
        before, after = kept[:place], kept[place:]
        if put and before and not before.endswith("\n"):
            before += "\n"
        replaced = f"{before}{put}{after}"
        expected = {name: value for name, value in self._document(text.encode()).items() if name != CODEX_SERVERS}
        if servers:
            expected[CODEX_SERVERS] = servers
        if self._parsed(replaced) != expected:
            raise UsageError(
                f"{self.path} must have its servers as tables of their own, [{CODEX_SERVERS}.NAME], and has them in "
                "another form. Write them so, and start again."
            )
        return replaced

    def _parsed(self, text: str) -> Document | None:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return None

    def _gateway_entry(self, servers: Iterable[Any]) -> Document:
        """How Codex starts the gateway: with the variables of its servers, and as long a wait for calls as theirs."""
        entries = [entry for entry in servers if isinstance(entry, dict)]
        command, *arguments = self.command()
        entry: Document = {"command": command, "args": arguments, "startup_timeout_sec": START_SECONDS}
        seconds = [entry["tool_timeout_sec"] for entry in entries if "tool_timeout_sec" in entry]
        if seconds:
            entry["tool_timeout_sec"] = max(seconds)
        variables = sorted({name for entry in entries for name in _variables_named(entry)})
        if variables:
            entry["env_vars"] = variables
        if own_place():
            entry["env"] = own_place()
        return entry


def _variables_named(entry: Document) -> list[str]:
    named = [entry[key] for key in NAMING if key in entry]
    for key in NAMING_SEVERAL:
        several = entry.get(key, ())
        if isinstance(several, dict):
            several = several.values()
        named += several
    return [name for name in named if isinstance(name, str)]


def toml_tables(text: str) -> list[TomlTable]:
    r"""The tables of a text in TOML, each from its head to its last line that is no comment and not empty.

    >>> text = "list = [\n[1],\n]\n[b.c]\nd = 1\n# of e\n[e]"
    >>> [(table.keys, text[table.begins : table.ends]) for table in toml_tables(text)]
    [(('b', 'c'), '[b.c]\nd = 1\n'), (('e',), '[e]')]
    """
    lines = text.split("\n")
    begins = 0
    heads: list[tuple[int, int, tuple[str, ...]]] = []
    for number, written in enumerate(lines):
        keys = _keys_of_head(written)
        if keys and _is_whole(text[:begins]):
            heads.append((number, begins, keys))
        begins += len(written) + 1
    tables = []
    for (number, begins, keys), (following, *_) in pairwise([*heads, (len(lines), len(text), ())]):
        own = lines[number:following]
        while own[-1].strip() == "" or own[-1].lstrip().startswith("#"):
            own.pop()
        tables.append(TomlTable(keys, begins, min(len(text), begins + len("\n".join(own)) + 1)))
    return tables


def _keys_of_head(written: str) -> tuple[str, ...]:
    """The keys in the head of a table; none where a line is no head."""
    if not written.lstrip().startswith("["):
        return ()
    try:
        level: Any = tomllib.loads(written.rstrip("\r"))
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while level:
        if isinstance(level, list):
            [level] = level
        else:
            [(key, level)] = level.items()
            keys.append(key)
    return tuple(keys)


def _is_whole(text: str) -> bool:
    """Whether a text ends outside of all strings and lists."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _texts_of_servers(text: str, names: Iterable[str]) -> list[str]:
    """The tables of these servers, as they stand in a text."""
    known = set(names)
    return [
        text[table.begins : table.ends].rstrip("\n") + "\n"
        for table in toml_tables(text)
        if table.keys[0] == CODEX_SERVERS and table.keys[1:2] and table.keys[1] in known
    ]


def table_text(keys: Sequence[str], entry: Document) -> str:
    """A table in TOML, of texts, numbers, lists of texts, and tables of texts."""
    rows = [f"[{'.'.join(keys)}]"]
    for name, value in entry.items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in value.items())
            rows.append(f"{name} = {{ {pairs} }}")
        else:
            rows.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(rows) + "\n"
