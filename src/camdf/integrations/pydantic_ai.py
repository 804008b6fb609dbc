"""pydantic-ai: a capability that gives the model of an agent the tools that its conversation deserves.

    agent = Agent(model, tools=tools, capabilities=[ToolGate(gate)])

The conversation is the message history of the run, so any worker decides the same, and nothing is kept here: one
capability serves any number of agents and runs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.notes import APART, without_note
from camdf.gate.privilege import running_for
from camdf.gate.tool_search import CALL, FIND, ToolCall, fits, json_arguments, listing, meant, query_of
from camdf.tools import Tool

with needs("pydantic-ai"):
    from pydantic import ValidationError
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, ProcessHistory
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
    from pydantic_ai.settings import ToolOrOutput
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.tools import ToolDefinition, ToolDenied
    from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

CUT = "camdf.cut"
"""Key in the metadata of a tool that stays on the list and may not be called: mode "allow"."""

SHUT = "camdf.shut"
"""Key in the metadata of a tool that may not run: the model is not sent it, and a call of it is answered in words."""

MAY_RUN: ContextVar[dict[str, frozenset[str] | None] | None] = ContextVar("camdf_may_run", default=None)
"""What may run in a run's step, by the name `may_run`: a mapping that the tasks of the run share."""

NOTES: ContextVar[dict[int, str] | None] = ContextVar("camdf_notes", default=None)
"""The notes of a run's step, by the identity of the user's prompt that each comes after.

A run has one mapping, which the tasks that it starts share: pydantic-ai may ask for tools in a task of its own.
"""


@dataclass
class ToolGate(AbstractCapability[Any]):
    """Hands the model the function tools that `gate` keeps, in its order, at every step of a run.

    Output tools never pass here. Kept are tools that the agent's or the model's own settings name in `tool_choice`, and
    deferred ones: hidden until a search finds them, they cost nothing yet. In mode "append" what a turn needs joins its
    prompt in a note, and the `tool_search` calls it; in this mode and in mode "drop" it leads to
    what is cut: two tools, `find_tool` and `call_tool`. In mode "defer", pydantic-ai's own tool search leads there, or
    the provider's; in mode "allow" the list stands.
    """

    gate: Gate
    _: KW_ONLY
    tool_search: bool = True

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # a gate is code, so no agent file can name it

    def get_ordering(self) -> Any:
        return CapabilityOrdering(wrapped_by=[ProcessHistory])  # so that no note is added to what is then left out

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        return GatedToolset(toolset, self.gate, self.tool_search)

    async def before_run(self, ctx: Any) -> None:
        NOTES.set({})
        MAY_RUN.set({})

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        notes = _notes_by_prompt(request_context.messages)
        parameters = request_context.model_request_parameters
        sent = [definition for definition in parameters.function_tools if SHUT not in (definition.metadata or {})]
        return replace(
            request_context,
            messages=[_with_notes(message, notes) for message in request_context.messages],
            model_request_parameters=replace(parameters, function_tools=sent),
        )

    def get_model_settings(self) -> Any:
        return _settings_of_step if self.gate.mode == "allow" else None


