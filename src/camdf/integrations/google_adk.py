"""Google ADK: a plugin that gives the models of an app's agents the tools that their conversations deserve.

    app = App(name="travel", root_agent=agent, plugins=[ToolGate(gate)])

The conversation is the contents of a model request, so any worker that has the session decides the same, and nothing is
kept here. What may run is known to the run that is under way; where a confirmed call runs elsewhere, that is decided
again by the events of the session, and not kept in its state, where a tool may write what it is told. With a search,
ADK, its callbacks, confirmations and traces see the tool that a `call_tool` means, called by its own name; the model
sees the `call_tool` that it wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.privilege import CALLERS
from camdf.gate.tool_search import CALL, ToolCall, fits, listing, meant, query_of
from camdf.integrations.chat import chat_message
from camdf.tools import Tool

with needs("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

THROUGH = "camdf_through_the_search"
"""Where the metadata of a part says that the model wrote its call as a `call_tool`."""

OWN = ("FinishTaskTool", "SetModelResponseTool", "TransferToAgentTool")
"""Tools that ADK adds to an agent: they hand over, and end a task or a structured answer."""

NOT_THE_USER = ("For context: below is a transcript of what another agent did", "<<<BEGIN_SYSTEM_INSTRUCTION>>>")
"""How ADK begins what it files under the user, and others said."""


class _Request(NamedTuple):
    """A request to a model."""

    by: tuple[str, str] = ("", "")
    """The run that it is of, and the agent."""

    behind: Mapping[str, Tool] = {}
    """What its tool search leads to; nothing where it has none."""

    may_run: Collection[str] | None = None


NONE = _Request()
"""Where none was made yet."""

LATEST: ContextVar[_Request] = ContextVar("camdf_latest")
"""The latest request of the run that is under way."""


class ToolGate(BasePlugin):
    """Hands the model the functions that `gate` keeps, in its order; tools the provider runs itself always pass.

    Kept are what ADK adds to an agent, and the functions that the request allows by name. `tool_search` adds
    `find_tool` and `call_tool` where functions are cut. ADK runs a cut tool that the model calls from memory, unless
    the gate refuses it. Where the provider holds the history, and in live sessions, nothing is cut.
    """

    def __init__(self, gate: Gate, *, tool_search: bool = True) -> None:
        super().__init__(name="camdf")
        self.gate = gate
        self.tool_search = tool_search

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        config = llm_request.config
        hosted = [tool for tool in config.tools or () if not _functions(tool)]
        declared = {function.name: function for tool in config.tools or () for function in _functions(tool)}
        tools = {name: _as_gate_tool(function) for name, function in declared.items()}
        choice = config.tool_config and config.tool_config.function_calling_config
        contents = list(_as_written(llm_request.contents))
        elsewhere = getattr(llm_request, "previous_interaction_id", None)  # the provider holds the history
        if elsewhere and self.gate.privilege is None:
            history = []
            keep = list(tools)
        else:
            history = [_read_content(content) for content in contents]
            keep = [name for name in tools if type(llm_request.tools_dict.get(name)).__name__ in OWN]
        decision = await self.gate.adecide(
            history,
            tools.values(),
            conversation=callback_context.session.id,
            user=callback_context.user_id,
            keep=keep,
            forced=(choice and choice.allowed_function_names) or (),
            tool_search=self.tool_search and fits(self.gate.mode, tools),
            permitted=_permitted_by_caller(callback_context),
        )
        offered = [declared[tool.name] for tool in decision.head]
        behind: dict[str, Tool] = {}
        if decision.search:
            behind = {name: tools[name] for name in (*decision.kept, *decision.cut)}
            for tool in decision.search:
                search = _SearchTool(tool, self.gate, behind)
                llm_request.tools_dict[tool.name] = search
                offered.append(search._get_declaration())
        LATEST.set(_Request(_run_and_agent(callback_context), behind, decision.may_run))
        for place, note in decision.notes.items():
            noted = [*contents[place].parts, types.Part(text=note)]
            contents[place] = contents[place].model_copy(update={"parts": noted})
        llm_request.contents = contents
        functions = [types.Tool(function_declarations=offered)] if offered else []
        config.tools = [*functions, *hosted]

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        behind = LATEST.get(NONE).behind
        content = llm_response.content
        if behind and content is not None and not llm_response.partial:
            content.parts = [_as_meant(part, behind) for part in content.parts or ()]

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        if isinstance(tool, _SearchTool) or type(tool).__name__ in OWN:
            return None
        declared = tool._get_declaration() or types.FunctionDeclaration(name=tool.name)
        may_run = await self._may_run(tool_context)
        words = self.gate.refusal(_as_gate_tool(declared), may_run, tool_args)
        if words:
            return {"result": words}
        if self.gate.privilege is not None:
            CALLERS.set(may_run or ())  # for the rest of this task: ADK runs each call in one of its own
        return None

    async def _may_run(self, tool_context: Any) -> Collection[str] | None:
        """What may run, as the agent's latest request had it, or by the session where it had none here."""
        latest = LATEST.get(NONE)
        if self.gate.privilege is None or latest.by == _run_and_agent(tool_context):
            return latest.may_run
        try:
            tools = await tool_context._invocation_context.agent.canonical_tools(tool_context)
            declared = filter(None, [tool._get_declaration() for tool in tools])
            events = [event for event in tool_context.session.events if event.content and not _scope_of(event)]
            history = [_read_content(event.content) for event in events]
        except Exception:
            return None
        permitted = _permitted_by_caller(tool_context)
        return (await self.gate.adecide(history, [*map(_as_gate_tool, declared)], permitted=permitted)).may_run


