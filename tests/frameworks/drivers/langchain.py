"""LangChain for the conformance suite: a checkpointer holds the history, by thread."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from camdf.integrations.checks import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.langchain import HANDOFF, ToolGate

EXEMPT = {
    "arguments may be no json": "langchain-openai raises at arguments that are JSON and no object, before a middleware "
    "sees them",
}


class Answer(BaseModel):
    """The structured answer."""

    answer: str


class Force(AgentMiddleware):
    """The first model request of a turn calls what the client insists on."""

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name_of_tool = name

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        first = isinstance(request.messages[-1], HumanMessage)
        return handler(request.override(tool_choice=self.name_of_tool) if first and self.name_of_tool else request)


def build(setup: Setup) -> Setup:
    return setup


def agent_of(setup: Setup, turn: ChatTurn, saver: InMemorySaver) -> Any:
    wire = httpx.Client(verify=False)  # reading the machine's certificates takes longer than the rest
    model = ChatOpenAI(
        base_url=setup.url, api_key="none", model="scripted", max_retries=0, streaming=turn.stream, http_client=wire
    )
    approvals = {tool.name: True for tool in setup.tools if tool.needs_approval}
    tools = [native(tool) for tool in setup.tools]
    if setup.colleague:
        tools.append(handoff(create_agent(model, [], system_prompt=f"You are {setup.colleague}."), setup.colleague))
    return create_agent(
        model,
        tools,
        middleware=[
            Force(turn.forced),
            ToolGate(setup.gate, tool_search=setup.tool_search),
            *([HumanInTheLoopMiddleware(approvals)] if approvals else ()),
        ],
        system_prompt=setup.system,
        response_format=ToolStrategy(Answer) if setup.structured else None,
        checkpointer=saver,
    )


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


def send(setup: Setup, turn: ChatTurn) -> Reply:
    saver, thread = turn.history or (InMemorySaver(), turn.conversation or uuid.uuid4().hex)
    agent, config = agent_of(setup, turn, saver), {"configurable": {"thread_id": thread}, "recursion_limit": 100}
    asked: Any = {"messages": [HumanMessage(turn.said)]}
    if turn.approve:
        asked = Command(resume={"decisions": [{"type": "approve"}]})
    if turn.stream:
        for _ in agent.stream(asked, config, stream_mode="messages"):
            pass
        result = agent.get_state(config).values
    else:
        result = agent.invoke(asked, config)
    if "__interrupt__" in result:
        return Reply((saver, thread), waits_for=result["__interrupt__"])
    answer = result.get("structured_response")
    return Reply((saver, thread), answer.model_dump_json() if answer else result["messages"][-1].text)
