"""The gateway in a client's own file: what was shown is what is written, and no server of the user's is ever lost."""

from __future__ import annotations

import json
import os
import pty
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.cli import parser
from camdf.cli.parser import run_command
from camdf.integrations.gateway.config import TABLES, client_json
from killed import at_every_step, changed_before, killed_at_byte

SECRET = "a key that only its owner may read"
GIT = {"command": "git-server", "env": {"KEY": SECRET}}
HERE = "WORK"
"""Stands for the folder in which the command runs."""


class Kind(NamedTuple):
    """A client's file: whose it is, where it lies, what it holds, its mode, and whether it is a link."""

    client: str
    place: str
    content: str
    mode: int = 0o600
    linked: bool = False


COMMENTED = Kind(
    "claude-code",
    "work/.mcp.json",
    '{\r\n  // mine\r\n  "mcpServers": {"git": ' + json.dumps(GIT) + ', "mail": {"url": "https://a/mcp"},},\r\n}',
)
LINKED = Kind("cursor", "home/.cursor/mcp.json", json.dumps({"mcpServers": {"git": GIT}, "other": [1]}), linked=True)
PROJECTS = Kind(
    "claude-code",
    "home/.claude.json",
    json.dumps(
        {
            "numStartups": 3,
            "projects": {
                HERE: {"allowedTools": [], "mcpServers": {"git": GIT}},
                "/other": {"mcpServers": {"mail": {"url": "https://a/mcp"}}},
                "/none": {"mcpServers": {}},
            },
        },
        indent=2,
    ),
)
VSCODE = Kind(
    "vscode",
    "work/.vscode/mcp.json",
    json.dumps(
        {
            "inputs": [{"type": "promptString", "id": "key", "password": True}],
            "servers": {"git": {"type": "stdio", **GIT}, "asks": {"command": "x", "env": {"KEY": "${input:key}"}}},
        }
    ),
    mode=0o640,
)
KINDS = {"with comments": COMMENTED, "a link": LINKED, "single projects": PROJECTS, "of VS Code": VSCODE}

COMMANDS = parser()

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
actions = pytest.mark.parametrize("action", ["install", "uninstall"])


class User:
    """A user with a home, a folder to work in, and one client's file."""

    def __init__(self, root: Path, kind: Kind) -> None:
        self.root, self.kind, self.path = root, kind, root / kind.place
        self.content = kind.content.replace(HERE, str(root / "work")).encode()
        self.real = root / "dotfiles" / "mcp.json" if kind.linked else self.path

    def begin(self, action: str = "install") -> None:
        """Everything as it is before a command."""
        for entry in self.root.iterdir():
            shutil.rmtree(entry)
        for folder in (self.root / "work", self.root / "home", self.path.parent, self.real.parent):
            folder.mkdir(parents=True, exist_ok=True)
        os.chdir(self.root / "work")
        self.real.write_bytes(self.content)
        self.real.chmod(self.kind.mode)
        if self.kind.linked:
            self.path.symlink_to(self.real)
        if action == "uninstall":
            assert self.asks("install") == 0

    def asks(self, action: str) -> int:
        return run_command(COMMANDS, ["mcp", action, self.kind.client, "--yes"])

    def has_gateway(self) -> bool:
        return any("camdf" in read_json(self.path).get(table, {}) for table in TABLES)

    def servers(self) -> set[tuple[str, str]]:
        """Those of the file and, where it starts the gateway, those of the gateway."""
        document = read_json(self.path)
        known = servers_of(document)
        for table in TABLES:
            if gateway := document.get(table, {}).get("camdf"):
                known |= servers_of(read_json(Path(gateway["args"][-1])))
        return known

    def own_servers(self) -> set[tuple[str, str]]:
        """Those that the file had at first."""
        return servers_of(json.loads(plain(self.content)))

    def check_private(self) -> None:
        """What holds the secret may be read by those alone who might read the client's file."""
        for file in (file for file in self.root.rglob("*") if file.is_file() and not file.is_symlink()):
            if SECRET.encode() in file.read_bytes():
                most = self.kind.mode if file.parent == self.real.parent else 0o600
                assert mode_of(file) & ~most == 0, (file, oct(mode_of(file)))
        for folder in (self.root / "state").rglob("clients"):
            assert {mode_of(inner) for inner in (folder, *folder.iterdir()) if inner.is_dir()} == {0o700}

    def check_as_it_was(self) -> None:
        """The file is what it was, to the byte, the mode and the link, and nothing else is left."""
        assert self.path.read_bytes() == self.content
        assert mode_of(self.real) == self.kind.mode
        assert self.path.is_symlink() is self.kind.linked
        assert {file for file in self.root.rglob("*") if file.is_file()} == {self.real, self.path}


def read_json(path: Path) -> dict[str, Any]:
    return client_json(path.read_bytes(), path)


