"""The real Codex CLI over a gateway of 60 tools on four servers: the hook's note reaches the model at every turn."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from codex_session import HOME, PATIENCE, TRANSCRIPTS, WORK, Model, app_server, trust_in

from camdf.cli import main
from camdf.gate.notes import OPENING, name_in
from camdf.integrations.gateway.prompt_hook import BUDGET

SERVERS = Path(__file__).with_name("light_server.py")

CONFIG = """# My Codex, with a model on loopback.
model = "scripted"
model_provider = "local"

[model_providers.local] # no other
name = "local"
base_url = "{url}"
env_key = "DUMMY_KEY"
wire_api = "responses"
{servers}
# The end.
"""

TURNS = {
    "How much is 100 dollars in Japanese yen today?": "travel_convert_currency",
    "Which values of last month's revenue series are unusual?": "data_detect_anomalies",
    "What will the weather be like in Graz for the next days?": "travel_weather_forecast",
    "Look at the logs of the workflow that failed in continuous integration": "code_read_workflow_logs",
}
"""What is asked in a session, and the tool that is the right one."""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, which stays after the test: other tests read the transcripts."""
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / ".codex").mkdir(parents=True)
    WORK.mkdir()
    for name in ("XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(HOME))
    monkeypatch.chdir(WORK)
    return HOME


def configuration(url: str) -> str:
    tables = [
        f'\n[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = ["{SERVERS}", "{name}"]'
        for name in ("code", "office", "travel", "data")
    ]
    return CONFIG.format(url=url, servers="\n".join(tables))


def command_in(settings: Path) -> str:
    """What the hook runs."""
    (group,) = json.loads(settings.read_text())["hooks"]["UserPromptSubmit"]
    return str(group["hooks"][0]["command"])


def give_time(settings: Path) -> None:
    """Let the installed program wait longer: this is about what is said, and the machine may be busy."""
    program = Path(shlex.split(command_in(settings))[3])
    code = program.read_text()
    assert f"BUDGET = {BUDGET}" in code
    program.write_text(code.replace(f"BUDGET = {BUDGET}", "BUDGET = 4.0"))


def wait_for_notes(settings: Path) -> None:
    """Wait until the gateway that Codex started answers the hook."""
    command = command_in(settings)
    asked = json.dumps({"prompt": "Book a hotel room", "session_id": "another"})
    deadline = time.monotonic() + PATIENCE
    while not subprocess.run(command, shell=True, input=asked.encode(), capture_output=True).stdout:
        assert time.monotonic() < deadline, "no gateway hears of prompts"
        time.sleep(1.0)


def texts_of(request: dict[str, Any]) -> list[tuple[str, str]]:
    """The texts of a request by who says them."""
    items = [item for item in request["input"] if item.get("type") == "message"]
    return [(item["role"], part["text"]) for item in items for part in item["content"] if "text" in part]


def test_each_turn_gets_its_note_and_a_found_tool_runs_and_uninstall_restores_every_byte(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, settings = HOME / ".codex/config.toml", HOME / ".codex/hooks.json"
    with Model() as model:
        before = configuration(model.url).encode()
        config.write_bytes(before)
        assert main(["mcp", "install", "codex", "--hook", "--yes"]) == 0
        give_time(settings)
        installed = {path: path.read_bytes() for path in (config, settings)}
        with app_server() as codex:
            [hook] = codex.hooks()
            assert (hook["eventName"], hook["trustStatus"]) == ("userPromptSubmit", "untrusted")
        with app_server(trust_in(hook), f"mcp_servers.camdf.startup_timeout_sec={PATIENCE:.0f}") as codex:
            assert [hook["trustStatus"] for hook in codex.hooks()] == ["trusted"]
            thread = codex.thread()
            wait_for_notes(settings)
            for text, tool in TURNS.items():
                begins = len(model.requests)
                call = {"name": tool, "arguments": {"what": text}}
                model.script = [{"name": "call_tool", "namespace": "mcp__camdf", "arguments": json.dumps(call)}]
                codex.turn(thread, text)
                asked, answered = model.requests[begins:]
                said = texts_of(asked)
                place = said.index(("user", text))
                notes = [words for role, words in said[place:] if role == "developer" and words.startswith(OPENING)]
                assert len(notes) == 1, said[place:]
                assert tool in [name_in(line) for line in notes[0].split("\n")]
                assert len(notes[0]) <= 1_500
                outputs = [item for item in answered["input"] if item.get("type") == "function_call_output"]
                name = tool.partition("_")[2]
                assert f"{name} ran: {text}" in json.dumps(outputs[-1])
        assert {path: path.read_bytes() for path in installed} == installed, "Codex itself changed nothing"
    written = [path.read_text() for path in TRANSCRIPTS.rglob("rollout-*.jsonl")]
    assert all(any(text in transcript for transcript in written) for text in TURNS)
    capsys.readouterr()
    assert main(["usage", "--json"]) == 0
    (project,) = json.loads(capsys.readouterr().out)["projects"]
    used = {tool["name"]: tool["uses"] for tool in project["tools"] if tool["uses"]}
    assert used == {f"camdf/{tool}": 1 for tool in TURNS.values()}
    assert main(["mcp", "report", "codex"]) == 0
    assert main(["mcp", "uninstall", "codex", "--yes"]) == 0
    assert config.read_bytes() == before
    assert not settings.exists()
    assert not list((HOME / ".local/state/camdf/mcp/clients").iterdir())
