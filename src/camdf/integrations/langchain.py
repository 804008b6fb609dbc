"""LangChain: a middleware that gives the model of an agent the tools that its conversation deserves.

    agent = create_agent(model, tools, middleware=[ToolGate(gate)])

The conversation is the agent's messages: with a thread, without one, on any worker. A turn of the user is a message
that was there when a run began. What other middleware writes into the history during a run is none, except a summary
that takes the place of the turns. LangChain adds structured-output tools after this hook.

With a tool search, LangChain and its other middleware see the tool that a `call_tool` means, called by its own name;
the model sees the `call_tool` that it wrote.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Any

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.lists import allowed_choice, has_search
from camdf.gate.privilege import running_for
from camdf.gate.telemetry import EVENT
from camdf.gate.tool_search import CALL, FIND, ToolCall, fits, listing, meant, query_of
from camdf.gate.turns import SUMMARY
from camdf.integrations.chat import chat_message
from camdf.runtime.settings import checked_setting, names
from camdf.tools import Tool, forced_tools, from_servers

with needs("langchain"):
    from langchain.agents.middleware.types import AgentMiddleware, AgentState, ExtendedModelResponse, PrivateStateAttr
    from langchain.tools import ToolRuntime
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import StructuredTool
    from langchain_core.tracers.context import register_configure_hook
    from langgraph.config import get_config
    from langgraph.types import Command

HANDOFF = "__handoff_destination"
"""What langgraph-supervisor and langgraph-swarm write into the metadata of a tool that hands over to another agent. An
MCP server can write it too: it is not believed of a tool whose schema came over a wire."""

THROUGH = "camdf_through_the_search"
"""Where the metadata of a message names the calls that the model wrote as a `call_tool`."""

SLIPS = "camdf_slips"
"""Where it has what to answer to those that mean no tool."""


async def _do_nothing(_: None) -> None:
    pass


STEP: Any = RunnableLambda(lambda _: None, _do_nothing, name=EVENT)
"""A step of a run that does nothing: LangChain's tracers keep its metadata, which is a decision."""


class _AsWritten(BaseCallbackHandler):
    """The arguments of streamed calls as the model wrote them: LangChain completes those that were cut off."""

    def __init__(self) -> None:
        self.texts: dict[Any, str] = {}
        self._ids: dict[Any, Any] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        for part in getattr(getattr(chunk, "message", None), "tool_call_chunks", ()):
            key = self._ids.setdefault(part["index"], part["id"])
            self.texts[key] = self.texts.get(key, "") + (part["args"] or "")


WRITTEN: ContextVar[_AsWritten | None] = ContextVar("camdf_as_written", default=None)
register_configure_hook(WRITTEN, inheritable=False)

ROLES = {"human": "user", "ai": "assistant", "tool": "tool"}


class GatedState(AgentState):
    """The agent's state, with which messages are the user's and which tools the tool search leads to."""

    camdf_turns: Annotated[list[str], PrivateStateAttr]
    """Ids of the user's messages, as the run began."""

    camdf_others: Annotated[list[str], PrivateStateAttr]
    """Ids of messages under the user's name that middleware wrote in earlier runs."""

    camdf_behind: Annotated[list[str], PrivateStateAttr]
    """Names of the tools of the last model request, which other middleware may have changed before it came here."""

    camdf_may_run: Annotated[list[str], PrivateStateAttr]
    """The tools that may run since then, where the gate has a privilege."""


