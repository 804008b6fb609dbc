"""A loop of one's own that asks a running service what its model gets, and what to do with a call."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.conformance.situations import DELEGATED, READING
from hijacked import TELLS
from running_service import Running, folder_of

CONFIGURATION = f"""
[server]
port = 0

[gate]
tool_search = true

[gate.guards]
pinned = ["{DELEGATED}"]

[gate.privilege]
file = "privilege.json"
"""

PERMITTED: ContextVar[list[str] | None] = ContextVar("permitted", default=None)
"""What may run in the agent whose tool is running: the loop hands it to another agent that this tool starts."""


def served_folder(place: Path) -> Path:
    """What a service needs whose tools are those of the suite."""
    folder = folder_of(place, CONFIGURATION)
    (folder / "privilege.json").write_text(json.dumps(dict.fromkeys((*READING, DELEGATED), "read")))
    return folder


class ServedLoop:
    """A driver of the conformance suite."""

    def __init__(self, service: Running) -> None:
        self.service = service

    def may_run_by_words(self, words: Sequence[str]) -> frozenset[str]:
        """What may run by the user's words alone."""
        said = [{"role": "user", "content": text} for text in words]
        tools = [function(RunnableTool(*told, str)) for told in TELLS.items()]
        return frozenset(self.service.decide({"messages": said, "tools": tools})["may_run"])

    def build(self, setup: Setup) -> Setup:
        return setup

    def send(self, setup: Setup, turn: ChatTurn) -> Reply:
        tools = [function(tool) for tool in setup.tools]
        runnable = {tool.name: tool for tool in setup.tools}
        history = [*(turn.history or [{"role": "system", "content": setup.system}])]
        history.append({"role": "user", "content": turn.said})
        question: dict[str, Any] = {"messages": history, "tools": tools}
        if PERMITTED.get() is not None:
            question["permitted"] = PERMITTED.get()
        while True:
            decided = self.service.decide(question)
            said = posted(f"{setup.url}/chat/completions", {"messages": history, "tools": decided["tools"]})
            message = said["choices"][0]["message"]
            history.append(message)
            if not message.get("tool_calls"):
                return Reply(history, message["content"])
            for call in message["tool_calls"]:
                text = self._text_of(call, tools, runnable, decided["may_run"])
                history.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    def _text_of(self, call: Any, tools: Any, runnable: dict[str, RunnableTool], may_run: list[str]) -> str:
        asked = self.service.ask("/v1/answer", {"call": call, "tools": tools, "may_run": may_run})
        assert asked.status == 200, asked
        run = asked.body["run"]
        if run is None:
            return str(asked.body["text"])
        token = PERMITTED.set(may_run)
        text = runnable[run["name"]].run(run["arguments"])
        PERMITTED.reset(token)
        return text


def function(tool: RunnableTool) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}


def posted(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
