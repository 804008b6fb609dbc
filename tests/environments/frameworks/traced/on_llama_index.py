"""LlamaIndex's agents in the situations, under each tracer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from camdf.integrations.llama_index import ToolGate
from scripted import Call
from traced.situations import AGAIN, APPROVALS, STOPPED, TASK, Play
from traced.tracers import instrumented, langfuse_client, mlflow_autolog

WITHOUT = {
    **dict.fromkeys(("LangSmith", "LangSmith OTel"), "LangSmith has no tracer for LlamaIndex"),
    "cancelled": "a workflow that is cancelled did not end here within 150 seconds, so it is not measured",
    **dict.fromkeys(APPROVALS, "in LlamaIndex a program asks for approval by itself, in a tool"),
}
SCRIPTS = {"handoff": (Call("handoff", {"to_agent": "files", "reason": "files"}), Call("read_file"), "read")}
"""The handoff of a workflow is one tool, `handoff`, whose argument names the agent."""


class Answer(BaseModel):
    """The answer in a form of its own."""

    text: str


def run(play: Play, _: None) -> None:
    asyncio.run(_run(play))


async def _run(play: Play) -> None:
    model = OpenAILike(
        api_base=play.url,
        api_key="none",
        model="scripted",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )

    def send_mail() -> str:
        """Send a mail."""
        if not play.sends():
            raise ValueError("failed")
        return "sent"

    def agent(name: str, tools: list[Any], gate: str = "", **settings: Any) -> Any:
        settings.setdefault("streaming", play.situation == "streaming")
        retriever = ToolGate(play.gate(gate or name), tools)
        return FunctionAgent(name=name, description=name, tool_retriever=retriever, llm=model, **settings)

    tools = [FunctionTool.from_defaults(each) for each in (play.get_weather, send_mail, play.read_file)]
    if play.situation == "nested":
        files = agent("files", tools[2:])

        async def ask_files(input: str) -> str:
            """Ask the agent for files."""
            return str(await files.run(input))

        await agent("clerk", [tools[0], FunctionTool.from_defaults(async_fn=ask_files)]).run(TASK)
    elif play.situation == "streaming":
        handler = agent("clerk", tools).run(TASK)
        async for _ in handler.stream_events():
            pass
        await handler
    elif play.situation == "structured output":
        await agent("clerk", tools, output_cls=Answer).run(TASK)
    elif play.situation == "handoff":
        clerk = agent("clerk", tools[:2], can_handoff_to=["files"])
        await AgentWorkflow(agents=[clerk, agent("files", tools[2:])], root_agent="clerk").run(TASK)
    elif play.situation == "MCP":
        from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

        from traced.tool_servers import served

        with served() as url:
            found = await McpToolSpec(BasicMCPClient(url)).to_tool_list_async()
            await agent("clerk", found).run(TASK)
    elif play.situation == "resumed":
        memory = Memory.from_defaults(session_id="thread-1")
        await agent("clerk", tools).run(TASK, memory=memory)
        await agent("clerk", tools, "clerk again").run(AGAIN, memory=memory)
    elif play.situation in STOPPED:
        mail = FunctionTool.from_defaults(async_fn=play.waits, name="send_mail", description="Send a mail.")
        await stopped(play, agent("clerk", [tools[0], mail, tools[2]], streaming=True))
    else:
        await agent("clerk", tools).run(TASK)


async def stopped(play: Play, clerk: Any) -> None:
    async def whole() -> None:
        await clerk.run(TASK, max_iterations=2)

    if play.situation == "cancelled":
        await play.cancelled(whole())
    elif play.situation in ("left after a tool", "left in the answer"):
        awaited = ToolCallResult if play.situation == "left after a tool" else AgentStream
        async for event in clerk.run(TASK).stream_events():
            if isinstance(event, awaited) and (awaited is ToolCallResult or event.delta):
                break
    else:
        await whole()


@contextmanager
def traced(tracer: str, file: Path) -> Iterator[None]:
    """Under a tracer."""
    if tracer == "OpenTelemetry":
        from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor as Traceloop

        with instrumented(Traceloop(), file):
            yield
    elif tracer == "OpenInference":
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        with instrumented(LlamaIndexInstrumentor(), file):
            yield
    elif tracer == "MLflow":
        with mlflow_autolog("llama_index", file):
            yield
    elif tracer == "Langfuse":  # Langfuse has no tracer of its own for LlamaIndex and names this instrumentor
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        with langfuse_client(file) as client:
            LlamaIndexInstrumentor().instrument(tracer_provider=client.provider)
            yield
