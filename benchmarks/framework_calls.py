"""What a model call costs in the frameworks themselves, with and without a gate, as JSON. Needs them installed.

One agent run with fifty tools and one model call, against a model on loopback that answers at once; 'own time' is what
the run takes beyond the same request sent plainly. `python benchmarks/gate.py --frameworks PYTHON` runs this file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from golden import golden_gate
from scripted import ScriptedModel

TOOLS = 50
RUNS = 30
TASK = "Do the thing number 7 for a customer"


def seconds(run: Callable[[], object]) -> float:
    """The best of many runs, after two that warm up."""
    best = float("inf")
    for number in range(RUNS + 2):
        start = time.perf_counter()
        run()
        if number >= 2:
            best = min(best, time.perf_counter() - start)
    return best


def plain_request(url: str) -> Callable[[], object]:
    """The floor: the same fifty tools in one POST."""
    tools = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": {}}} for i in range(TOOLS)]
    body = json.dumps({"messages": [{"role": "user", "content": TASK}], "tools": tools}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    return lambda: urllib.request.urlopen(request, timeout=10).read()


def langchain(url: str, gated: bool) -> Callable[[], object]:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    from camdf.integrations.langchain import ToolGate

    tools = [StructuredTool.from_function(_run, name=f"tool_{i}", description=_text(i)) for i in range(TOOLS)]
    model = ChatOpenAI(model="scripted", base_url=url, api_key="none")
    agent = create_agent(model, tools, middleware=[ToolGate(golden_gate())] if gated else [])
    return lambda: agent.invoke({"messages": [("user", TASK)]})


def pydantic_ai(url: str, gated: bool) -> Callable[[], object]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import Tool

    from camdf.integrations.pydantic_ai import ToolGate

    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
    tools = [Tool(_run, name=f"tool_{i}", description=_text(i)) for i in range(TOOLS)]
    agent = Agent(model, tools=tools, capabilities=[ToolGate(golden_gate())] if gated else [])
    return lambda: agent.run_sync(TASK)


def openai_agents(url: str, gated: bool) -> Callable[[], object]:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    from camdf.integrations.openai_agents import ToolGate

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("scripted", AsyncOpenAI(base_url=url, api_key="none"))
    tools = [function_tool(_run, name_override=f"tool_{i}", description_override=_text(i)) for i in range(TOOLS)]
    agent = Agent(name="a", model=model, tools=tools)
    chosen = ToolGate(agent, golden_gate()) if gated else agent
    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(Runner.run(chosen, TASK))


def _text(number: int) -> str:
    return f"Does the thing number {number} for a customer and says how it went."


def _run() -> str:
    """What every tool does."""
    return "ran"


def measure() -> dict[str, float]:
    logging.disable(logging.CRITICAL)
    found: dict[str, float] = {}
    makers: dict[str, Callable[[str, bool], Callable[[], Any]]] = {
        "LangChain": langchain,
        "pydantic-ai": pydantic_ai,
        "OpenAI Agents": openai_agents,
    }
    with ScriptedModel() as model:
        floor = seconds(plain_request(model.url))
        for name, make in makers.items():
            without, with_gate = (seconds(make(model.url, gated)) for gated in (False, True))
            found[f"{name}: own time of a model call, {TOOLS} tools, microseconds"] = (without - floor) * 1e6
            found[f"{name}: the same with a gate, microseconds"] = (with_gate - floor) * 1e6
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
