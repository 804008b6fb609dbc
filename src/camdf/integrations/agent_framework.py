"""Microsoft Agent Framework: a context provider that gives an agent's model the tools that its conversation deserves.

    agent = Agent(client, tools=tools, context_providers=[ToolGate(gate)])

The conversation is the messages of a chat request, so any worker that has them decides the same, and nothing is kept
here. With a tool search, the framework, its approvals, function middleware and traces see the tool that a `call_tool`
means, called by its own name; the model sees the `call_tool` that it wrote.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import CALL, FIND, ToolCall, fits, json_arguments, listing, meant, query_of
from camdf.integrations.chat import chat_message, refusal
from camdf.tools import Tool

with needs("agent-framework"):
    from agent_framework import ChatMiddleware, Content, ContextProvider, FunctionMiddleware, FunctionTool, Message

THROUGH = "camdf_through_the_search"
"""Where the properties of a call say that the model wrote it as a `call_tool`."""

HANDOFF = "handoff_to_"
"""How the names of the tools begin that hand over to another agent."""


class ToolGate(ContextProvider):
    """Hands the model the tools that `gate` keeps, in its order; tools the provider runs itself always pass.

    Kept are handoffs and a forced choice. `tool_search` adds `find_tool` and `call_tool` where tools are cut. The
    framework runs a cut tool that the model calls from memory, unless the gate refuses it. Where the provider holds the
    history (a `conversation_id`), nothing is cut.
    """

    def __init__(self, gate: Gate, *, tool_search: bool = True) -> None:
        super().__init__("camdf")
        self.gate, self.tool_search = gate, tool_search

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        standing = getattr(agent, "default_options", None) or {}
        named = [*(standing.get("tools") or ()), *(context.options.get("tools") or ())]
        carried = any(message.role == "assistant" for message in context.input_messages)
        cutting = _Cutting(self.gate, None if carried else session.session_id)  # which is made up for such a run
        if self.tool_search and fits(self.gate.mode, (getattr(tool, "name", "") for tool in named)):
            cutting.search = [_function(FIND, cutting.found), _function(CALL, cutting.slip)]
            context.extend_tools(self.source_id, cutting.search)
        context.extend_middleware(self.source_id, [cutting, _Refusing(self.gate)])


class _Cutting(ChatMiddleware):
    """The tools of one run's requests."""

    def __init__(self, gate: Gate, conversation: str | None) -> None:
        self.gate, self.conversation = gate, conversation
        self.search: Sequence[Any] = ()
        self.behind: Mapping[str, Tool] = {}

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        options = context.options or {}
        tools = [tool for tool in options.get("tools") or () if not any(tool is own for own in self.search)]
        told = [_told(tool) for tool in tools]
        natives = {id(view): tool for view, tool in zip(told, tools, strict=True)}
        names = [view.name for view in told if isinstance(view, Tool)]
        messages, elsewhere = [*map(_as_written, context.messages)], bool(options.get("conversation_id"))
        choice = options.get("tool_choice")
        forced = choice.get("required_function_name") if isinstance(choice, dict) else None
        decision = await self.gate.adecide(
            [] if elsewhere else [*map(_read, messages)],
            told,
            conversation=self.conversation,
            keep=names if elsewhere else [name for name in names if name.startswith(HANDOFF)],
            forced=[forced] if forced else (),
            tool_search=bool(self.search),
        )
        self.behind = {view.name: view for view in self.gate.may_be_offered(told) if isinstance(view, Tool)}
        offered = [natives[id(view)] for view in decision.tools]
        if decision.search:
            offered += [_function(decision.search[0], self.found), self.search[1]]
        context.options, context.messages = {**options, "tools": offered}, messages
        context.stream_result_hooks.append(self._as_meant)
        await call_next()
        if not context.stream:
            self._as_meant(context.result)

    def _as_meant(self, response: Any) -> Any:
        """A response with the tools that its calls of `call_tool` mean."""
        for message in response.messages:
            message.contents = [self._call(content) for content in message.contents]
        return response

    def _call(self, content: Any) -> Any:
        if content.type != "function_call" or content.name != CALL.name or not self.search:
            return content
        read = meant(content.arguments, self.behind)
        if not isinstance(read, ToolCall):
            return content
        note = {**(content.additional_properties or {}), THROUGH: True}
        return Content.from_function_call(
            content.call_id, read.name, arguments=read.arguments, id=content.id, additional_properties=note
        )

    async def found(self, **arguments: Any) -> str:
        tools = self.behind.values()
        return listing(await self.gate.afind(query_of(arguments), tools), tools)

    def slip(self, **arguments: Any) -> str:
        return str(meant(arguments, self.behind))


class _Refusing(FunctionMiddleware):
    """Runs nothing that the gate refuses."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        if self.gate.authorized(_told(context.function)) or context.function.name in (FIND.name, CALL.name):
            await call_next()
        else:
            context.result = refusal(context.function.name)


def _function(tool: Tool, run: Callable[..., Any]) -> Any:
    return FunctionTool(name=tool.name, description=tool.description, func=run, input_model=dict(tool.schema))


def _told(tool: Any) -> Any:
    return Tool(tool.name, tool.description or "", tool.parameters) if isinstance(tool, FunctionTool) else tool


def _read(message: Any) -> dict[str, Any]:
    """A message as OpenAI's chat has it."""
    texts = [content.text for content in message.contents if content.type == "text"]
    calls = [(call.name, call.arguments) for call in message.contents if call.type == "function_call"]
    return chat_message(str(message.role), texts, calls)


def _as_written(message: Any) -> Any:
    """A message as the model wrote it."""
    if not any(THROUGH in (content.additional_properties or {}) for content in message.contents):
        return message
    contents = [
        Content.from_function_call(
            content.call_id, CALL.name, arguments={"name": content.name, "arguments": json_arguments(content.arguments)}
        )
        if content.type == "function_call" and THROUGH in (content.additional_properties or {})
        else content
        for content in message.contents
    ]
    return Message(message.role, contents)
