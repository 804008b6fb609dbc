"""The LiteLLM proxy for the conformance suite: it serves from a thread, and its client is an agent of a few lines."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
os.environ["LITELLM_MASTER_KEY"] = "sk-local"

import httpx
import uvicorn
from litellm.integrations.custom_logger import CustomLogger
from openai import OpenAI

from camdf.integrations.conformance import ChatTurn, Reply, Setup
from camdf.integrations.litellm import ToolGate

HAS_TOOL_SEARCH = False
RUNS_NONE = "a proxy runs no tools, and so it has no tool search but the provider's"
CLIENT = "a proxy forwards requests and answers: this is up to the client and its agent"
PASSED_ON = "the proxy offers no tool that the gate refuses, and passes on a call of one: the client runs it or not"
EXEMPT = {
    "what a turn needs joins its end": RUNS_NONE,
    "a forced tool is listed for its turn": RUNS_NONE,
    "the search leads to what is cut": RUNS_NONE,
    "the search may be misused": RUNS_NONE,
    "arguments may be no json": RUNS_NONE,
    "arguments may be no object": RUNS_NONE,
    "the search may be left out": PASSED_ON,
    "nothing that was read can run a tool": PASSED_ON,
    "what one agent tells another brings nothing": PASSED_ON,
    "handoffs": CLIENT,
    "approvals": CLIENT,
    "approvals through the search": CLIENT,
    "traces have the tools that ran": CLIENT,
}

HOOKS: dict[str, tuple[str, Any]] = {}
"""By the name of a worker: the url of its model, and its hook."""


class Workers(CustomLogger):
    """The hook of the worker that a request names: a proxy of its own for each would take half a minute."""

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: str) -> Any:
        data["api_base"], hook = HOOKS[data.pop("user")]
        return await hook.async_pre_call_hook(user_api_key_dict, cache, data, call_type)


gate_hook = Workers()


@cache
def proxy() -> str:
    """The address of the proxy."""
    folder = Path(tempfile.mkdtemp())
    (folder / "gating.py").write_text("from drivers.litellm import gate_hook")
    served = {"model": "openai/scripted", "api_base": "http://127.0.0.1:9/v1", "api_key": "none", "max_retries": 0}
    settings = {"callbacks": "gating.gate_hook"}
    config = {"model_list": [{"model_name": "scripted", "litellm_params": served}], "litellm_settings": settings}
    (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    os.environ["CONFIG_FILE_PATH"] = str(folder / "config.yaml")

    from litellm.proxy.proxy_server import app

    held = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=server.run, args=([held],), daemon=True).start()
    until = time.monotonic() + 240
    while not server.started and time.monotonic() < until:
        time.sleep(0.1)
    return f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def build(setup: Setup) -> tuple[str, Setup]:
    name = uuid.uuid4().hex
    HOOKS[name] = setup.url, ToolGate(setup.gate)
    return name, setup


def send(agent: tuple[str, Setup], turn: ChatTurn) -> Reply:
    name, setup = agent
    wire = httpx.Client(verify=False, timeout=60)  # reading the machine's certificates takes longer than the rest
    with OpenAI(base_url=proxy(), api_key=os.environ["LITELLM_MASTER_KEY"], max_retries=0, http_client=wire) as client:
        return answered(client, name, setup, turn)


def answered(client: OpenAI, worker: str, setup: Setup, turn: ChatTurn) -> Reply:
    tools = {f"{tool.server}_{tool.name}" if tool.server else tool.name: tool for tool in setup.tools}
    history = [*(turn.history or [{"role": "system", "content": setup.system}]), {"role": "user", "content": turn.said}]
    request: dict[str, Any] = {"tools": [function(name, tool) for name, tool in tools.items()], "user": worker}
    request["extra_headers"] = {"x-litellm-session-id": turn.conversation} if turn.conversation else {}
    if setup.structured:
        request["response_format"] = {"type": "json_object"}
    if turn.forced:
        request["tool_choice"] = {"type": "function", "function": {"name": turn.forced}}
    while True:
        message = asked(client, turn.stream, model="scripted", messages=history, **request)
        history.append(message)
        if not message.get("tool_calls"):
            return Reply(history, message["content"])
        request.pop("tool_choice", None)
        for call in message["tool_calls"]:
            made = call["function"]
            answer = tools[made["name"]].run(json.loads(made["arguments"]))
            history.append({"role": "tool", "tool_call_id": call["id"], "content": answer})


def asked(client: OpenAI, stream: bool, **request: Any) -> dict[str, Any]:
    if not stream:
        said = client.chat.completions.create(**request)
    else:
        with client.chat.completions.stream(**request) as events:
            said = events.until_done().get_final_completion()
    kept = said.choices[0].message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
    return {"content": None, **kept}


def function(name: str, tool: Any) -> dict[str, Any]:
    described = {"name": name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}
