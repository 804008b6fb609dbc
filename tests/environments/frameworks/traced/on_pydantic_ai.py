"""pydantic-ai's agents in the situations, under each tracer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolOutput,
    UsageLimits,
)
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import FunctionToolResultEvent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from camdf.integrations.pydantic_ai import ToolGate
from traced.situations import AGAIN, APPROVALS, STOPPED, TASK, Answer, Play
from traced.tracers import Spans, langfuse_client, langsmith_spans, mlflow_autolog

WITHOUT = {
    "handoff": "pydantic-ai has no handoffs; an agent that calls another is nested",
    "LangSmith OTel": "LangSmith sends pydantic-ai's own spans, as in the column before",
}


def run(play: Play, capabilities: list[Any]) -> None:
    asyncio.run(_run(play, capabilities))


async def _run(play: Play, capabilities: list[Any]) -> None:
    client = AsyncOpenAI(base_url=play.url, api_key="none", max_retries=0)
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))

    def send_mail() -> str:
        """Send a mail."""
        if not play.sends():
            raise ModelRetry("failed")
        return "sent"

    def agent(name: str, tools: list[Any], gate: str = "", **settings: Any) -> Any:
        gates = [ToolGate(play.gate(gate or name))]
        return Agent(model, name=name, tools=tools, capabilities=[*gates, *capabilities], retries=2, **settings)

    tools = [play.get_weather, send_mail, play.read_file]
    if play.situation == "nested":
        files = agent("files", [play.read_file])

        async def ask_files(input: str) -> str:
            """Ask the agent for files."""
            return str((await files.run(input)).output)

        await agent("clerk", [play.get_weather, ask_files]).run(TASK)
    elif play.situation == "streaming":
        async with agent("clerk", tools).run_stream(TASK) as streamed:
            await streamed.get_output()
    elif play.situation == "structured output":
        await agent("clerk", tools, output_type=ToolOutput(Answer, name="Answer")).run(TASK)
    elif play.situation == "MCP":
        from pydantic_ai.mcp import MCPToolset

        from traced.tool_servers import server

        await agent("clerk", [], toolsets=[MCPToolset(server())]).run(TASK)
    elif play.situation == "resumed":
        first = await agent("clerk", tools).run(TASK)
        await agent("clerk", tools, "clerk again").run(AGAIN, message_history=first.all_messages())
    elif play.situation in STOPPED:
        await stopped(play, agent("clerk", [play.get_weather, Tool(play.waits, name="send_mail"), play.read_file]))
    elif play.situation in APPROVALS:
        mail = Tool(play.approved, name="send_mail", requires_approval=True)
        await approval(play, agent("clerk", [play.get_weather, mail], output_type=[str, DeferredToolRequests]))
    else:
        await agent("clerk", tools).run(TASK)


async def stopped(play: Play, clerk: Any) -> None:
    if play.situation == "cancelled":
        await play.cancelled(clerk.run(TASK))
    elif play.situation == "left after a tool":
        async with clerk.run_stream_events(TASK) as events:
            async for event in events:
                if isinstance(event, FunctionToolResultEvent):
                    break
    elif play.situation == "left in the answer":
        async with clerk.run_stream(TASK) as streamed:
            async for _ in streamed.stream_text(delta=True, debounce_by=None):
                break
    else:
        await clerk.run(TASK, usage_limits=UsageLimits(request_limit=2))


async def approval(play: Play, clerk: Any) -> None:
    waiting = await clerk.run(TASK)
    answers = {
        "approved": True,
        "edited": ToolApproved(override_args={"to": "Eve"}),
        "rejected": ToolDenied("no"),
    }
    if play.situation in answers:
        answer = answers[play.situation]
        results = DeferredToolResults(approvals={call.tool_call_id: answer for call in waiting.output.approvals})
        await clerk.run(message_history=waiting.all_messages(), deferred_tool_results=results)


def recording(provider: Any) -> list[Any]:
    return [Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))]


@contextmanager
def traced(tracer: str, file: Path) -> Iterator[list[Any]]:
    """The capabilities with which agents run under a tracer."""
    if tracer == "OpenTelemetry":
        spans = Spans()
        yield recording(spans.provider)
        spans.write(file)
    elif tracer == "OpenInference":
        from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

        spans = Spans(OpenInferenceSpanProcessor())
        yield recording(spans.provider)
        spans.write(file)
    elif tracer == "MLflow":
        with mlflow_autolog("pydantic_ai", file):
            yield []
    elif tracer == "LangSmith":
        with langsmith_spans(file) as provider:
            yield recording(provider)
    elif tracer == "Langfuse":
        with langfuse_client(file) as client:
            yield recording(client.provider)
