"""The agents of OpenAI Agents in the situations, under each tracer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from openai import AsyncOpenAI

from camdf.integrations.openai_agents import ToolGate
from scripted import Call
from traced.situations import AGAIN, APPROVALS, STOPPED, TASK, Answer, Play
from traced.tracers import LANGSMITH_CLIENTS, instrumented, langfuse_client, mlflow_autolog

WITHOUT = {"edited": "a person approves of a call or rejects it, and cannot edit it"}
SCRIPTS = {"structured output": (Call("get_weather"), '{"response": {"text": "sun"}}')}
"""A structured answer is a text of a form here, not the call of a tool."""

set_trace_processors([])  # else the traces go to OpenAI


def run(play: Play, _: None) -> None:
    asyncio.run(_run(play))


async def _run(play: Play) -> None:
    model = OpenAIResponsesModel("scripted", AsyncOpenAI(base_url=play.url, api_key="none", max_retries=0))

    def send_mail() -> str:
        """Send a mail."""
        if not play.sends():
            raise ValueError("failed")
        return "sent"

    def agent(name: str, tools: list[Any], gate: str = "", **settings: Any) -> Any:
        return ToolGate(Agent(name=name, model=model, tools=tools, **settings), play.gate(gate or name))

    tools = [*map(function_tool, (play.get_weather, send_mail, play.read_file))]
    run = RunConfig(group_id="thread-1") if play.situation == "resumed" else RunConfig()
    run.tool_not_found_behavior = "return_error_to_model"
    if play.situation == "nested":
        below = agent("files", tools[2:]).as_tool("ask_files", "Ask the agent for files.")
        await Runner.run(agent("clerk", [tools[0], below]), TASK, run_config=run)
    elif play.situation == "streaming":
        async for _ in Runner.run_streamed(agent("clerk", tools), TASK, run_config=run).stream_events():
            pass
    elif play.situation == "structured output":
        await Runner.run(agent("clerk", tools, output_type=Answer), TASK, run_config=run)
    elif play.situation == "handoff":
        clerk = agent("clerk", tools[:2], handoffs=[agent("files", tools[2:])])
        await Runner.run(clerk, TASK, run_config=run)
    elif play.situation == "MCP":
        from agents.mcp import MCPServerStreamableHttp

        from traced.tool_servers import served

        with served() as url:
            async with MCPServerStreamableHttp({"url": url}) as server:
                await Runner.run(agent("clerk", [], mcp_servers=[server]), TASK, run_config=run)
    elif play.situation == "resumed":
        session = SQLiteSession("thread-1")
        await Runner.run(agent("clerk", tools), TASK, session=session, run_config=run)
        await Runner.run(agent("clerk", tools, "clerk again"), AGAIN, session=session, run_config=run)
    elif play.situation in STOPPED:
        mail = function_tool(play.waits, name_override="send_mail", failure_error_function=None)
        await stopped(play, agent("clerk", [tools[0], mail, tools[2]]), run)
    elif play.situation in APPROVALS:
        mail = function_tool(play.approved, name_override="send_mail", needs_approval=True)
        run.group_id = "thread-1"
        await approval(play, agent("clerk", [tools[0], mail]), run)
    else:
        await Runner.run(agent("clerk", tools), TASK, run_config=run)


async def stopped(play: Play, clerk: Any, run: RunConfig) -> None:
    if play.situation == "cancelled":
        await play.cancelled(Runner.run(clerk, TASK, run_config=run))
    elif play.situation in ("left after a tool", "left in the answer"):
        streamed = Runner.run_streamed(clerk, TASK, run_config=run)
        awaited = "tool_output" if play.situation == "left after a tool" else "response.output_text.delta"
        async for event in streamed.stream_events():
            if awaited in (getattr(event, "name", ""), getattr(getattr(event, "data", None), "type", "")):
                break
        streamed.cancel()
    else:
        await Runner.run(clerk, TASK, run_config=run, max_turns=2)


async def approval(play: Play, clerk: Any, run: RunConfig) -> None:
    waiting = await Runner.run(clerk, TASK, run_config=run)
    if play.situation != "unanswered":
        state = waiting.to_state()
        for call in waiting.interruptions:
            state.reject(call) if play.situation == "rejected" else state.approve(call)
        await Runner.run(clerk, state, run_config=run)


@contextmanager
def traced(tracer: str, file: Path) -> Iterator[None]:
    """Under a tracer."""
    if tracer == "OpenTelemetry":
        from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor as Traceloop

        with instrumented(Traceloop(), file):
            yield
    elif tracer == "OpenInference":
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        with instrumented(OpenAIAgentsInstrumentor(), file):
            yield
    elif tracer == "MLflow":
        with mlflow_autolog("openai", file):
            yield
    elif tracer in LANGSMITH_CLIENTS:
        from langsmith.wrappers import OpenAIAgentsTracingProcessor

        with LANGSMITH_CLIENTS[tracer](file) as client:
            set_trace_processors([OpenAIAgentsTracingProcessor(client)])
            yield
    elif tracer == "Langfuse":  # Langfuse has no tracer of its own for these agents and names this instrumentor
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        with langfuse_client(file) as client:
            OpenAIAgentsInstrumentor().instrument(tracer_provider=client.provider)
            yield
