"""LlamaIndex: a tool retriever that gives an agent the tools that its conversation deserves.

    agent = FunctionAgent(tool_retriever=ToolGate(gate, tools), llm=llm)

The conversation is the agent's memory, which is read where the agent retrieves: the same on any worker that has it. The
state of the run has what may run, and its context keeps that wherever the run goes on. This is no node postprocessor
and asks no index: both see one text, and not what came before it. An index that ranks tools is a scorer,
`Retrieved(index.as_retriever(similarity_top_k=40))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.privilege import running_for
from camdf.gate.telemetry import EVENT
from camdf.gate.tool_search import CALL, FIND, ToolCall, fits, json_arguments, listing, meant, query_of
from camdf.integrations.chat import chat_message
from camdf.tools import Tool, from_servers, native_of, view

with needs("llama-index"):
    from llama_index.core.async_utils import asyncio_run
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.schema import QueryBundle
    from llama_index.core.tools import ToolMetadata, ToolOutput, adapt_to_async_tool
    from llama_index.core.tools.types import AsyncBaseTool
    from llama_index.core.workflow import Context


def _same_event(event: dict[str, Any]) -> dict[str, Any]:
    return event


_same_event.__qualname__ = EVENT
STEP: Any = get_dispatcher(__name__).span(_same_event)
"""A step of a run that does nothing: LlamaIndex's tracers keep its result, which is a decision."""


MAY_RUN = "camdf_may_run"
"""Where the state of a run says what may run."""


class ToolGate(ObjectRetriever):
    """Retrieves the `tools` that `gate` keeps, in its order.

    When the model calls a tool, LlamaIndex retrieves again with the tool's name as the query, and runs the tool if it
    is in the answer. The name is no task: it is answered with the tool of that name, cut or not, unless the gate
    refuses it. `tools` may come by the server that they come from, as `{"mail": mail_tools}`. `tool_search` adds
    `find_tool` and `call_tool` where tools are cut.
    """

    def __init__(
        self, gate: Gate, tools: Sequence[Any] | Mapping[str, Sequence[Any]], *, tool_search: bool = True
    ) -> None:
        self.gate = gate
        self.tools = from_servers(tools) if isinstance(tools, Mapping) else list(tools)
        self.tool_search: list[_SearchTool] = []
        if tool_search and fits(gate.mode, (view(tool).name for tool in self.tools)):
            self.tool_search = [_Find(self, FIND), _Call(self, CALL)]

    def retrieve(self, str_or_query_bundle: Any) -> list[Any]:
        """The tools of one task: agents do not ask here."""
        return self.gate.decide(_query_text(str_or_query_bundle), self.tools).tools

    async def aretrieve(self, str_or_query_bundle: Any) -> list[Any]:
        query = _query_text(str_or_query_bundle)
        state = _agent_state()
        asked = await _kept_in(state, "user_msg_str")
        if asked is None:
            return (await self.gate.adecide(query, self.tools)).tools
        if query != asked:
            called = self._tools_named(query)
            if called:
                return called
        decision = await self.gate.adecide(
            await _history(state),
            self.tools,
            conversation=getattr(await _kept_in(state, "memory"), "session_id", None),
            forced=[asked],
            tool_search=bool(self.tool_search),
            takes_messages=False,
        )
        if decision.may_run is not None:
            await state.set(MAY_RUN, sorted(decision.may_run))
        with suppress(Exception):  # a broken tracer is no reason to fail
            STEP(dict(decision.event()))
        if not self.tool_search or not decision.search:
            return decision.tools
        return [*decision.tools, _Find(self, decision.search[0]), self.tool_search[1]]

    def authorized(self) -> list[Any]:
        """The tools that may be offered, with the servers that they come from."""
        offered = {id(native) for native in self.gate.may_be_offered(self.tools)}
        return [tool for tool in self.tools if id(native_of(tool)) in offered]

    def _tools_named(self, name: str) -> list[Any]:
        own: list[Any] = [_Called(self, tool) for tool in self.authorized() if view(tool).name == name]
        return own or [tool for tool in self.tool_search if view(tool).name == name]

    async def run(self, tool: Any, arguments: dict[str, Any]) -> Any:
        """What a tool answers, or words where it may not run."""
        may_run = await _kept_in(_agent_state(), MAY_RUN)
        words = self.gate.refusal(tool, may_run, arguments)
        if words:
            return ToolOutput(view(tool).name, words, raw_input=arguments, is_error=True)
        native = native_of(tool)
        if getattr(native, "requires_context", False):
            arguments = {**arguments, native.ctx_param_name: Context.get_step_context()}
        with running_for(self.gate.privilege, may_run):
            return await adapt_to_async_tool(native).acall(**arguments)


