"""The parts of the gateway that start no server: clients' files, log, definitions, what is loaded, the receipt."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from gateways import client_file, own_state

from camdf import DataError
from camdf.cli import main
from camdf.datasets.examples import Example
from camdf.integrations.gateway.config import read_servers
from camdf.integrations.gateway.folder import Folder
from camdf.integrations.gateway.receipt import receipt
from camdf.integrations.gateway.working_set import chances, worth_loading
from camdf.tools import Tool
from saying import says

state = pytest.fixture(autouse=True)(own_state)

ROOT = Path(__file__).parents[3]
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string", "description": "One of its words, as a text."} for name in "abcd"},
}
TOOLS = {
    f"{server}_tool_{number}": Tool(f"{server}_tool_{number}", "Does one of many things. " * 8, SCHEMA, server)
    for server in ("git", "mail", "maps", "notes")
    for number in range(15)
}


# Files of clients.


def test_the_files_of_four_clients_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = {
        "claude-desktop": '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"]}}}',
        "claude-code": '{"mcpServers": {"api": {"type": "http", "url": "https://a/mcp", "headers": {"X": "${KEY}"}}},'
        f' "projects": {{"{tmp_path}": {{"mcpServers": {{"own": {{"command": "x"}}}}}}}}}}',
        "cursor": '{"mcpServers": {"old": {"type": "sse", "url": "${env:HOST:-http://b}/events"}}}',
        "vscode": '{ // mine\n "servers": {"x y": {"type": "stdio", "command": "z", "cwd": "${workspaceFolder}",},}, }',
    }
    servers = {}
    for client, content in written.items():
        (tmp_path / "file.json").write_text(content)
        servers[client] = read_servers(tmp_path / "file.json", {"KEY": "secret"})
    assert servers["claude-desktop"][0].entry == {"command": "npx", "args": ["-y", "server"]}
    assert [server.name for server in servers["claude-code"]] == ["api", "own"]
    assert servers["claude-code"][0].entry["headers"] == {"X": "secret"}
    assert servers["cursor"][0].entry == {"url": "http://b/events", "transport": "sse"}
    assert servers["vscode"][0].name == "x_y"
    assert servers["vscode"][0].entry["cwd"] == str(tmp_path)


def test_a_server_that_cannot_start_says_why_and_costs_itself(tmp_path: Path) -> None:
    servers: dict[str, Any] = {
        "good": {"command": "x"},
        "off": {"command": "x", "disabled": True},
        "keyless": {"url": "https://a", "headers": {"Authorization": "Bearer ${TOKEN_A} ${TOKEN_B}"}},
        "asking": {"command": "x", "env": {"KEY": "${input:key}"}},
        "empty": {"args": []},
        "camdf": {"command": "camdf", "args": ["mcp", "mcp.json"]},
    }
    problems = {server.name: server.problem for server in read_servers(client_file(tmp_path, servers), {})}
    assert problems.keys() == {"good", "keyless", "asking", "empty"}
    assert problems["good"] == ""
    assert says(problems["keyless"], "TOKEN_A, TOKEN_B in the environment")
    assert says(problems["asking"], "input:key in the environment")
    assert says(problems["empty"], "'command' or a 'url'")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"mcpServers": {}}', '{"mcpServers": 3}', "\x00"])
def test_a_file_without_servers_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "mcp.json").write_text(content)
    with pytest.raises(DataError, match=r"mcp\.json: must"):
        read_servers(tmp_path / "mcp.json")


def test_of_servers_whose_names_become_one_the_first_or_the_one_that_is_written_so_keeps_it(tmp_path: Path) -> None:
    def problems(*names: str) -> dict[str, bool]:
        path = client_file(tmp_path, {name: {"command": "x"} for name in (*names, "office")})
        return {server.name: bool(server.problem) for server in read_servers(path)}

    assert problems("a b", "a_b") == {"a b": True, "a_b": False, "office": False}
    assert problems("a b", "a.b") == {"a_b": False, "a.b": True, "office": False}
    assert problems("", "x" * 65) == {"": True, "x" * 65: True, "office": False}


def test_variables_that_cannot_be_read_cost_their_server_alone_and_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary.env").write_bytes(b"A=\xff\xfe\x00\n")
    (tmp_path / "zero.env").write_bytes(b"A=\x00\n")
    (tmp_path / "good.env").write_text("A=1\nB\n")
    broken: dict[str, dict[str, Any]] = {
        "binary": {"envFile": str(tmp_path / "binary.env")},
        "zero": {"envFile": str(tmp_path / "zero.env")},
        "folder": {"envFile": str(tmp_path)},
        "missing": {"envFile": str(tmp_path / "nowhere.env")},
        "number": {"envFile": 3},
        "list": {"envFile": str(tmp_path / "good.env"), "env": [1]},
        "numbers": {"env": {"PORT": 8080}},
    }
    servers: dict[str, Any] = {name: {"command": "x", **entry} for name, entry in broken.items()}
    servers["good"] = {"command": "x", "envFile": str(tmp_path / "good.env"), "env": {"C": "2"}}
    read = {server.name: server for server in read_servers(client_file(tmp_path, servers))}
    assert [name for name, server in read.items() if not server.problem] == ["good"]
    assert "nowhere.env' cannot be read" in read["missing"].problem
    assert read["good"].entry["env"] == {"A": "1", "C": "2"}


# The log.


def test_a_search_that_ended_in_a_call_is_an_example_and_can_be_forgotten(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "kept")
    folder.note("search", query="write to Bob", found=["mail_send"])
    folder.note("call", tool="mail_send", ok=True, query="write to Bob")
    folder.note("call", tool="mail_send", ok=False, query="write to Ann")
    assert folder.examples() == [Example("write to Bob", ("mail_send",), origin="logged")]
    assert folder.path.stat().st_mode & 0o077 == 0
    assert main(["forget", str(folder.path), "--user", "ada@example.com"]) == 2, "else all would go"
    assert main(["forget", str(folder.path), "--before", "2020-01-01"]) == 0
    assert len(list(folder.records())) == 3
    assert folder.forget(date(2999, 1, 1)) == 3
    assert folder.log.read_bytes() == b""


def test_the_search_reads_only_what_is_new_of_the_log_and_forgets_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf.integrations.gateway.folder.MOST_EXAMPLES", 100)
    folder, lines = Folder(tmp_path / "kept"), list[int]()
    every = Folder.records

    def counted(self: Folder, after: int = 0) -> Iterator[dict[str, Any]]:
        records = list(every(self, after))
        lines.append(len(records))
        return iter(records)

    monkeypatch.setattr(Folder, "records", counted)
    for number in range(1_000):
        folder.note("call", tool="mail_send", ok=True, query=f"write to {number}")
    assert [example.text for example in folder.examples()] == [f"write to {number}" for number in range(900, 1_000)]
    folder.examples()
    Folder(folder.path).note("call", tool="mail_send", ok=True, query="write to Bob")  # another gateway of this file
    assert folder.examples()[-1].text == "write to Bob"
    assert lines == [1_000, 1]
    assert Folder(folder.path).forget() == 1_001
    folder.note("call", tool="mail_send", ok=True, query="write to Ann " + "x" * 200_000)  # longer than it ever was
    assert len(folder.examples()) == 1
    folder.log.unlink()
    assert folder.examples() == []


SHORTENS = """
import sys
from pathlib import Path
from camdf.integrations.gateway import folder
read = Path.read_bytes
def when_told(path):
    print("shortens", flush=True)
    sys.stdin.readline()
    return read(path)
