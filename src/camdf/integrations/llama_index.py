"""LlamaIndex: a tool retriever that gives an agent the tools that its task deserves.

    agent = FunctionAgent(tool_retriever=ToolGate(gate, index.as_retriever(similarity_top_k=40)), llm=llm)

The conversation is the memory's `session_id`, or else the agent's `Context` (later turns share it by `ctx=`), with the
agent's name in an `AgentWorkflow`. This is no node postprocessor: LlamaIndex does not await those, so a scorer would
hold up the event loop, and they see a text in place of the tool, whose schema prices and digests need.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from camdf.errors import needs
from camdf.gate import Gate
from camdf.tools import view

with needs("llama-index"):
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.schema import QueryBundle
    from llama_index.core.workflow import Context


class ToolGate(ObjectRetriever):
    """Retrieves as `retriever` does and keeps what `gate` keeps, in its order, and what the conversation has.

    When the model calls a tool, LlamaIndex retrieves again with the tool's name as the query, and runs the tool if it
    is in the answer. The name is no task: it is answered as the task was, and with the tool of that name, cut or not,
    unless the gate refuses it. A gate without a scorer goes by the retriever's scores, with zero for those below.
    """

    def __init__(self, gate: Gate, retriever: Any) -> None:
        super().__init__(retriever.retriever, retriever.object_node_mapping, retriever.node_postprocessors)
        self.gate, self.seen = gate, dict[str, Any]()

    def retrieve(self, str_or_query_bundle: Any) -> list[Any]:
        query = QueryBundle(str_or_query_bundle) if isinstance(str_or_query_bundle, str) else str_or_query_bundle
        nodes = self.retriever.retrieve(query)
        for each in self.node_postprocessors:
            nodes = each.postprocess_nodes(nodes, query_bundle=query)
        return self.gate.decide(query.query_str, **self._candidates(nodes)).tools

    async def aretrieve(self, str_or_query_bundle: Any) -> list[Any]:
        query = QueryBundle(str_or_query_bundle) if isinstance(str_or_query_bundle, str) else str_or_query_bundle
        task, conversation = await _asked(query.query_str)
        called = [] if query.query_str == task else [query.query_str]
        query = QueryBundle(task) if called else query
        nodes = await self.retriever.aretrieve(query)
        for each in self.node_postprocessors:
            nodes = await each.apostprocess_nodes(nodes, query_bundle=query)
        remembered = self.gate.memory.recall(conversation)
        found = self._candidates(nodes, [*(remembered.kept if remembered else ()), *called])
        return (await self.gate.adecide(task, **found, conversation=conversation, keep=called)).tools

    def _candidates(self, nodes: Iterable[Any], had: Iterable[str] = ()) -> dict[str, Any]:
        """The retrieved tools with their scores, then those of `had` that were retrieved before and not now."""
        scored = [(self.object_node_mapping.from_node(node.node), node.score) for node in nodes]
        now = {view(tool).name: tool for tool, _ in scored}
        self.seen |= now
        scored += [(self.seen[name], 0.0) for name in dict.fromkeys(had) if name in self.seen and name not in now]
        own = self.gate.scorer is not None or any(score is None for _, score in scored)
        return {"tools": [tool for tool, _ in scored], "scores": None if own else [max(s, 0.0) for _, s in scored]}


async def _asked(query: str) -> tuple[str, str | None]:
    """What the user asked, and in which conversation, where an agent retrieves; else the query."""
    try:
        store = Context.get_step_context().store
        task, memory = await store.get("user_msg_str"), await store.get("memory", default=None)
        thread = getattr(memory, "session_id", None) or await store.get("camdf_conversation", default=None)
        if thread is None:
            thread = uuid4().hex
            await store.set("camdf_conversation", thread)
        return task, f"{thread}/{await store.get('current_agent_name', default='')}"
    except Exception:
        return query, None
