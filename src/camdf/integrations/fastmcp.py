"""FastMCP: a server, or a gateway in front of many, lists only the tools that are worth it for the client's task.

    gateway.add_transform(Authorised(gate))  # what the gate refuses is neither listed nor run
    gateway.add_middleware(ToolGate(gate))   # a listing with a task in its `_meta` holds the tools worth it
    gateway.add_transform(GatedSearch(gate)) # or instead: the search tool answers with the tools worth it

A client sends `_meta` with `camdf/task` and, so that later listings of a chat only widen, `camdf/conversation`; the
session would not do, since current connections have a new one for every request. `camdf/keep` names tools that its
history has called or its `tool_choice` forces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate

with needs("fastmcp"):
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.transforms import Transform
    from fastmcp.server.transforms.search import BM25SearchTransform


class ToolGate(Middleware):
    """Lists the tools that `gate` keeps for the task of the request, in its order; without a task, all of them.

    A cut tool still runs when a client calls it: a listing is advice to the model, and `Authorised` is what forbids.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def on_list_tools(self, context: Any, call_next: Any) -> Sequence[Any]:
        tools, meta = await call_next(context), _meta(context.fastmcp_context)
        conversation, keep = meta.get("camdf/conversation") or None, meta.get("camdf/keep", ())
        decision = await self.gate.adecide(meta.get("camdf/task", ""), tools, conversation=conversation, keep=keep)
        return decision.tools


class GatedSearch(BM25SearchTransform):
    """FastMCP's search tool, answering with what `gate` keeps for the query, however many tools that is.

    FastMCP discards the scores of its own search, so the gate's scorer ranks. Where the gate decides nothing, or only
    watches, the answer is FastMCP's own: its best `max_results` of the tools that may be offered.
    """

    def __init__(self, gate: Gate, **settings: Any) -> None:
        super().__init__(**settings)
        self.gate = gate

    async def _search(self, tools: Sequence[Any], query: str) -> Sequence[Any]:
        decision = await self.gate.adecide(query, tools)
        if decision.open or decision.mode != "drop":
            return await super()._search(decision.tools, query)  # type: ignore[no-any-return]
        return decision.tools


class Authorised(Transform):
    """Hides what `gate` refuses by `allow` or `digests`, from listings and from calls. Add it before a search."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        return [tool for tool in tools if self.gate.authorised(tool)]

    async def get_tool(self, name: str, call_next: Any, *, version: Any = None) -> Any:
        tool = await call_next(name, version=version)
        return tool if tool is not None and self.gate.authorised(tool) else None


def _meta(context: Any) -> Mapping[str, Any]:
    meta = getattr(getattr(context, "request_context", None), "meta", None)
    return meta if isinstance(meta, Mapping) else getattr(meta, "model_extra", None) or {}  # FastMCP 4, FastMCP 3
