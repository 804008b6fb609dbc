"""LangChain: a middleware that gives the model of an agent the tools that its task deserves.

    agent = create_agent(model, tools, middleware=[ToolGate(gate)])

The conversation is the thread (`thread_id` in the config) and, in a nested agent, the nodes that lead to it; a run
without a thread is a conversation of its own. The task is the last user message at the start of the run, so that what
other middleware writes into the history changes nothing. LangChain adds structured-output tools after this hook.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import uuid4

from camdf.errors import needs
from camdf.gate import Gate
from camdf.tools import forced_tools

with needs("langchain"):
    from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
    from langchain_core.messages import HumanMessage

HANDOFF = "__handoff_destination"
"""What langgraph-supervisor and langgraph-swarm write into the metadata of a tool that hands over to another agent."""


class GatedState(AgentState):
    """The agent's state, with what a run asks the gate: task and conversation."""

    camdf_asked: Annotated[dict[str, str], PrivateStateAttr]


class ToolGate(AgentMiddleware):
    """Hands the model the tools that `gate` keeps, in its order; tools the provider runs itself always pass.

    Tools that the history has called, a forced `tool_choice` and handoffs are kept. LangChain still executes a tool
    that was cut when the model calls it from memory; from then on it is in the history and therefore offered.
    """

    state_schema = GatedState

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        asked = next((m.text for m in reversed(state["messages"]) if isinstance(m, HumanMessage)), "")
        return {"camdf_asked": {"task": str(asked), "conversation": _conversation(runtime)}}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return self.before_agent(state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(request.override(tools=self.gate.decide(**_question(request)).tools))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        decision = await self.gate.adecide(**_question(request))
        return await handler(request.override(tools=decision.tools))


def _conversation(runtime: Any) -> str:
    info = getattr(runtime, "execution_info", None)
    if info is None or not info.thread_id:
        return uuid4().hex
    *outer, _ = info.checkpoint_ns.split("|")
    return "/".join([str(info.thread_id), *(node.partition(":")[0] for node in outer)])


def _question(request: Any) -> dict[str, Any]:
    called = [call["name"] for message in request.messages for call in getattr(message, "tool_calls", ())]
    choice = request.tool_choice
    forced = [choice] if isinstance(choice, str) else forced_tools(choice)
    handoffs = [tool.name for tool in request.tools if HANDOFF in (getattr(tool, "metadata", None) or {})]
    asked = request.state.get("camdf_asked") or {"task": ""}
    return {**asked, "tools": request.tools, "keep": [*called, *forced, *handoffs]}
