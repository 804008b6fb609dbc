"""A gateway of FastMCP in the situations that a server knows, under each tracer.

FastMCP has no agents: the host is a loop of a few lines around OpenAI's client. It sends its history in the `_meta` of
a listing, and beside it the trace that it is in. What counts is that the gateway's decision is found in the host's run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.tools import Tool
from mcp.types import PaginatedRequestParams
from openai import AsyncOpenAI
from opentelemetry import propagate, trace

from camdf.integrations.fastmcp import ToolGate
from golden import openai_tool
from traced.situations import AGAIN, APPROVALS, STOPPED, TASK, TOOLS, Play
from traced.tool_servers import served
from traced.tracers import Spans, langfuse_client, langsmith_spans

AGENTS = "FastMCP has no agents"
WITHOUT = {
    "nested": AGENTS,
    "handoff": AGENTS,
    "structured output": AGENTS,
    **dict.fromkeys((*STOPPED, *APPROVALS), "FastMCP runs nothing: the host's program stops or asks"),
    "LangSmith OTel": "LangSmith sends FastMCP's own spans, as in the column before",
    "MLflow": "FastMCP records OpenTelemetry's spans, and MLflow keeps to spans of its own",
}
AgentSpan = Callable[[str], AbstractContextManager[Any]]
"""What opens the span of a run, by the tracer's own means."""


def gateway(play: Play, gate: str) -> FastMCP:
    def send_mail() -> str:
        if not play.sends():
            raise ValueError("failed")
        return "sent"

    made = FastMCP("gateway")
    for run in (play.get_weather, send_mail, play.read_file):
        made.add_tool(Tool.from_function(run, name=run.__name__, description=TOOLS[run.__name__]))
    made.add_middleware(ToolGate(play.gate(gate)))
    return made


def run(play: Play, agent_span: AgentSpan) -> None:
    asyncio.run(_run(play, agent_span))


async def _run(play: Play, agent_span: AgentSpan) -> None:
    history: list[dict[str, Any]] = []
    await _turn(play, agent_span, "clerk", TASK, history)
    if play.situation == "resumed":
        await _turn(play, agent_span, "clerk again", AGAIN, history)


async def _turn(play: Play, agent_span: AgentSpan, gate: str, task: str, history: list[dict[str, Any]]) -> None:
    """One run of the host."""
    history.append({"role": "user", "content": task})
    model = AsyncOpenAI(base_url=play.url, api_key="none", max_retries=0)
    with served(gateway(play, gate)) as url, agent_span(task):
        async with Client(url) as client:
            while True:
                meta: dict[str, Any] = {"camdf/messages": history}
                propagate.inject(meta)
                listed = (await client.session.list_tools(params=PaginatedRequestParams(_meta=meta))).tools
                tools = [openai_tool(tool.name, tool.description or "") for tool in listed]
                said = await _said(model, history, tools, play.situation == "streaming")
                history.append(said)
                if not said.get("tool_calls"):
                    return
                for call in said["tool_calls"]:
                    function = call["function"]
                    answer = await client.call_tool(
                        function["name"], json.loads(function["arguments"]), raise_on_error=False
                    )
                    history.append({"role": "tool", "tool_call_id": call["id"], "content": str(answer.content)})


async def _said(model: AsyncOpenAI, history: Any, tools: Any, streams: bool) -> dict[str, Any]:
    if not streams:
        answer = await model.chat.completions.create(model="scripted", messages=history, tools=tools)
        said: dict[str, Any] = answer.choices[0].message.model_dump(exclude_none=True)
        return said
    words, calls = "", []
    async for chunk in await model.chat.completions.create(
        model="scripted", messages=history, tools=tools, stream=True
    ):
        for choice in chunk.choices:
            words += choice.delta.content or ""
            calls += [call.model_dump(exclude={"index"}) for call in choice.delta.tool_calls or ()]
    return {"role": "assistant", "content": words, **({"tool_calls": calls} if calls else {})}


def genai(provider: Any) -> AgentSpan:
    """Spans under the GenAI conventions: FastMCP's own, the host's, and the model's by Traceloop."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    trace.set_tracer_provider(provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk", "gen_ai.conversation.id": "thread-1"}
    return lambda task: provider.get_tracer("host").start_as_current_span("invoke_agent clerk", attributes=told)


@contextmanager
def traced(tracer: str, file: Path) -> Iterator[AgentSpan]:
    """What opens the host's span under a tracer."""
    if tracer == "OpenTelemetry":
        spans = Spans()
        yield genai(spans.provider)
        spans.write(file)
    elif tracer == "OpenInference":
        from openinference.instrumentation import OITracer, TraceConfig, using_session
        from openinference.instrumentation.openai import OpenAIInstrumentor

        spans = Spans()
        trace.set_tracer_provider(spans.provider)
        OpenAIInstrumentor().instrument(tracer_provider=spans.provider)
        host = OITracer(spans.provider.get_tracer("host"), config=TraceConfig())

        @contextmanager
        def agent_span(task: str) -> Iterator[None]:
            with (
                using_session("thread-1"),
                host.start_as_current_span("clerk", openinference_span_kind="agent") as opened,
            ):
                opened.set_input(task)
                yield

        yield agent_span
        spans.write(file)
    elif tracer == "LangSmith":
        with langsmith_spans(file) as provider:
            yield genai(provider)
    elif tracer == "Langfuse":
        with langfuse_client(file) as client:
            yield genai(client.provider)
