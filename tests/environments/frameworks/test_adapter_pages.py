"""The page and the example of each of the newer adapters, and what it reads that its framework does not promise."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from drivers import FRAMEWORKS

from camdf.gate import Gate
from pages import shows

ROOT = Path(__file__).parents[3]
NEEDED = {
    "google_adk": ("google-adk", "google.adk.plugins.base_plugin"),
    "strands": ("strands", "strands.hooks"),
    "agent_framework": ("agent-framework", "agent_framework"),
    "haystack": ("haystack", "haystack.tools"),
}
"""By the adapter: its extra, and a module that it needs."""

INSTALLED = [name for name in NEEDED if FRAMEWORKS[name].version]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("name", INSTALLED)
def test_the_page_shows_what_the_example_prints(name: str) -> None:
    assert shows(ROOT / "docs" / "integrations" / f"{name}.md", ROOT / "examples" / f"with_{name}.py")


@pytest.mark.parametrize("name", INSTALLED)
def test_a_missing_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, module = NEEDED[name]
    monkeypatch.setitem(sys.modules, module, None)
    spec = importlib.util.find_spec(f"camdf.integrations.{name}")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=rf"camdf\[{extra}\]"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("name", NEEDED)
def test_an_adapter_is_read_in_one_sitting(name: str) -> None:
    """At most 158 lines, without blank ones, docstrings and imports; binding the agents that a tool starts took 8."""
    source = (ROOT / "src" / "camdf" / "integrations" / f"{name}.py").read_text(encoding="utf-8")
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr | ast.Import | ast.ImportFrom)]
    left_out = {
        line
        for node in texts
        if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = [line for at, line in enumerate(source.splitlines(), 1) if line.strip() and at not in left_out]
    assert len(code) <= 158


def watch_google_adk() -> None:
    from google.adk.agents.llm.task._finish_task_tool import FinishTaskTool
    from google.adk.flows.llm_flows.context import _fencing
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.set_model_response_tool import SetModelResponseTool
    from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
    from google.genai import types

    from camdf.integrations.google_adk import NOT_THE_USER, OWN

    assert {kind.__name__ for kind in (FinishTaskTool, SetModelResponseTool, TransferToAgentTool)} == set(OWN)
    assert _fencing.OTHER_AGENT_CONTEXT_PREAMBLE.startswith(NOT_THE_USER)
    assert _fencing._INSTRUCTION_BEGIN.startswith(NOT_THE_USER)
    assert {"tools_dict", "contents", "config", "previous_interaction_id"} <= set(LlmRequest.model_fields)
    assert "part_metadata" in types.Part.model_fields


def watch_strands() -> None:
    from strands import Agent
    from strands.models.model import Model
    from strands.multiagent import swarm
    from strands.tools.executors import _executor

    from camdf.integrations.strands import HANDOFF

    assert "_session_manager" in inspect.getsource(Agent.__init__)
    assert hasattr(Model, "stateful")
    assert f"def {HANDOFF}(" in inspect.getsource(swarm)
    assert "_lookup_tool(agent, tool_use" in inspect.getsource(_executor)


def watch_agent_framework() -> None:
    from agent_framework import ChatContext
    from agent_framework_orchestrations._handoff import get_handoff_tool_name

    from camdf.integrations.agent_framework import HANDOFF

    assert get_handoff_tool_name("billing") == f"{HANDOFF}billing"
    assert "stream_result_hooks" in inspect.signature(ChatContext).parameters


def watch_haystack() -> None:
    from haystack.components.agents import Agent
    from haystack.dataclasses import ToolCall

    assert "inspect.signature(chat_generator.run)" in inspect.getsource(Agent.__init__)
    assert "extra" in ToolCall.__dataclass_fields__


@pytest.mark.parametrize("name", INSTALLED)
def test_the_framework_has_what_the_adapter_reads_unpromised(name: str) -> None:
    globals()[f"watch_{name}"]()


@pytest.mark.skipif("google_adk" not in INSTALLED, reason="another environment has it")
def test_the_gate_is_told_the_user_of_an_adk_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    from camdf.integrations.google_adk import ToolGate

    class Agreeing(BaseLlm):  # type: ignore[misc]
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Fine.")]))

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sun in {city}"

    asked: list[str] = []
    gate = Gate.start([get_weather])
    adecide = gate.adecide

    async def listening(*given: Any, user: str = "", **others: Any) -> Any:
        asked.append(user)
        return await adecide(*given, user=user, **others)

    async def run() -> None:
        sessions = InMemorySessionService()
        agent = LlmAgent(name="agent", model=Agreeing(model="agreeing"), tools=[get_weather])
        runner = Runner(app=App(name="app", root_agent=agent, plugins=[ToolGate(gate)]), session_service=sessions)
        session = await sessions.create_session(app_name="app", user_id="ada")
        message = types.Content(role="user", parts=[types.Part(text="Sun in Bern?")])
        async for _ in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            pass

    monkeypatch.setattr(gate, "adecide", listening)
    asyncio.run(run())
    assert asked == ["ada"]
