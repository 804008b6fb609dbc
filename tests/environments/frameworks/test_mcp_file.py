"""`camdf try mcp.json`: the tools of the MCP servers that a client's file names, asked of real servers."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf.cli import main
from camdf.cli.mcp_file import list_tools
from camdf.integrations.gateway.config import read_servers

SERVER = Path(__file__).parent / "tool_server.py"
SOURCES = {"PYTHONPATH": str(Path(camdf.__file__).parents[1])}
TRAVEL = {"book_hotel": "Book a hotel room for a guest.", "search_flights": "Search flights between two cities."}
MUSIC = {"play_song": "Play a song or a playlist.", "get_lyrics": "The words of a song."}


def stdio(tools: dict[str, str], **further: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER), json.dumps({"tools": tools})], "env": SOURCES, **further}


def kept(document: object, folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The tool that a request gets of a file, and what was said besides."""
    path = folder / "mcp.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    code = main(["try", str(path), "Book a room in a hotel", "--tools", "1", "--json"])
    said = capfd.readouterr()
    assert code == (2 if "camdf:" in said.err else 0), said.err
    return (json.loads(said.out)["kept"] if said.out else []), said.err


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_the_file_of_a_client_is_read_and_its_servers_are_asked(
    key: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = {key: {"travel": stdio(TRAVEL, type="stdio"), "music": stdio(MUSIC)}, "inputs": []}
    assert kept(document, tmp_path, capfd) == (["book_hotel"], "")


def test_a_server_that_fails_or_is_late_is_named_and_left_out_and_the_others_are_not_kept_waiting(
    tmp_path: Path,
) -> None:
    late = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}
    servers = {
        "travel": stdio(TRAVEL),
        "late": late,
        "absent": {"command": "no-such-command-anywhere"},
        "unset": {"url": "http://127.0.0.1:1/${NO_SUCH_VARIABLE}"},
        "refused": {"url": "http://127.0.0.1:1/mcp"},
        "odd": {"port": 5},
        "fails": {"command": sys.executable, "args": ["-c", "raise SystemExit('no key is set')"]},
    }
    began = time.monotonic()
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    listing = list_tools(read_servers(tmp_path / "mcp.json"), seconds=25)
    assert time.monotonic() - began < 60
    assert {(server, tool.name) for server, tool in listing.tools} == {("travel", name) for name in TRAVEL}
    assert listing.failed.keys() == servers.keys() - {"travel"}
    assert listing.failed["late"] == "it did not answer within 25 seconds"
    assert "no-such-command-anywhere" in listing.failed["absent"]
    assert "set NO_SUCH_VARIABLE in the environment" in listing.failed["unset"]
    assert listing.failed["fails"].endswith("; its last line: no key is set")
    assert "must have a 'command' or a 'url'" in listing.failed["odd"]


def test_what_failed_is_said_beside_the_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = {"command": "no-such-command-anywhere"}
    names, said = kept({"mcpServers": {"travel": stdio(TRAVEL), "broken": broken}}, tmp_path, capfd)
    assert names == ["book_hotel"]
    assert said.startswith("The MCP server broken is left out: ")
    assert said.count("\n") == 1
    names, said = kept({"mcpServers": {"broken": broken, "off": stdio(TRAVEL, disabled=True)}}, tmp_path, capfd)
    assert not names
    assert "none of its 1 MCP servers listed a tool. Check how it starts them." in said


def test_settings_name_variables_of_the_environment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_OF_TEST", sys.executable)
    server = stdio(TRAVEL) | {"command": "${env:PYTHON_OF_TEST}", "cwd": "${NOWHERE_SET:-/}"}
    assert kept({"mcpServers": {"travel": server}}, tmp_path, capfd) == (["book_hotel"], "")
