"""FastMCP: a server, or a gateway in front of many, lists only the tools that are worth it for the client's task.

    gateway.add_transform(Authorized(gate))  # what the gate refuses is neither listed nor run
    gateway.add_transform(ToolGate(gate))    # a listing holds the tools worth it, and a search for the others
    gateway.add_middleware(ToolGate(gate))   # or instead: without the search

MCP has no conversation of its own: a listing carries no history, and current connections have a new session for every
request. So a client sends, in the `_meta` of `tools/list`, its history as `camdf/messages`, and every process of a
gateway answers alike. A client that cannot sends the last turn as `camdf/task` with a name for the chat as
`camdf/conversation`; then the process that answers has to remember it. `camdf/keep` names tools that must stay,
`camdf/forced` those that the next request's `tool_choice` names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.privilege import running_for
from camdf.gate.tool_search import CALL, ToolCall, meant
from camdf.tools import view

with needs("fastmcp"):
    from fastmcp.exceptions import ToolError
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.transforms import Transform
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools import Tool


class ToolGate(BM25SearchTransform, Middleware):
    """Lists the tools that `gate` keeps for the conversation of the request, in its order.

    A cut tool still runs when a client calls it: a listing is advice to the model, and `Authorized` is what forbids.

    As a transform, it has FastMCP's search tool and call tool as a tool search for what is cut, and takes its
    `settings`. A listing with a conversation holds the tools of its first decision, and where some are cut the two
    tools of the search, so it never changes again. A listing without one holds these two alone. As a middleware, it has
    no search: a listing without a conversation holds all tools.

    The description of the search names the tools that it finds. The search answers a tool's exact name with that tool,
    and other queries with what the gate keeps for them, however many tools that is. FastMCP discards the scores of its
    own search, so the gate's scorer ranks. Where the gate decides nothing, or only watches, the answer is
    FastMCP's own: its best `max_results` of the tools that may be offered.
    """

    def __init__(self, gate: Gate, **settings: Any) -> None:
        super().__init__(**settings)
        self.gate = gate

    async def on_list_tools(self, context: Any, call_next: Any) -> Sequence[Any]:
        tools = await call_next(context)
        return (await _decided(self.gate, tools, _meta(context.fastmcp_context))).tools

    async def transform_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        meta = _current_meta()
        if not meta.get("camdf/messages") and not meta.get("camdf/task"):
            *pinned, search, call = await super().transform_tools(tools)
            return [*pinned, _naming(search, self.gate.names(tools, self._always_visible)), call]
        decision = await _decided(self.gate, tools, meta, self._always_visible, tool_search=True)
        if not decision.needs_tool_search:
            return decision.tools
        search, call = await super().transform_tools(())
        return [*decision.tools, _naming(search, decision.hidden), call]

    async def _search(self, tools: Sequence[Any], query: str) -> Sequence[Any]:
        named = [tool for tool in self.gate.may_be_offered(tools) if tool.name == query.strip()]
        if named:
            return named
        decision = await self.gate.adecide(query, tools)
        if decision.open or decision.mode != "drop":
            return await super()._search(decision.tools, query)  # type: ignore[no-any-return]
        return decision.tools

    def _make_call_tool(self) -> Any:
        return _CallTool(self, name=self._call_tool_name, description=CALL.description, parameters=dict(CALL.schema))


class _CallTool(Tool):
    """Runs the tool that a call means, or says what is wrong with the call: FastMCP's own runs it without arguments."""

    _search: Any = None

    def __init__(self, search: ToolGate, **settings: Any) -> None:
        super().__init__(**settings)
        self._search = search

    async def run(self, arguments: dict[str, Any]) -> Any:
        context = get_context()
        search = self._search
        tools = {tool.name: tool for tool in await search.get_tool_catalog(context)}
        read = meant(arguments, tools, search._search_tool_name)
        if not isinstance(read, ToolCall):
            raise ToolError(read)
        return await context.fastmcp.call_tool(read.name, read.arguments)