class ToolGate(AgentMiddleware):
    """Hands the model the tools that `gate` keeps, in its order; tools the provider runs itself always pass.

    Tools that the history has called, a forced `tool_choice`, handoffs and what is named in `keep` are kept. `servers`
    tells which tools come from which MCP server, as `{"mail": await client.get_tools(server_name="mail")}`.
    `tool_search` adds `find_tool` and `call_tool` where tools are cut. A cut tool that the model calls from memory
    runs, unless the gate has a privilege: then only what may run does, and any other call is answered in words.
    """

    state_schema = GatedState

    def __init__(
        self,
        gate: Gate,
        *,
        tool_search: bool = True,
        servers: Mapping[str, Sequence[Any]] | None = None,
        keep: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.gate = gate
        self.keep = checked_setting("ToolGate", "keep", keep, names)
        self._from_servers = {id(served.tool): served for served in from_servers(servers or {})}
        self.tools = []
        if tool_search:
            self.tools = [_search_tool(FIND, self._find), _search_tool(CALL, _answered)]

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        others = set(state.get("camdf_others") or ())
        return {"camdf_turns": [key for key in _human_ids(state) if key not in others]}

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        turns = set(state["camdf_turns"])
        return {"camdf_others": [key for key in _human_ids(state) if key not in turns]}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        request = self._without_tool_search(request)
        decision = self.gate.decide(**self._question(request))
        with suppress(Exception):  # a broken tracer is no reason to fail
            STEP.invoke(None, {"metadata": dict(decision.event())})
        WRITTEN.set(_AsWritten())
        return self._response_as_meant(request, decision, handler(self._gated(request, decision)))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        request = self._without_tool_search(request)
        decision = await self.gate.adecide(**self._question(request))
        with suppress(Exception):
            await STEP.ainvoke(None, {"metadata": dict(decision.event())})
        WRITTEN.set(_AsWritten())
        return self._response_as_meant(request, decision, await handler(self._gated(request, decision)))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        with running_for(self.gate.privilege, request.state.get("camdf_may_run")):
            return self._refusal(request) or handler(self._with_own_arguments(request))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        with running_for(self.gate.privilege, request.state.get("camdf_may_run")):
            return self._refusal(request) or await handler(self._with_own_arguments(request))

    def _refusal(self, request: Any) -> Any:
        """The answer to a call that may not run, whatever way the model took; None where it may.

        Other middleware may run a tool that LangChain does not know: that has its name alone.
        """
        if self._is_own(request.tool):
            return None
        call = request.tool_call
        tool = self._with_server(request.tool or Tool(call["name"]))
        words = self.gate.refusal(tool, request.state.get("camdf_may_run"), call["args"])
        if not words:
            return None
        return ToolMessage(words, name=call["name"], tool_call_id=call["id"], status="error")

    def _with_own_arguments(self, request: Any) -> Any:
        """A call of the tool search with what its two functions take, whatever the model wrote."""
        if not self._is_own(request.tool):
            return request
        call = request.tool_call
        if call["name"] == FIND.name:
            taken = {"query": query_of(call["args"])}
        else:
            told = (message.response_metadata.get(SLIPS) or {} for message in reversed(request.state["messages"]))
            words = next((slips[call["id"]] for slips in told if call["id"] in slips), None)
            taken = {"words": words or str(meant(call["args"], {}))}
        return request.override(tool_call={**call, "args": taken})

    def _without_tool_search(self, request: Any) -> Any:
        """LangChain lists the tools of a middleware first."""
        return request.override(tools=[tool for tool in request.tools if not self._is_own(tool)])

    def _question(self, request: Any) -> dict[str, Any]:
        tool_search = self._has_tool_search(request)
        choice = request.tool_choice
        info = getattr(request.runtime, "execution_info", None)
        return {
            "task": _history(request.state, tool_search),
            "tools": self._with_servers(request.tools),
            "conversation": getattr(info, "thread_id", None),
            "user": _user_of_run(),
            "keep": [*self.keep, *(tool.name for tool in request.tools if _hands_over(tool))],
            "forced": [choice] if isinstance(choice, str) else forced_tools(choice),
            "tool_search": tool_search,
            "takes_messages": set(_human_ids(request.state)) <= {message.id for message in request.messages},
        }

    def _with_servers(self, tools: list[Any]) -> list[Any]:
        """The tools with the servers that they come from."""
        return [self._with_server(tool) for tool in tools]

    def _with_server(self, tool: Any) -> Any:
        """Servers are told by identity, since a server gives its tools any name."""
        return self._from_servers.get(id(tool), tool)

    def _is_own(self, tool: Any) -> bool:
        """Whether it is a tool of the tool search."""
        return any(tool is own for own in self.tools)

    def _has_tool_search(self, request: Any) -> bool:
        return bool(self.tools) and fits(self.gate.mode, _tool_names(request))

    def _gated(self, request: Any, decision: GateDecision) -> Any:
        """The request as the model gets it."""
        tools = decision.head
        if not decision.cut and not decision.joined:
            return request.override(tools=tools)
        if decision.mode == "allow" and _can_allow(request):
            choice = "required" if request.tool_choice == "any" else request.tool_choice
            viewed, _ = self.gate.by_key(self._with_servers(tools))
            kept = [viewed[key].name for key in decision.kept]
            allowed = allowed_choice(kept, choice, responses=bool(request.model.use_responses_api))
            return request.override(tools=tools, tool_choice=allowed)
        if decision.mode == "defer" and has_search(tools):
            loaded = len(decision.kept)
            return request.override(tools=[*tools[:loaded], *map(_deferred_tool, tools[loaded:])])
        if decision.needs_tool_search and self._has_tool_search(request):
            find, call = self.tools
            named = find.model_copy(update={"description": decision.search[0].description})
            notes = {request.state["messages"][place].id: text for place, text in decision.notes.items()}
            messages = [_with_note(_as_written(message), notes.get(message.id)) for message in request.messages]
            return request.override(tools=[*tools, named, call], messages=messages)
        return request.override(tools=tools)

    def _response_as_meant(self, request: Any, decision: GateDecision, response: Any) -> Any:
        """The model's response as LangChain gets it."""
        state: dict[str, list[str]] = {}
        if decision.may_run is not None:
            state["camdf_may_run"] = sorted(decision.may_run)
        if not decision.needs_tool_search or not self._has_tool_search(request):
            return _with_state(request, response, state)
        viewed, natives = self.gate.by_key(self._with_servers(request.tools))
        callable_ = (key for key in viewed if key not in decision.refused and not isinstance(natives[key], dict))
        behind = {viewed[key].name: natives[key] for key in callable_}
        written = WRITTEN.get() or _AsWritten()
        result = [_as_meant(message, behind, written.texts) for message in response.result]
        return _with_state(request, replace(response, result=result), {**state, "camdf_behind": list(behind)})

    def _find(self, query: str, runtime: ToolRuntime) -> str:
        names = set(runtime.state.get("camdf_behind") or ())
        behind = [tool for tool in runtime.tools if tool.name in names]
        return listing(self.gate.find(query, self._with_servers(behind)), behind)


def _with_state(request: Any, response: Any, state: Mapping[str, list[str]]) -> Any:
    """A response with what is new in the agent's state."""
    changed = {key: value for key, value in state.items() if request.state.get(key) != value}
    return ExtendedModelResponse(response, Command(update=changed) if changed else None)


def _answered(words: str) -> str:
    """Only calls that mean no tool come here: the others are made by the tool's own name."""
    return words


def _search_tool(tool: Any, function: Callable[..., str]) -> Any:
    return StructuredTool.from_function(
        function, name=tool.name, description=tool.description, args_schema=tool.parameters
    )


def _hands_over(tool: Any) -> bool:
    return HANDOFF in (getattr(tool, "metadata", None) or {}) and not isinstance(tool.args_schema, dict)


def _tool_names(request: Any) -> list[str]:
    return [tool.name for tool in request.tools if not isinstance(tool, dict)]


def _can_allow(request: Any) -> bool:
    """OpenAI's models take the names of functions that may be called, which would shut out the provider's own tools."""
    return hasattr(request.model, "use_responses_api") and not any(isinstance(tool, dict) for tool in request.tools)


def _deferred_tool(tool: Any) -> Any:
    if isinstance(tool, dict):
        return tool
    return tool.model_copy(update={"extras": {**(tool.extras or {}), "defer_loading": True}})


def _human_ids(state: Any) -> list[str]:
    return [message.id for message in state["messages"] if message.type == "human" and not _is_summary(message)]


def _is_summary(message: Any) -> bool:
    """LangChain's SummarizationMiddleware files its summary under the user."""
    return bool(message.additional_kwargs.get("lc_source") == "summarization")


def _history(state: Any, tool_search: bool) -> list[dict[str, Any]]:
    turns = state.get("camdf_turns")
    messages = state["messages"]
    if tool_search:
        messages = map(_as_written, messages)
    return [_read_message(message, turns is None or message.id in turns) for message in messages]


def _user_of_run() -> str:
    """The `user_id` in the configuration of the run; "" where it has none."""
    with suppress(Exception):  # outside of a run there is no configuration
        return str(get_config()["configurable"].get("user_id") or "")
    return ""


def _read_message(message: Any, of_user: bool) -> dict[str, Any]:
    """A message as OpenAI's chat has it; under the system's name where middleware and not the user has written it."""
    role = ROLES.get(message.type, "system")
    if message.type == "human" and not of_user:
        role = "system"
    if _is_summary(message):
        role = SUMMARY
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    return chat_message(role, _texts_of(message.content), calls)


def _texts_of(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part if isinstance(part, str) else part.get("text") or "" for part in content]


def _as_meant(message: Any, tools: dict[str, Any], texts: dict[Any, str]) -> Any:
    """A message with the tools that its calls of `call_tool` mean, and a note of which calls these are.

    Calls of the tool search whose arguments are no JSON are answered in words: LangChain leaves them out, and ends the
    run.
    """
    broken = [call for call in getattr(message, "invalid_tool_calls", ()) if call["name"] in (FIND.name, CALL.name)]
    through: list[Any] = []
    slips: dict[Any, str] = {}
    calls: list[dict[str, Any]] = []
    for call in [*getattr(message, "tool_calls", ()), *map(_as_tool_call, broken)]:
        read: ToolCall | str = ""
        if call["name"] == CALL.name:
            read = meant(texts.get(call["id"]) or call["args"], tools)
        if isinstance(read, ToolCall):
            through.append(call["id"])
            calls.append({**call, "name": read.name, "args": read.arguments})
            continue
        if read:
            slips[call["id"]] = read
        calls.append(call if isinstance(call["args"], dict) else {**call, "args": {}})
    if not (through or slips or broken):
        return message
    note = {**message.response_metadata, THROUGH: through, SLIPS: slips}
    left = [call for call in message.invalid_tool_calls if call not in broken]
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": left, "response_metadata": note})


def _as_tool_call(broken: Any) -> dict[str, Any]:
    return {"name": broken["name"], "args": broken["args"], "id": broken["id"], "type": "tool_call"}


def _with_note(message: Any, note: str | None) -> Any:
    """A message of the user with a note after its words."""
    if note is None:
        return message
    said = [message.content] if isinstance(message.content, str) else message.content
    return message.model_copy(update={"content": [*said, {"type": "text", "text": note}]})


def _as_written(message: Any) -> Any:
    """A message as the model wrote it."""
    through = message.response_metadata.get(THROUGH)
    if not through:
        return message
    calls = [_call_as_written(call, through) for call in message.tool_calls]
    return message.model_copy(update={"tool_calls": calls})


def _call_as_written(call: Any, through: Collection[Any]) -> Any:
    if call["id"] not in through:
        return call
    return {**call, "name": CALL.name, "args": {"name": call["name"], "arguments": call["args"]}}