def servers_of(document: dict[str, Any]) -> set[tuple[str, str]]:
    """The servers of a file, each with the project for which it stands there; not the gateway."""
    projects = document.get("projects")
    levels = {"": document, **(projects if isinstance(projects, dict) else {})}
    tables = [(place, level.get(name)) for place, level in levels.items() if isinstance(level, dict) for name in TABLES]
    return {(place, name) for place, table in tables if isinstance(table, dict) for name in table if name != "camdf"}


def plain(content: bytes) -> str:
    """One of the files above without its comment."""
    return content.decode().replace("// mine", "").replace(",}", "}").replace(",\r\n}", "}")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def user_of(folder: Path, kind: Kind) -> Iterator[User]:
    """A user of a system where anybody may read a new file that does not say otherwise."""
    root = Path(os.path.realpath(folder)) / "user"
    root.mkdir()
    here = os.getcwd()
    mask = os.umask(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(root / "home"))
        patch.setenv("XDG_STATE_HOME", str(root / "state"))
        try:
            yield User(root, kind)
        finally:
            os.chdir(here)
            os.umask(mask)


# Killed at any moment.


def check_both_ways_on(user: User) -> None:
    """After a kill no server is lost or shown, and whichever command comes next works."""
    assert user.servers() >= user.own_servers()
    user.check_private()
    was_installed = user.has_gateway()
    left = user.root.with_name("left")
    shutil.copytree(user.root, left, symlinks=True)
    assert user.asks("install") == (2 if was_installed else 0), "it is there already, or it is put there"
    assert user.has_gateway()
    assert user.servers() >= user.own_servers()
    user.check_private()
    assert user.asks("uninstall") == 0
    user.check_as_it_was()
    os.chdir(left)
    shutil.rmtree(user.root)
    left.rename(user.root)
    os.chdir(user.root / "work")
    assert user.asks("uninstall") == (0 if was_installed else 2), "it is taken out, or it is not there"
    user.check_as_it_was()


@kinds
@actions
def test_a_kill_at_any_step_loses_no_server_and_blocks_no_command(kind: Kind, action: str, tmp_path: Path) -> None:
    with user_of(tmp_path, kind) as user:

        def look(step: int) -> None:
            check_both_ways_on(user)
            user.begin(action)

        user.begin(action)
        assert at_every_step(lambda: user.asks(action), look) > 8


@settings(deadline=None)
@given(kind=st.sampled_from([*KINDS.values()]), action=st.sampled_from(["install", "uninstall"]), part=st.floats(0, 1))
def test_a_kill_at_any_byte_loses_no_server_and_blocks_no_command(kind: Kind, action: str, part: float) -> None:
    with TemporaryDirectory() as folder, user_of(Path(folder), kind) as user:
        user.begin(action)
        killed_at_byte(round(part * 1.5 * len(user.content)), lambda: user.asks(action))
        check_both_ways_on(user)


# Changed meanwhile.


def add_server(path: Path, name: str) -> None:
    """What a client does when its user adds a server: it writes the whole file."""
    document = read_json(path)
    table = document.setdefault(next((table for table in TABLES if table in document), TABLES[0]), {})
    table[name] = {"command": "x"}
    path.write_text(json.dumps(document))


@kinds
@actions
def test_what_a_client_writes_at_any_step_is_not_lost_but_in_the_moment_of_the_replacement(
    kind: Kind, action: str, tmp_path: Path
) -> None:
    lost = []
    with user_of(tmp_path, kind) as user:
        for step in count():
            user.begin(action)
            if not changed_before(step, lambda: add_server(user.real, "new"), lambda: user.asks(action)):
                break
            assert user.servers() >= user.own_servers()
            if ("", "new") not in user.servers():
                lost.append(step)
    assert len(lost) <= 2, "the new file gets its mode, and takes the place of the old one"


def answered(command: Sequence[str], waits: Sequence[tuple[Callable[[], object], str]]) -> list[str]:
    """What a command on a terminal prints before each question and at its end, while others act before each answer."""
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, [sys.executable, "-m", "camdf", *command], own_variables())
    told = [""]
    for others_act, answer in waits:
        while "[y/N]" not in told[-1]:
            told[-1] += os.read(terminal, 4096).decode()
        others_act()
        os.write(terminal, f"{answer}\n".encode())
        told.append("")
    with suppress(OSError):  # its end
        while more := os.read(terminal, 4096):
            told[-1] += more.decode()
    os.waitpid(process, 0)
    os.close(terminal)
    return told


def own_variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@actions
def test_a_change_that_nobody_was_shown_is_shown_before_it_is_written(action: str, tmp_path: Path) -> None:
    with user_of(tmp_path, COMMENTED) as user:
        user.begin(action)
        told = answered(
            ["mcp", action, user.kind.client],
            [
                (lambda: add_server(user.real, "first"), "y"),
                (lambda: add_server(user.real, "second"), "y"),
                (lambda: None, "y"),
            ],
        )
        assert ["first" in shown for shown in told[:3]] == [False, True, True]
        assert ["second" in shown for shown in told[:3]] == [False, False, True]
        assert user.servers() >= user.own_servers() | {("", "first"), ("", "second")}
        assert user.has_gateway() is (action == "install")