Path.read_bytes, folder.MOST_BYTES = when_told, 20_000
folder.Folder(Path(sys.argv[1])).note("call", tool="of the other")
"""


def test_two_gateways_that_shorten_one_log_at_the_same_time_halve_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "kept")
    folder.note("call", tool="first")
    while folder.log.stat().st_size <= 20_000:
        folder.note("call", tool="mail_send")
    before = len(list(folder.records()))
    command = [sys.executable, "-c", SHORTENS, str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "shortens\n"
        monkeypatch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 20_000)
        own = threading.Thread(target=folder.note, args=("call",), kwargs={"tool": "own"})
        own.start()
        own.join(1.0)  # it waits for the other
        other.stdin.write("go on\n")
        other.stdin.flush()
        assert other.wait(120) == 0
    own.join(120)
    tools = [record["tool"] for record in folder.records()]
    assert tools[-2:] == ["of the other", "own"]
    assert before // 2 < len(tools) < before // 2 + 4


def test_nothing_is_kept_where_nothing_is_learned(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "kept", learn=False)
    folder.note("search", query="write to Bob")
    assert not folder.path.exists()
    assert folder.examples() == []


def test_a_long_log_loses_its_older_half_and_a_broken_line_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 10_000)
    folder = Folder(tmp_path / "kept")
    for number in range(1_000):
        folder.note("call", tool=f"tool_{number}", ok=True)
    assert folder.log.stat().st_size <= 10_000
    with open(folder.log, "a") as file:
        file.write('{"at": 3}\nbroken\n[]\n')
    assert list(folder.records())[-1]["tool"] == "tool_999"


def test_one_long_query_costs_itself_and_no_other_line(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "kept")
    for number in range(120):
        folder.note("call", tool="mail_send", ok=True, query=f"write to {number}")
    folder.note("search", query="z " * 2_600_000, found=[])
    folder.note("connect", connection="x" * 5_000_000, loaded=["y" * 5_000_000])
    folder.note("call", tool="mail_send", ok=True, query="write to Bob")
    assert len(list(folder.records())) == 122
    assert folder.log.stat().st_size < 30_000


def test_a_log_is_shortened_by_bytes_so_that_long_lines_cost_no_more_short_ones_than_their_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 20_000)
    folder = Folder(tmp_path / "kept")
    for _ in range(5):
        folder.note("search", query="z" * 2_000)
    for number in range(150):
        folder.note("call", tool=f"tool_{number}", ok=True)
    assert sum(record["event"] == "call" for record in folder.records()) >= 100
    assert folder.log.stat().st_size <= 20_000


def test_what_a_gateway_has_in_memory_of_a_forgotten_query_is_not_written_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "kept")
    first = folder.note("search", query="divorce lawyer 4711")
    assert Folder(folder.path).forget() == 1
    folder.note("call", tool="mail_send", ok=True, query="divorce lawyer 4711", searched=first)
    assert "4711" not in folder.log.read_text()
    assert folder.examples() == []
    later = "2999-01-01T00:00:00+00:00"
    folder.note("call", tool="mail_send", ok=True, query="write to Bob", searched=later)
    assert [example.text for example in folder.examples()] == ["write to Bob"]
    assert Folder(folder.path).forget(date(2020, 1, 1)) == 0
    folder.note("call", tool="mail_send", ok=True, query="divorce lawyer 4711", searched=first)
    assert "4711" not in folder.log.read_text()


# What is loaded.


def connections(count: int, *tools: str, client: str = "", project: str = "") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number in range(count):
        name = f"{client}{project}{number}"
        fields = {"at": "2999-01-01T00:00:00+00:00", "connection": name, "client": client, "project": project}
        records += [
            {"event": "connect", **fields},
            *({"event": "call", "tool": t, "ok": True, **fields} for t in tools),
        ]
    return records


def test_the_first_connection_loads_the_first_tools_of_every_server() -> None:
    loaded = worth_loading(TOOLS, chances(TOOLS, [], first=8))
    assert loaded == [f"{server}_tool_{number}" for server in ("git", "mail", "maps", "notes") for number in (0, 1)]
    assert worth_loading(TOOLS, chances(TOOLS, [], first=0)) == []


def test_what_is_called_is_loaded_and_what_is_not_goes() -> None:
    few, many = (worth_loading(TOOLS, chances(TOOLS, connections(n, "maps_tool_9"))) for n in (2, 60))
    assert "maps_tool_9" in few
    assert "git_tool_0" in few
    assert many == ["maps_tool_9"]


def test_another_client_or_project_counts_less() -> None:
    own = connections(4, "git_tool_5", client="a", project="p")
    elsewhere = connections(4, "mail_tool_5", client="b", project="q")
    chance = chances(TOOLS, own + elsewhere, client="a", project="p")
    assert chance["git_tool_5"] > chance["mail_tool_5"] > chance["maps_tool_5"]


def test_examples_say_what_is_loaded_first() -> None:
    chance = chances(TOOLS, [], examples=[Example("go", ("maps_tool_3",))] * 3)
    assert worth_loading(TOOLS, chance) == ["maps_tool_3"]


def test_a_long_definition_has_to_be_called_more_often() -> None:
    long = {**TOOLS, "git_long": Tool("git_long", "x" * 60_000, SCHEMA, "git")}
    records = connections(2, "git_long", "git_tool_7")
    loaded = worth_loading(long, chances(long, records, first=0))
    assert "git_tool_7" in loaded
    assert "git_long" not in loaded


def test_no_list_is_longer_than_a_client_can_take() -> None:
    chance = chances(TOOLS, connections(5, "notes_tool_14"), first=60)
    loaded = worth_loading(TOOLS, chance, at_most=10)
    assert len(loaded) == 10
    assert "notes_tool_14" in loaded
    assert worth_loading({}, {}) == []


# The receipt.


def test_the_receipt_says_which_servers_earn_their_place() -> None:
    fields = {"connection": "a", "offered": 60, "loaded": ["x"] * 8, "tokens_offered": 9000, "tokens_loaded": 1000}
    calls = [
        {"event": "call", "connection": "a", "server": "git", "ok": True, "loaded": True},
        {"event": "call", "connection": "a", "server": "git", "ok": False},
        {"event": "call", "connection": "a", "server": "mail", "ok": True, "query": "write"},
    ]
    searches = [{"event": "search", "connection": "a"}] * 2
    total = receipt([{"event": "connect", **fields}, *searches, *calls], ["git", "mail", "maps"])
    assert (total.connections, total.searches, total.misses, total.learned, total.calls) == (1, 2, 1, 1, 3)
    assert total.tokens_saved == 8000
    assert {name: use["calls"] for name, use in total.servers.items()} == {"git": 2, "mail": 1, "maps": 0}
    assert says(str(total), "8 of 60 tools", "8,000 of 9,000 tokens")
    assert receipt([], only=["b"]).connections == 0


# Clients' files.


@pytest.mark.parametrize(
    ("client", "place", "table"),
    [("claude-code", ".mcp.json", "mcpServers"), ("cursor", ".cursor/mcp.json", "mcpServers"),
     ("vscode", ".vscode/mcp.json", "servers")],
)  # fmt: skip
def test_install_and_uninstall_give_the_file_back_byte_by_byte(
    client: str,
    place: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    before = f'{{"{table}":   {{"git": {{"command": "x"}}, }}, // mine\r\n "other": 1}}\n'.encode()
    path.write_bytes(before)
    assert main(["mcp", "install", client]) == 2  # nobody can be asked
    assert path.read_bytes() == before
    assert main(["mcp", "install", client, "--yes"]) == 0
    installed = json.loads(path.read_text())
    assert installed["other"] == 1
    assert list(installed[table]) == ["camdf"]
    assert [server.name for server in read_servers(Path(installed[table]["camdf"]["args"][-1]))] == ["git"]
    assert '+    "camdf": {' in capsys.readouterr().out
    assert main(["mcp", "install", client, "--yes"]) == 2
    assert main(["mcp", "uninstall", client, "--yes"]) == 0
    assert path.read_bytes() == before
    assert main(["mcp", "uninstall", client, "--yes"]) == 2


def test_what_claude_code_has_for_single_projects_goes_behind_the_gateway_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`claude mcp add` writes for the project of its folder, unless it is told otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    path, here = tmp_path / ".claude.json", str(tmp_path)
    projects: dict[str, Any] = {
        here: {"allowedTools": [], "mcpServers": {"git": {"type": "stdio", "command": "x", "args": [], "env": {}}}},
        "/other": {"mcpServers": {"mail": {"type": "http", "url": "https://a/mcp"}}},
        "/none": {"mcpServers": {}},
    }
    before = {"numStartups": 3, "projects": projects}
    path.write_text(json.dumps(before, indent=2))
    assert main(["mcp", "install", "claude-code", "--yes"]) == 0
    installed = json.loads(path.read_text())
    assert list(installed["mcpServers"]) == ["camdf"]
    assert all(project["mcpServers"] == {} for project in installed["projects"].values())
    servers = Path(installed["mcpServers"]["camdf"]["args"][-1])
    assert [server.name for server in read_servers(servers)] == ["git"]
    installed["numStartups"] = 4
    installed["projects"][here]["mcpServers"]["new"] = {"command": "y"}
    path.write_text(json.dumps(installed))
    assert main(["mcp", "uninstall", "claude-code", "--yes"]) == 0
    projects[here]["mcpServers"]["new"] = {"command": "y"}
    assert json.loads(path.read_text()) == {"numStartups": 4, "projects": projects}


def test_what_vs_code_asks_its_user_for_reaches_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    (tmp_path / ".env").write_text("A=1\nB=2\n")
    git = {"type": "stdio", "command": "x", "env": {"KEY": "${input:key}", "B": "3"}, "envFile": "${userHome}/.env"}
    inputs = [{"type": "promptString", "id": "key", "password": True}]
    path.write_text(json.dumps({"inputs": inputs, "servers": {"git": git}}))
    assert main(["mcp", "install", "vscode", "--yes"]) == 0
    installed = json.loads(path.read_text())
    assert installed["inputs"] == inputs
    gateway = installed["servers"]["camdf"]
    assert (gateway["type"], gateway["env"]) == ("stdio", {"input:key": "${input:key}"})
    server = read_servers(Path(gateway["args"][-1]), {"input:key": "secret"})[0]
    assert (server.problem, server.entry["env"]) == ("", {"A": "1", "B": "3", "KEY": "secret"})


def test_uninstall_keeps_what_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"git": {"command": "x"}}}')
    assert main(["mcp", "install", "claude-code", "--yes"]) == 0
    document = json.loads(path.read_text())
    document["mcpServers"]["mail"], document["seen"] = {"command": "y"}, True
    path.write_text(json.dumps(document))
    assert main(["mcp", "uninstall", "claude-code", "--yes"]) == 0
    back = json.loads(path.read_text())
    assert back == {"mcpServers": {"git": {"command": "x"}, "mail": {"command": "y"}}, "seen": True}


@pytest.mark.parametrize(
    "words", [["nofile.json"], ["a", "b"], ["install"], ["install", "emacs"], ["login"], ["--at-most", "1"]]
)
def test_what_cannot_run_says_what_to_do_in_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    client_file(tmp_path, {"git": {"command": "x"}})
    assert main(["mcp", *words]) == 2
    told = capsys.readouterr().err
    assert told.startswith("camdf: ")
    assert told.count("\n") == 1


# The page and the room.


def test_the_figures_of_the_page_are_those_that_were_measured() -> None:
    stored = json.loads((ROOT / "results" / "mcp.json").read_text(encoding="utf-8"))
    page = " ".join((ROOT / "docs" / "mcp.md").read_text(encoding="utf-8").split())
    ratio, direct = stored["gateway_by_bare_proxy"], stored["gateway_by_direct"]
    assert says(page, f"takes {ratio:.2f} times", "FastMCP's bare proxy", f"{direct:.1f} times")
    assert f"median of {stored['calls']:,} calls" in page
    middle, end = stored["megabytes_by_tenth"][4], stored["megabytes_by_tenth"][-1]
    assert says(page, f"Over {stored['soak_calls']:,} calls … memory … {middle:.0f} to {end:.0f} MB")
    assert ratio <= 1.5


def test_a_receipt_says_where_a_short_list_costs_more_with_the_search() -> None:
    connect = {"event": "connect", "offered": 9, "loaded": 8, "tokens_offered": 467, "tokens_loaded": 639}
    assert says(str(receipt([connect])), "172 more … 467 tokens … every model call")
    assert says(str(receipt([{**connect, "tokens_loaded": 67}])), "400 of 467 tokens … saved")
