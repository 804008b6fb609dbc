"""Microsoft Agent Framework: a context provider that gives an agent's model the tools that its conversation deserves.

    agent = Agent(client, tools=tools, context_providers=[ToolGate(gate)])

The conversation is the messages of a chat request, so any worker that has them decides the same, and nothing is kept
here but for one run. Where a run begins with a call that was approved, what may run is decided by the run's messages.
With a tool search, the framework, its approvals, function middleware and traces see the tool that a `call_tool` means,
called by its own name; the model sees the `call_tool` that it wrote.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.privilege import running_for
from camdf.gate.tool_search import (
    CALL,
    FIND,
    SEARCH_NAMES,
    ToolCall,
    fits,
    json_arguments,
    listing,
    meant,
    query_of,
)
from camdf.gate.turns import SUMMARY
from camdf.integrations.chat import chat_message
from camdf.integrations.skills.needed import NeededSkills
from camdf.tools import Tool

with needs("agent-framework"):
    from agent_framework import (
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionMiddleware,
        FunctionTool,
        HistoryProvider,
        Message,
    )

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
        self.gate = gate
        self.tool_search = tool_search

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        standing = getattr(agent, "default_options", None) or {}
        named = [*(standing.get("tools") or ()), *(context.options.get("tools") or ())]
        carried = any(message.role == "assistant" for message in context.input_messages)
        conversation = None if carried else session.session_id  # which is made up for a run that brings its history
        has_tool_search = self.tool_search and fits(self.gate.mode, (getattr(tool, "name", "") for tool in named))
        providers = getattr(agent, "context_providers", ())
        others = [provider.source_id for provider in providers if not isinstance(provider, HistoryProvider)]
        cutting = _Cutting(self.gate, conversation, others, has_tool_search)
        if has_tool_search:
            context.extend_tools(self.source_id, cutting.search)
        context.extend_middleware(self.source_id, [cutting, _Refusing(cutting, context)])


class SkillGate(ContextProvider):
    """Says which skills a run needs, as the predicate of a `FilteringSkillsSource`.

        skills = SkillGate(NeededSkills(skills_in("skills").skills))
        source = FilteringSkillsSource(FileSkillsSource("skills"), skills.needs)
        agent = Agent(client, context_providers=[skills, SkillsProvider(source)])

    It comes before the provider of the skills. A run without a session has them all.
    """

    def __init__(self, needed: NeededSkills) -> None:
        super().__init__("camdf_skills")
        self.needed = needed

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        said = [message.text for message in context.input_messages if message.role == "user"]
        session.state[self.source_id] = [skill.name for skill in self.needed("\n".join(said))]

    def needs(self, skill: Any, context: Any) -> bool:
        """Whether the run that asks for its skills needs this one."""
        named = context.session and context.session.state.get(self.source_id)
        return named is None or skill.frontmatter.name in named


class _Cutting(ChatMiddleware):
    """The tools of one run's requests."""

    def __init__(self, gate: Gate, conversation: str | None, others: Collection[str], has_tool_search: bool) -> None:
        self.gate = gate
        self.conversation = conversation
        self.others = others
        self.search: Sequence[Any] = ()
        if has_tool_search:
            self.search = [_function(FIND, self.found), _function(CALL, self.slip)]
        self.behind: Mapping[str, Tool] = {}
        self.latest: GateDecision | None = None

    async def decide(self, messages: Iterable[Any], tools: Sequence[Any], options: Mapping[str, Any]) -> GateDecision:
        """The decision on a request, in which the tools are as the gate reads them."""
        if options.get("conversation_id") and self.gate.privilege is None:  # the provider holds the history
            history = []
            keep = [tool.name for tool in tools if isinstance(tool, Tool)]
        else:
            history = [_read_message(message, self.others) for message in messages]
            keep = [tool.name for tool in tools if isinstance(tool, Tool) and tool.name.startswith(HANDOFF)]
        return await self.gate.adecide(
            history,
            tools,
            conversation=self.conversation,
            keep=keep,
            forced=_forced_names(options.get("tool_choice")),
            tool_search=bool(self.search),
        )

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        options = context.options or {}
        own = [id(tool) for tool in self.search]
        tools = [tool for tool in options.get("tools") or () if id(tool) not in own]
        views = [_as_gate_tool(tool) for tool in tools]
        natives = {id(view): tool for view, tool in zip(views, tools, strict=True)}
        messages = [_as_written(message) for message in context.messages]
        decision = await self.decide(messages, views, options)
        self.latest = decision
        self.behind = {view.name: view for view in self.gate.may_be_offered(views) if isinstance(view, Tool)}
        offered = [natives[id(view)] for view in decision.head]
        if decision.search:
            offered += [_function(decision.search[0], self.found), self.search[1]]
        for place, note in decision.notes.items():
            contents = [*messages[place].contents, Content.from_text(note)]
            messages[place] = Message(messages[place].role, contents)
        context.options = {**options, "tools": offered}
        context.messages = messages
        context.stream_result_hooks.append(self._as_meant)
        await call_next()
        if not context.stream:
            self._as_meant(context.result)

    def _as_meant(self, response: Any) -> Any:
        """A response with the tools that its calls of `call_tool` mean."""
        for message in response.messages:
            message.contents = [self._call_as_meant(content) for content in message.contents]
        return response

    def _call_as_meant(self, content: Any) -> Any:
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

    def __init__(self, cutting: _Cutting, run: Any) -> None:
        self.cutting = cutting
        self.run = run

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        cutting = self.cutting
        function = context.function
        if cutting.search and function.name in SEARCH_NAMES:
            await call_next()
            return
        if cutting.latest is None and cutting.gate.privilege is not None:  # an approved call, before any request
            views = [_as_gate_tool(tool) for tool in context.tools or () if tool.name not in SEARCH_NAMES]
            cutting.latest = await cutting.decide(self.run.get_messages(include_input=True), views, {})
        may_run = None if cutting.latest is None else cutting.latest.may_run
        words = cutting.gate.refusal(_as_gate_tool(function), may_run, dict(context.arguments))
        if words:
            context.result = words
            return
        with running_for(cutting.gate.privilege, may_run):
            await call_next()