class _SearchTool(BaseTool):
    """`find_tool`, or a `call_tool` that means no tool: the others are called by their own names."""

    def __init__(self, tool: Tool, gate: Gate, behind: Mapping[str, Tool]) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self.schema = dict(tool.schema)
        self.gate = gate
        self.behind = behind

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        if self.name == CALL.name:
            return str(meant(args, self.behind))
        tools = self.behind.values()
        return listing(await self.gate.afind(query_of(args), tools), tools)


def _scope_of(part: Any) -> str:
    """The call by which an agent gave another a task; "" for what is under way for the user."""
    return getattr(part, "isolation_scope", None) or ""


def _permitted_by_caller(context: Any) -> Collection[str] | None:
    """What may run in the agent that gave this one its task, which ADK files under the user; None where none did."""
    if not _scope_of(context):
        return None
    return LATEST.get(NONE).may_run or ()


def _run_and_agent(context: Any) -> tuple[str, str]:
    return context.invocation_id, context.agent_name


def _as_gate_tool(function: Any) -> Tool:
    """A declared function as the gate reads it."""
    return Tool(function.name, function.description or "", partial(_function_schema, function))


def _functions(tool: Any) -> list[Any]:
    return getattr(tool, "function_declarations", None) or []


def _function_schema(function: Any) -> Mapping[str, Any]:
    schema: Any = function.parameters_json_schema
    if schema is None and function.parameters is not None:
        schema = function.parameters.json_schema.model_dump(mode="json", exclude_none=True)
    return schema or {}


def _read_content(content: Any) -> dict[str, Any]:
    """A content as a message of OpenAI's chat."""
    parts = content.parts or ()
    texts = [part.text for part in parts if part.text and not part.thought]
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    if content.role == "model":
        role = "assistant"
    elif any(part.function_response for part in parts) or "".join(texts).startswith(NOT_THE_USER):
        role = "tool"
    else:
        role = "user"
    return chat_message(role, texts, calls)


def _as_meant(part: Any, behind: Mapping[str, Tool]) -> Any:
    """A call of `call_tool` as a call of the tool that it means, with a note."""
    call = part.function_call
    if not call or call.name != CALL.name:
        return part
    read = meant(call.args, behind)
    if not isinstance(read, ToolCall):
        return part
    named = call.model_copy(update={"name": read.name, "args": read.arguments})
    note = {**(part.part_metadata or {}), THROUGH: True}
    return part.model_copy(update={"function_call": named, "part_metadata": note})


def _as_written(contents: list[Any]) -> Iterator[Any]:
    """The contents as the model wrote them. An answer has the id of its call or, where ADK has none, its name."""
    through: set[str] = set()
    for content in contents:
        parts = []
        for part in content.parts or ():
            call = part.function_call
            answer = part.function_response
            if call and THROUGH in (part.part_metadata or {}):
                through.add(call.id or call.name)
                parts.append(_call_as_written(part))
            elif answer and (answer.id or answer.name) in through:
                renamed = answer.model_copy(update={"name": CALL.name})
                parts.append(part.model_copy(update={"function_response": renamed}))
            else:
                parts.append(part)
        yield content.model_copy(update={"parts": parts})


def _call_as_written(part: Any) -> Any:
    """The `call_tool` that the model wrote, without the note."""
    call = part.function_call
    arguments = {"name": call.name, "arguments": call.args or {}}
    written = call.model_copy(update={"name": CALL.name, "args": arguments})
    note = {key: value for key, value in part.part_metadata.items() if key != THROUGH}
    return part.model_copy(update={"function_call": written, "part_metadata": note or None})
