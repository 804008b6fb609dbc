"""LangChain for the conformance suite: a checkpointer holds the history, by thread."""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from typing import Any

import httpx
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_core.tracers import LangChainTracer
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langsmith import Client
from pydantic import BaseModel

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.langchain import HANDOFF, ToolGate

EXEMPT = {
    "arguments may be no object": "langchain-openai reads arguments that are a list or a text into an AIMessage, which "
    "refuses them: the run raises before any middleware has an answer to read, with a gate or without",
}

STORED = InMemorySaver()
"""The database of all workers: a history is the name of a thread in it."""

FORCED: ContextVar[str | None] = ContextVar("forced", default=None)


class Answer(BaseModel):
    """The structured answer."""

    answer: str


class Force(AgentMiddleware):
    """The first model request of a turn calls what the client insists on."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        first, name = isinstance(request.messages[-1], HumanMessage), FORCED.get()
        return handler(request.override(tool_choice=name) if first and name else request)


def build(setup: Setup) -> Any:
    """A graph is compiled once a worker: LangGraph makes a class of each tool, which takes seconds for hundreds."""
    wire = httpx.Client(verify=False)  # reading the machine's certificates takes longer than the rest
    model = ChatOpenAI(base_url=setup.url, api_key="none", model="scripted", max_retries=0, http_client=wire)
    approvals = {tool.name: True for tool in setup.tools if tool.needs_approval}
    tools = [native(tool) for tool in setup.tools]
    if setup.colleague:
        tools.append(handoff(create_agent(model, [], system_prompt=f"You are {setup.colleague}."), setup.colleague))
    agent = create_agent(
        model,
        tools,
        middleware=[
            Force(),
            ToolGate(setup.gate, tool_search=setup.tool_search),
            *([HumanInTheLoopMiddleware(approvals)] if approvals else ()),
        ],
        system_prompt=setup.system,
        response_format=ToolStrategy(Answer) if setup.structured else None,
        checkpointer=STORED,
    )
    if not setup.traced:
        return agent
    langsmith = Client(tracing_mode="otel", api_key="none")  # LangChain's own OpenTelemetry
    return agent.with_config(callbacks=[LangChainTracer(client=langsmith)])


def native(tool: RunnableTool) -> StructuredTool:
    def run(**arguments: Any) -> str:
        return tool.run(arguments)

    name = f"{tool.server}_{tool.name}" if tool.server else tool.name  # as tool_name_prefix of the MCP adapters does
    return StructuredTool.from_function(run, name=name, description=tool.description, args_schema=dict(tool.parameters))


def handoff(colleague: Any, name: str) -> StructuredTool:
    """As langgraph-supervisor and langgraph-swarm mark theirs."""

    def transfer() -> str:
        return str(colleague.invoke({"messages": [HumanMessage("Go on.")]})["messages"][-1].text)

    return StructuredTool.from_function(
        transfer, name=f"transfer_to_{name}", description="Hand over.", metadata={HANDOFF: name}
    )


def send(agent: Any, turn: ChatTurn) -> Reply:
    thread = turn.history or turn.conversation or uuid.uuid4().hex
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 100}
    asked: Any = {"messages": [HumanMessage(turn.said)]}
    if turn.approve:
        asked = Command(resume={"decisions": [{"type": "approve"}]})
    FORCED.set(turn.forced)
    if turn.stream:
        for _ in agent.stream(asked, config, stream_mode="messages"):
            pass
        result = agent.get_state(config).values
    else:
        result = agent.invoke(asked, config)
    for tracer in (agent.config or {}).get("callbacks") or ():
        tracer.client.flush()
    if "__interrupt__" in result:
        return Reply(thread, waits_for=result["__interrupt__"])
    answer = result.get("structured_response")
    return Reply(thread, answer.model_dump_json() if answer else result["messages"][-1].text)