class Authorized(Transform):
    """Hides what `gate` refuses by `allow` or `digests`, from listings and from calls. Add it before a search.

    A call runs a tool that a listing would show: where servers share a name, a call lists the tools once more.

    Where the gate has a privilege, a call runs what may run by the history that comes with it, in the `_meta` of
    `tools/call` as in that of a listing; without a history only what is free. Any other call is answered in words.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._listed: ContextVar[list[Any] | None] = ContextVar("camdf_listed", default=None)

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        offered = self.gate.may_be_offered(tools)
        listed = self._listed.get()
        if listed is not None:
            listed += offered
        return offered

    async def get_tool(self, name: str, call_next: Any, *, version: Any = None) -> Any:
        tool = await call_next(name, version=version)
        if tool is None or not await self._is_listed(tool):
            return None
        if self.gate.privilege is None:
            return tool
        return _Bound.of(tool, self)

    async def run(self, tool: Any, arguments: dict[str, Any]) -> Any:
        """What a tool answers; a ToolError says in words that it may not run."""
        decision = await _decided(self.gate, await self._listing(), _current_meta())
        words = self.gate.refusal(tool, decision.may_run, arguments)
        if words:
            raise ToolError(words)
        with running_for(self.gate.privilege, decision.may_run):
            return await tool.run(arguments)

    async def _is_listed(self, tool: Any) -> bool:
        if not self.gate.guards.authorized(view(tool)):
            return False
        if not self.gate.guards.refuse or not view(tool).server:
            return True
        return view(tool).full_name in {view(other).full_name for other in await self._listing()}

    async def _listing(self) -> list[Any]:
        listed: list[Any] = []
        token = self._listed.set(listed)
        try:
            await get_context().fastmcp.list_tools(run_middleware=False)
        finally:
            self._listed.reset(token)
        return listed


class _Bound(Tool):
    """A tool that runs where the gate lets it run, and answers in words elsewhere."""

    _tool: Any = None
    _authorized: Any = None

    @classmethod
    def of(cls, tool: Any, authorized: Authorized) -> _Bound:
        bound = cls(name=tool.name, description=tool.description, parameters=tool.parameters)
        bound._tool = tool
        bound._authorized = authorized
        return bound

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await self._authorized.run(self._tool, arguments)


async def _decided(
    gate: Gate, tools: Sequence[Any], meta: Mapping[str, Any], keep: Iterable[str] = (), tool_search: bool = False
) -> GateDecision:
    history = meta.get("camdf/messages")
    return await gate.adecide(
        history if isinstance(history, list) else str(meta.get("camdf/task") or ""),
        tools,
        conversation=_conversation_key(meta.get("camdf/conversation")),
        keep=[*keep, *_list_sent(meta.get("camdf/keep"))],
        forced=_list_sent(meta.get("camdf/forced")),
        tool_search=tool_search,
        takes_messages=False,
    )


def _conversation_key(name: Any) -> str | None:
    """A key of one length for a conversation, however long the name that a client sends."""
    if not name:
        return None
    return hashlib.sha256(repr(name).encode()).hexdigest()


def _naming(search: Any, names: str) -> Any:
    """The search tool with the names of what it finds in its description."""
    if not names:
        return search
    return search.model_copy(update={"description": f"{search.description}\nNot in your list: {names}."})


def _list_sent(sent: Any) -> list[Any]:
    """A list that a client sent; an empty one for anything else."""
    return sent if isinstance(sent, list) else []


def _current_meta() -> Mapping[str, Any]:
    try:
        return _meta(get_context())
    except RuntimeError:  # FastMCP also lists tools for itself, outside a request
        return {}


def _meta(context: Any) -> Mapping[str, Any]:
    meta = getattr(getattr(context, "request_context", None), "meta", None)
    if isinstance(meta, Mapping):  # FastMCP 4
        return meta
    return getattr(meta, "model_extra", None) or {}  # FastMCP 3