@dataclass
class GatedToolset(WrapperToolset[Any]):
    """The tools of an agent without what the gate cuts, and the tool search for the rest."""

    gate: Gate
    tool_search: bool

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools = await self.wrapped.get_tools(ctx)
        tool_search = self.tool_search and fits(self.gate.mode, tools)
        notes = NOTES.get()
        history = [read for message in ctx.messages for read in _read_message(message)]
        decision = await self.gate.adecide(
            [item for item, _ in history],
            [tool.tool_def for tool in tools.values()],
            conversation=_known_conversation(ctx),
            keep=[name for name, tool in tools.items() if tool.tool_def.defer_loading and not self.gate.privilege],
            forced=_forced_names(ctx),
            tool_search=tool_search or self.gate.mode == "defer",
            takes_messages=notes is not None,
        )
        offered = {definition.name: tools[definition.name] for definition in decision.head}
        if notes is not None:
            notes.clear()
            notes.update({id(history[place][1]): note for place, note in decision.notes.items()})
        if decision.mode in ("defer", "allow"):
            offered |= {name: _marked_tool(tools[name], decision.mode) for name in decision.cut}
        if tool_search and decision.needs_tool_search:
            names = (*decision.kept, *decision.cut)
            behind = {name: tools[name] for name in names if not tools[name].tool_def.defer_loading}
            offered |= self._search_tools(ctx, decision.search, behind)
        if decision.may_run is None:
            return offered
        step = MAY_RUN.get()
        if step is not None:
            step["may_run"] = decision.may_run
        cut = {name: tools[name] for name in decision.cut if name not in offered}
        return offered | {name: self._shut_tool(ctx, name, tool) for name, tool in cut.items()}

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        may_run = (MAY_RUN.get() or {}).get("may_run")
        with running_for(self.gate.privilege, may_run):
            return await self._answered(name, tool_args, ctx, tool, may_run)

    async def _answered(
        self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any, may_run: frozenset[str] | None
    ) -> Any:
        """What comes of a call: what a tool answers, or words where it may not run, or means none."""
        if not isinstance(tool, SearchTool):
            words = self.gate.refusal(tool.tool_def, may_run, tool_args)
            return words or await super().call_tool(name, tool_args, ctx, tool)
        if name == FIND.name:
            behind = [hidden.tool_def for hidden in tool.behind.values()]
            return listing(await self.gate.afind(query_of(tool_args), behind), behind)
        read: ToolCall | str = ToolCall(name, tool_args)
        if name == CALL.name:
            read = meant(tool_args, {key: hidden.tool_def for key, hidden in tool.behind.items()})
        if not isinstance(read, ToolCall):
            return read
        words = self.gate.refusal(tool.behind[read.name].tool_def, may_run, read.arguments)
        if words:
            return words
        manager: Any = ToolManager(self.wrapped, ctx.root_capability, ctx, tool.behind)
        try:
            result = await manager.handle_call(
                ToolCallPart(read.name, read.arguments, ctx.tool_call_id),
                approved=ctx.tool_call_approved,
                metadata=ctx.tool_call_metadata,
                wrap_validation_errors=False,
            )
        except ValidationError as error:  # an answer in words: all tools behind the tool search share its retries
            return f"Nothing ran: {error}"
        if isinstance(result, ToolDenied):
            return result.message
        return result

    def _shut_tool(self, ctx: Any, name: str, tool: Any) -> SearchTool:
        """A tool that may not run, by its own name: pydantic-ai ends a run that calls an unknown tool twice."""
        return SearchTool(
            toolset=self,
            tool_def=ToolDefinition(name=name, metadata={SHUT: True}),
            max_retries=ctx.max_retries,
            args_validator=_Anything(),
            behind={name: tool},
        )

    def _search_tools(self, ctx: Any, search: Sequence[Tool], behind: dict[str, Any]) -> dict[str, Any]:
        alone = any(tool.tool_def.sequential for tool in behind.values())
        return {
            part.name: SearchTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=part.name,
                    description=part.description,
                    parameters_json_schema=dict(part.schema),
                    sequential=alone and part is CALL,
                ),
                max_retries=ctx.max_retries,
                args_validator=_Anything(),
                behind=behind,
            )
            for part in search
        }


@dataclass(kw_only=True)
class SearchTool(ToolsetTool[Any]):
    """`find_tool`, `call_tool` or a tool that may not run, and the tools that it leads to."""

    behind: dict[str, Any]


class _Anything:
    """Takes the arguments of the search's two tools, none where they are no object: what is wrong is said in words."""

    def validate_json(self, written: Any, **_: Any) -> dict[str, Any]:
        return json_arguments(written) or {}

    validate_python = validate_json