class Retrieved:
    """A scorer: what an index finds for a task, by its `retriever`, gets its similarity; all else gets 0."""

    def __init__(self, retriever: Any) -> None:
        self.retriever = retriever

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        query = QueryBundle(task)
        objects = self.retriever.object_node_mapping
        nodes = self.retriever.retriever.retrieve(query)
        for processor in self.retriever.node_postprocessors:
            nodes = processor.postprocess_nodes(nodes, query_bundle=query)
        similarity = {view(objects.from_node(node.node)).name: node.score or 0.0 for node in nodes}
        return [max(similarity.get(tool.name, 0.0), 0.0) for tool in tools]


@dataclass
class _Fixed(ToolMetadata):
    """What a model is told of a tool of the tool search."""

    parameters: Any = None

    def get_parameters_dict(self) -> Any:
        return self.parameters


class _SearchTool(AsyncBaseTool):
    def __init__(self, gate: ToolGate, tool: Any) -> None:
        self.gate = gate
        self.tool = tool

    @property
    def metadata(self) -> Any:
        return _Fixed(self.tool.description, self.tool.name, parameters=self.tool.schema)

    def call(self, **arguments: Any) -> Any:
        return asyncio_run(self.acall(**arguments))


class _Find(_SearchTool):
    async def acall(self, **arguments: Any) -> Any:
        matches = await self.gate.gate.afind(query_of(arguments), self.gate.tools)
        return ToolOutput(FIND.name, listing(matches, self.gate.authorized()), raw_input=arguments)


class _Call(_SearchTool):
    async def acall(self, **arguments: Any) -> Any:
        behind = {view(tool).name: tool for tool in self.gate.authorized()}
        written = arguments if await _is_as_written(arguments) else ""
        read = meant(written, behind)
        if not isinstance(read, ToolCall):
            return ToolOutput(CALL.name, read, raw_input=arguments, is_error=True)
        return await self.gate.run(behind[read.name], read.arguments)


class _Called(_SearchTool):
    """A tool that the model has called by its own name."""

    @property
    def metadata(self) -> Any:
        return native_of(self.tool).metadata

    async def acall(self, **arguments: Any) -> Any:
        return await self.gate.run(self.tool, arguments)


async def _is_as_written(arguments: dict[str, Any]) -> bool:
    """Whether the model wrote a `call_tool` with these arguments: LlamaIndex completes what was cut off."""
    said = await _kept_in(_agent_state(), "scratchpad") or []
    blocks = [block for message in said[-1:] for block in message.blocks if block.block_type == "tool_call"]
    texts = [block.tool_kwargs for block in blocks if block.tool_name == CALL.name]
    return not texts or arguments in map(json_arguments, texts)


def _query_text(query: Any) -> str:
    if isinstance(query, QueryBundle):
        return str(query.query_str)
    return str(query)


def _agent_state() -> Any:
    """The state of the agent that is retrieving; None where none is."""
    try:
        return Context.get_step_context().store
    except Exception:
        return None


async def _kept_in(state: Any, name: str) -> Any:
    """A value of an agent's state; None where there is no such value, or no agent."""
    if state is None:
        return None
    return await state.get(name, default=None)


async def _history(state: Any) -> list[dict[str, Any]]:
    """The messages of the memory and those of the run; none where the memory cannot be read, which opens the list."""
    try:
        memory = await state.get("memory")
        messages = [*await memory.aget_all(), *await state.get("scratchpad", default=[])]
        return [_read_message(message) for message in messages]
    except Exception:
        return []


def _read_message(message: Any) -> dict[str, Any]:
    """A message as OpenAI's chat has it."""
    texts = [block.text for block in message.blocks if block.block_type == "text"]
    calls = [(block.tool_name, block.tool_kwargs) for block in message.blocks if block.block_type == "tool_call"]
    raw = [call for call in message.additional_kwargs.get("tool_calls") or () if isinstance(call, dict)]
    read = chat_message(message.role.value, texts, calls)
    return {**read, "tool_calls": [*read["tool_calls"], *raw]}