def _function(tool: Tool, run: Callable[..., Any]) -> Any:
    return FunctionTool(name=tool.name, description=tool.description, func=run, input_model=dict(tool.schema))


def _as_gate_tool(tool: Any) -> Any:
    """A function as the gate reads it; what the provider runs itself as it is."""
    if not isinstance(tool, FunctionTool):
        return tool
    return Tool(tool.name, tool.description or "", tool.parameters)


def _forced_names(choice: Any) -> list[str]:
    """The function that a `tool_choice` names, if any."""
    if not isinstance(choice, dict) or not choice.get("required_function_name"):
        return []
    return [choice["required_function_name"]]


def _read_message(message: Any, others: Collection[str]) -> dict[str, Any]:
    """A message as OpenAI's chat has it; what `others` than those who keep the history put there is not the user's."""
    source = message.additional_properties.get("_attribution") or {}
    role = str(message.role)
    if role == "user" and source.get("source_id") in others:
        role = SUMMARY
    texts = [content.text for content in message.contents if content.type == "text"]
    calls = [(call.name, call.arguments) for call in message.contents if call.type == "function_call"]
    return chat_message(role, texts, calls)


def _as_written(message: Any) -> Any:
    """A message as the model wrote it."""
    if not any(map(_is_through_the_search, message.contents)):
        return message
    return Message(message.role, [_call_as_written(content) for content in message.contents])


def _call_as_written(content: Any) -> Any:
    if content.type != "function_call" or not _is_through_the_search(content):
        return content
    arguments = {"name": content.name, "arguments": json_arguments(content.arguments)}
    return Content.from_function_call(content.call_id, CALL.name, arguments=arguments)


def _is_through_the_search(content: Any) -> bool:
    return THROUGH in (content.additional_properties or {})