def _marked_tool(tool: Any, mode: str) -> Any:
    """A tool that is cut, as the list has it in mode "defer" and in mode "allow"."""
    definition = tool.tool_def
    if mode == "defer":
        return replace(tool, tool_def=replace(definition, defer_loading=True))
    return replace(tool, tool_def=replace(definition, metadata={**(definition.metadata or {}), CUT: True}))


def _settings_of_step(ctx: Any) -> Any:
    """The settings of one step of a run: what may be called, where some tools are only listed."""
    if (ctx.model_settings or {}).get("tool_choice") not in (None, "auto"):
        return {}
    definitions = [definition for definition in ctx.tool_manager.tool_defs if definition.kind != "output"]
    kept = [definition.name for definition in definitions if CUT not in (definition.metadata or {})]
    if len(kept) == len(definitions):
        return {}
    return {"tool_choice": ToolOrOutput(function_tools=kept)}


def _notes_by_prompt(messages: Sequence[Any]) -> dict[int, str]:
    """The notes of this step, by the identity of a prompt; those of prompts that are not sent go with the last one."""
    notes = NOTES.get() or {}
    sent = [id(part) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    gathered: dict[int, list[str]] = {}
    for key, note in notes.items():
        if sent:
            gathered.setdefault(key if key in sent else sent[-1], []).append(note)
    return {key: APART.join(own) for key, own in gathered.items()}


def _with_notes(message: Any, notes: Mapping[int, str]) -> Any:
    """A message with the notes after the words of the user that they belong to."""
    if not any(id(part) in notes for part in message.parts):
        return message
    return replace(message, parts=[_with_note(part, notes.get(id(part))) for part in message.parts])


def _with_note(part: Any, note: str | None) -> Any:
    if note is None:
        return part
    if isinstance(part.content, str):
        return replace(part, content=f"{part.content}{APART}{note}")
    return replace(part, content=[*part.content, note])


def _known_conversation(ctx: Any) -> str | None:
    """The conversation's id, unless it was made up for this run: that of a history has its messages."""
    earlier = [message for message in ctx.messages if getattr(message, "run_id", None) != ctx.run_id]
    known = [getattr(message, "conversation_id", None) for message in earlier]
    if earlier and ctx.conversation_id not in known:
        return None
    return ctx.conversation_id  # type: ignore[no-any-return]


def _read_message(message: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """The parts of a message as OpenAI has them, each beside the part itself."""
    role = "assistant" if isinstance(message, ModelResponse) else "tool"
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            said = {"role": "user", "content": _prompt_content(part.content)}
            yield dict(without_note(said).message), part
        elif isinstance(part, ToolCallPart):
            yield {"type": "function_call", "name": part.tool_name, "arguments": part.args_as_json_str()}, part
        elif isinstance(part, TextPart) or role == "tool":
            yield {"role": role, "content": str(getattr(part, "content", ""))}, part


def _prompt_content(prompt: Any) -> Any:
    if isinstance(prompt, str):
        return prompt
    return [_prompt_part(part) for part in prompt]


def _prompt_part(part: Any) -> dict[str, Any]:
    """A part of a prompt as OpenAI has it: a text, or something that is none."""
    text = part if isinstance(part, str) else getattr(part, "content", None)
    if not isinstance(text, str):
        return {"type": "image_url"}
    return {"type": "text", "text": text}


def _forced_names(ctx: Any) -> list[str]:
    """The tools that settings name in `tool_choice`.

    The settings of a run are resolved after its tools, so only those that stand before it are seen.
    """
    standing = [getattr(ctx.model, "settings", None), getattr(ctx.agent, "model_settings", None)]
    choices = [settings.get("tool_choice") for settings in standing if isinstance(settings, Mapping)]
    listed = [getattr(choice, "function_tools", choice) for choice in choices]
    return [name for names in listed if isinstance(names, list) for name in names]