@actions
def test_a_change_that_is_shown_again_can_be_refused(action: str, tmp_path: Path) -> None:
    with user_of(tmp_path, VSCODE) as user:
        user.begin(action)
        waits = [(lambda: add_server(user.real, "first"), "y"), (lambda: None, "n")]
        assert "Nothing was changed." in answered(["mcp", action, user.kind.client], waits)[-1]
        assert user.servers() == user.own_servers() | {("", "first")}
        assert user.has_gateway() is (action == "uninstall")
        assert len([*(user.root / "state").rglob("*.json")]) == (1 if action == "uninstall" else 0)


def test_two_installations_at_once_keep_the_servers(tmp_path: Path) -> None:
    with user_of(tmp_path, LINKED) as user:
        user.begin()
        command = [sys.executable, "-m", "camdf", "mcp", "install", user.kind.client, "--yes"]
        both = [subprocess.Popen(command, env=own_variables(), stderr=subprocess.DEVNULL) for _ in range(2)]
        assert sorted(process.wait(60) for process in both) == [0, 2]
        assert user.servers() >= user.own_servers()
        assert user.asks("uninstall") == 0
        user.check_as_it_was()


names = st.text(min_size=1, max_size=8).filter(lambda name: name != "camdf")
entries = st.one_of(st.none(), st.text(max_size=5), st.dictionaries(st.sampled_from(["command", "args"]), st.text()))
tables = st.one_of(st.none(), st.lists(st.none(), max_size=1), st.dictionaries(names, entries, max_size=3))


@settings(deadline=None)
@given(
    kind=st.sampled_from([*KINDS.values()]),
    put=st.dictionaries(st.sampled_from([*TABLES, "projects", "other"]), tables, max_size=3),
    dropped=st.sets(st.sampled_from(["git", "mail", "asks", "camdf", "/other", "projects", *TABLES])),
)
def test_whatever_becomes_of_the_file_in_between_its_servers_come_back(
    kind: Kind, put: dict[str, Any], dropped: set[str]
) -> None:
    with TemporaryDirectory() as folder, user_of(Path(folder), kind) as user:
        user.begin("uninstall")
        document = {**read_json(user.path), **put}
        for table in [document[name] for name in (*TABLES, "projects") if isinstance(document.get(name), dict)]:
            for name in dropped & table.keys():
                del table[name]
        changed = {name: value for name, value in document.items() if name not in dropped}
        user.path.write_text(json.dumps(changed))
        assert user.asks("uninstall") == 0
        after = read_json(user.path)
        assert servers_of(after) >= servers_of(changed) | user.own_servers()
        assert not user.has_gateway()
        assert after.get("other") == changed.get("other")


@actions
def test_where_the_copy_is_gone_or_the_file_is_both_commands_say_so(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with user_of(tmp_path, COMMENTED) as user:
        user.begin("uninstall")
        (copy,) = (user.root / "state").rglob("servers.json")
        kept = copy.read_bytes()
        copy.unlink()
        capsys.readouterr()
        assert user.asks(action) == 2
        assert str(copy if action == "uninstall" else "uninstall") in capsys.readouterr().err
        copy.write_bytes(kept)
        user.path.unlink()
        assert user.asks("install") == 2
        assert "camdf mcp uninstall claude-code" in capsys.readouterr().err
        assert user.asks("uninstall") == 0
        user.check_as_it_was()


# What is printed, and who may read what is written.


@actions
def test_no_server_of_a_file_writes_on_the_terminal(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signs = "".join(map(chr, (*range(0x7F, 0xA0), 0x200B, 0x2028, 0x2029, *range(0x202A, 0x202F), 0x2066)))
    servers = {f"a{signs}": {"command": f"ls{signs}", "args": ["\x1b[8m"]}}
    written = json.dumps({"mcpServers": servers}, ensure_ascii=False).replace("\\u001b", "\x1b")
    with user_of(tmp_path, COMMENTED._replace(content=written.replace("\x1b", "\\u001b"))) as user:
        user.begin(action)
        if action == "uninstall":
            document = read_json(user.path)
            document["mcpServers"].update(servers)
            user.path.write_text(json.dumps(document, ensure_ascii=False))
            capsys.readouterr()
            assert user.asks("uninstall") == 0
        else:
            assert user.asks("install") == 0
        told = capsys.readouterr().out
        assert r"ls\x7f\x80" in told
        assert r"\u202e" in told
        assert set(told) & {*signs, "\x1b", "\r"} == set()


@kinds
@actions
def test_what_holds_keys_is_at_no_step_readable_by_others(kind: Kind, action: str, tmp_path: Path) -> None:
    with user_of(tmp_path, kind) as user:
        for step in count():
            user.begin(action)
            if not changed_before(step, user.check_private, lambda: user.asks(action)):
                break
        user.check_private()
