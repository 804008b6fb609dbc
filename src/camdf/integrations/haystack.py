"""Haystack: a chat generator around another, which sends the tools that a conversation deserves.

    agent = Agent(chat_generator=ToolGate(generator, gate), tools=tools)

The conversation is the messages of a request, so any worker that has them decides the same, and nothing is kept here.
This is no toolset: a toolset is not told what was said. The agent keeps all tools, and sees the tool that a `call_tool`
means, called by its own name. Searches are answered here, and noted in the metadata of the reply that follows, from
where the model gets them again: it sees all that it wrote.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.privilege import running_for
from camdf.gate.tool_search import CALL, FIND, ToolCall, fits, listing, meant, query_of
from camdf.gate.turns import SUMMARY
from camdf.integrations.chat import chat_message
from camdf.tools import forced_tools

with needs("haystack"):
    from haystack import component
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool, flatten_tools_or_toolsets

THROUGH = "camdf_through_the_search"
"""Where a call says that the model wrote it as a `call_tool`."""

SEARCHED = "camdf_searched"
"""Where a reply says which searches came before it."""

COMPACTED = "context_compaction"
"""Where Haystack says that a message of the user stands for others."""

Step: TypeAlias = tuple[str, dict[str, Any]]
"""What to do next, and with which arguments."""

IN_A_ROW = 20
"""How many replies of a step may be searches alone; after that Haystack answers, and counts the step."""


@component
class ToolGate:
    """Sends `generator` the tools that `gate` keeps, in its order.

    Kept is a forced `tool_choice`. `tool_search` adds `find_tool` and `call_tool` where tools are cut. The agent runs a
    cut tool that the model calls from memory, unless the gate refuses it.
    """

    def __init__(self, generator: Any, gate: Gate, *, tool_search: bool = True) -> None:
        self.generator = generator
        self.gate = gate
        self.tool_search = tool_search

    def warm_up(self) -> None:
        if hasattr(self.generator, "warm_up"):
            self.generator.warm_up()

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        does = {"decide": self.gate.decide, "find": self.gate.find, "ask": self.generator.run}
        steps = self._steps(messages, tools, streaming_callback, generation_kwargs)
        result = None
        try:
            while True:
                step, arguments = steps.send(result)
                result = does[step](**arguments)
        except StopIteration as end:
            return {"replies": end.value}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: Any = None,
    ) -> dict[str, Any]:
        does = {"decide": self.gate.adecide, "find": self.gate.afind, "ask": self.generator.run_async}
        steps = self._steps(messages, tools, streaming_callback, generation_kwargs)
        result = None
        try:
            while True:
                step, arguments = steps.send(result)
                result = await does[step](**arguments)
        except StopIteration as end:
            return {"replies": end.value}

    def _steps(
        self, messages: list[ChatMessage], tools: Any, callback: Any, settings: Any
    ) -> Generator[Step, Any, list[ChatMessage]]:
        """Yields one step after the other, and is sent what came of it; returns the replies."""
        listed = flatten_tools_or_toolsets(tools) if tools else []
        natives = {tool.name: tool for tool in listed}
        history = list(_as_written(messages))
        tool_search = self.tool_search and fits(self.gate.mode, natives)
        question = {
            "task": [_read_message(message) for message in history],
            "tools": listed,
            "forced": forced_tools((settings or {}).get("tool_choice")),
            "tool_search": tool_search,
        }
        decision = yield "decide", question
        if self.gate.privilege is not None and isinstance(tools, list):
            tools[:] = [self._bound_tool(tool, decision) for tool in tools]
        searchable = natives if decision.search else {}
        behind = {name: tool for name, tool in searchable.items() if name not in decision.refused}
        request = {
            "streaming_callback": callback,
            "generation_kwargs": settings,
            "tools": [*decision.head, *map(_declared, decision.search)] or None,
        }
        for place, note in decision.notes.items():
            history[place] = _with_note(history[place], note)
        given = {name: value for name, value in request.items() if value is not None}
        searched: list[ChatMessage] = []
        for _ in range(IN_A_ROW):
            result = yield "ask", {"messages": [*history, *searched], **given}
            replies = result["replies"]
            calls = [call for reply in replies for call in reply.tool_calls]
            answers = []
            for call in calls:
                if decision.search and call.tool_name == FIND.name:
                    hits = yield "find", {"query": query_of(call.arguments), "tools": behind.values()}
                    words = listing(hits, behind.values())
                else:
                    words = self._words_for(call, natives, behind, decision)
                if words:
                    answers.append(ChatMessage.from_tool(words, call))
            if not answers or len(answers) < len(calls) or len(replies) > 1:
                break
            searched += [replies[0], *answers]
        return [_as_meant(reply, behind, searched, answers) for reply in replies]

    def _bound_tool(self, tool: Any, decision: GateDecision) -> Any:
        """A tool whose agents, if it starts any, are bound to what may run here.

        Haystack has no hook around a tool. Its agent makes a list of its tools for each step, which it hands over here,
        and then runs those that are on it.
        """

        async def invoke_async(**arguments: Any) -> Any:
            with running_for(self.gate.privilege, decision.may_run):
                return await tool.invoke_async(**arguments)

        if not isinstance(tool, Tool):
            return tool
        bound: Any = copy(tool)
        bound.invoke = running_for(self.gate.privilege, decision.may_run)(tool.invoke)
        bound.invoke_async = invoke_async
        return bound

    def _words_for(self, call: Any, natives: dict[str, Any], behind: dict[str, Any], decision: GateDecision) -> str:
        """What a model is told whose call runs nothing; "" for a call that the agent runs."""
        name = call.tool_name
        arguments = call.arguments
        if behind and name == CALL.name:
            read = meant(arguments, behind)
            if isinstance(read, str):
                return read
            name, arguments = read
        return self.gate.refusal(natives[name], decision.may_run, arguments) if name in natives else ""


def _declared(tool: Any) -> Any:
    return Tool(name=tool.name, description=tool.description, parameters=dict(tool.schema), function=_never)


def _never(**_: Any) -> str:
    """The tool search is answered by the gate, and not by a tool of the agent."""
    return ""


def _as_meant(reply: Any, behind: dict[str, Any], searched: list[Any], answers: list[Any]) -> Any:
    """A reply as the agent gets it: with the tools that its calls mean, and without the calls that are answered."""
    answers = [answer for answer in answers if answer.tool_call_result.origin in reply.tool_calls]
    answered = [id(answer.tool_call_result.origin) for answer in answers]
    calls = [_call_as_meant(call, behind) for call in reply.tool_calls if id(call) not in answered]
    meta = reply.meta
    if searched or answers:
        before = [message.to_dict() for message in searched]
        note = {"before": before, "answers": [answer.to_dict() for answer in answers]}
        meta = {**meta, SEARCHED: note}
    return ChatMessage.from_assistant(reply.text, meta, reply.name, calls, reasoning=reply.reasoning)


def _call_as_meant(call: Any, behind: dict[str, Any]) -> Any:
    if not behind or call.tool_name != CALL.name:
        return call
    read = meant(call.arguments, behind)
    if not isinstance(read, ToolCall):
        return call
    extra = {**(call.extra or {}), THROUGH: True}
    return replace(call, tool_name=read.name, arguments=read.arguments, extra=extra)


def _as_written(messages: Iterable[Any]) -> Iterator[Any]:
    """The messages as the model wrote and got them."""
    for message in messages:
        note = message.meta.get(SEARCHED) or {"before": (), "answers": ()}
        answers = [ChatMessage.from_dict(answer) for answer in note["answers"]]
        calls = [*(answer.tool_call_result.origin for answer in answers), *map(_call_as_written, message.tool_calls)]
        yield from map(ChatMessage.from_dict, note["before"])
        if calls and calls != message.tool_calls:
            meta = {key: value for key, value in message.meta.items() if key != SEARCHED}
            message = ChatMessage.from_assistant(message.text, meta, message.name, calls, reasoning=message.reasoning)
        yield message
        yield from answers


def _call_as_written(call: Any) -> Any:
    if THROUGH not in (call.extra or {}):
        return call
    return replace(call, tool_name=CALL.name, arguments={"name": call.tool_name, "arguments": call.arguments})


def _with_note(message: ChatMessage, note: str) -> ChatMessage:
    """A message of the user with a note after its words; no public name has all of its parts in their order."""
    return ChatMessage.from_user(meta=message.meta, name=message.name, content_parts=[*message._content, note])


def _read_message(message: Any) -> dict[str, Any]:
    """A message as OpenAI's chat has it."""
    calls = [(call.tool_name, call.arguments) for call in message.tool_calls]
    role = message.role.value
    if role == "user" and COMPACTED in message.meta:
        role = SUMMARY
    return chat_message(role, message.texts, calls)
