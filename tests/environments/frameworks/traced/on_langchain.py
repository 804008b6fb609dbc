"""LangChain's agents in the situations, under each tracer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from camdf.integrations.langchain import ToolGate
from traced.situations import AGAIN, APPROVALS, STOPPED, TASK, Answer, Play
from traced.tracers import LANGSMITH_CLIENTS, instrumented, langfuse_client, mlflow_autolog

WITHOUT: dict[str, str] = {}


def tools_of(play: Play) -> list[Any]:
    def send_mail() -> str:
        """Send a mail."""
        if not play.sends():
            raise ToolException("failed")
        return "sent"

    mail = tool(send_mail)
    mail.handle_tool_error = True
    return [tool(play.get_weather), mail, tool(play.read_file)]


def run(play: Play, callbacks: list[Any]) -> None:
    model = ChatOpenAI(model="scripted", base_url=play.url, api_key="none", max_retries=0)
    config: dict[str, Any] = {"callbacks": callbacks}

    def agent(name: str, tools: list[Any], gate: str = "", before: Sequence[Any] = (), **settings: Any) -> Any:
        middleware = [*before, ToolGate(play.gate(gate or name))]
        return create_agent(model, tools, name=name, middleware=middleware, **settings)

    def asked(text: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": text}]}

    tools = tools_of(play)
    if play.situation == "nested":
        files = agent("files", tools[2:])

        def ask_files(input: str) -> str:
            """Ask the agent for files."""
            return str(files.invoke(asked(input))["messages"][-1].content)

        agent("clerk", [tools[0], tool(ask_files)]).invoke(asked(TASK), config)
    elif play.situation == "streaming":
        for _ in agent("clerk", tools).stream(asked(TASK), config, stream_mode="messages"):
            pass
    elif play.situation == "structured output":
        agent("clerk", tools, response_format=ToolStrategy(Answer)).invoke(asked(TASK), config)
    elif play.situation == "handoff":
        from langgraph_swarm import create_handoff_tool, create_swarm

        clerk = agent("clerk", [*tools[:2], create_handoff_tool(agent_name="files", name="transfer_to_files")])
        swarm = create_swarm([clerk, agent("files", tools[2:])], default_active_agent="clerk")
        swarm.compile().invoke(asked(TASK), config)
    elif play.situation == "MCP":
        asyncio.run(over_mcp(play, agent, asked(TASK), config))
    elif play.situation == "resumed":
        saved, thread = InMemorySaver(), {**config, "configurable": {"thread_id": "thread-1"}}
        agent("clerk", tools, checkpointer=saved).invoke(asked(TASK), thread)
        agent("clerk", tools, "clerk again", checkpointer=saved).invoke(asked(AGAIN), thread)
    elif play.situation in STOPPED:
        asyncio.run(stopped(play, agent, [tools[0], tool("send_mail")(play.waits), tools[2]], asked(TASK), config))
    elif play.situation in APPROVALS:
        approval(play, agent, [tools[0], tool("send_mail")(play.approved), tools[2]], asked(TASK), config)
    else:
        agent("clerk", tools).invoke(asked(TASK), config)


async def stopped(play: Play, agent: Any, tools: list[Any], asked: Any, config: Any) -> None:
    clerk = agent("clerk", tools, before=[ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")])
    if play.situation == "cancelled":
        await play.cancelled(clerk.ainvoke(asked, config))
    elif play.situation == "left after a tool":
        async for update in clerk.astream(asked, config, stream_mode="updates"):
            if "tools" in update:
                break
    elif play.situation == "left in the answer":
        async for chunk, _ in clerk.astream(asked, config, stream_mode="messages"):
            if chunk.type == "AIMessageChunk" and chunk.content:
                break
    else:
        await clerk.ainvoke(asked, config)


def approval(play: Play, agent: Any, tools: list[Any], asked: Any, config: Any) -> None:
    person = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    clerk = agent("clerk", tools, before=[person], checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "thread-1"}}
    clerk.invoke(asked, thread)
    answers = {
        "approved": {"type": "approve"},
        "edited": {"type": "edit", "edited_action": {"name": "send_mail", "args": {"to": "Eve"}}},
        "rejected": {"type": "reject", "message": "no"},
    }
    if play.situation in answers:
        clerk.invoke(Command(resume={"decisions": [answers[play.situation]]}), thread)


async def over_mcp(play: Play, agent: Any, asked: Any, config: Any) -> None:
    from fastmcp import Client
    from langchain_mcp_adapters.tools import load_mcp_tools

    from traced.tool_servers import server

    async with Client(server()) as client:
        await agent("clerk", await load_mcp_tools(client.session)).ainvoke(asked, config)


@contextmanager
def traced(tracer: str, file: Path) -> Iterator[list[Any]]:
    """The callbacks with which agents run under a tracer; most need none."""
    if tracer == "OpenTelemetry":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        with instrumented(LangchainInstrumentor(), file):
            yield []
    elif tracer == "OpenInference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        with instrumented(LangChainInstrumentor(), file):
            yield []
    elif tracer == "MLflow":
        with mlflow_autolog("langchain", file):
            yield []
    elif tracer in LANGSMITH_CLIENTS:
        from langchain_core.tracers import LangChainTracer

        os.environ["LANGSMITH_TRACING"] = "false"
        with LANGSMITH_CLIENTS[tracer](file) as client:
            yield [LangChainTracer(client=client, project_name="traces")]
    elif tracer == "Langfuse":
        from langfuse.langchain import CallbackHandler

        with langfuse_client(file) as client:
            yield [CallbackHandler(public_key=client.key)]
