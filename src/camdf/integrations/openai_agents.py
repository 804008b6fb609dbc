"""OpenAI Agents: an agent whose model gets the tools that its conversation deserves.

    agent = ToolGate(Agent(name="Travel", tools=tools), gate)

The conversation is the input of the run, with the history of its session, so any worker decides the same, and nothing
is kept here. Where the provider keeps the history (`conversation_id`, `previous_response_id`), an agent sees only what
is new: then nothing is cut. A run has one list of tools, however many turns it takes.

Where the gate has a privilege, the list has only what may run, and `call_tool` answers a call of any other tool in
words. Where the history is not seen, as in a run that comes back from an approval, only what is free may run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import fields, replace
from types import FrameType
from typing import Any, NamedTuple, TypeVar, cast

from camdf.errors import needs
from camdf.gate import Gate, GateDecision
from camdf.gate.privilege import CALLERS, running_for
from camdf.gate.telemetry import EVENT
from camdf.gate.tool_search import CALL, FIND, ToolCall, find_tool, fits, listing, meant, query_of

with needs("openai-agents"):
    from agents import (
        Agent,
        FunctionTool,
        Model,
        ModelSettings,
        OpenAIResponsesModel,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputGuardrail,
        ToolOutputGuardrailData,
        ToolSearchTool,
        custom_span,
        function_span,
        get_current_trace,
    )
    from agents.tool import invoke_function_tool
    from agents.tool_context import ToolContext

AnAgent = TypeVar("AnAgent", bound=Agent)

NOTHING: ContextVar[bool] = ContextVar("camdf_nothing_offered", default=False)
"""Whether the turn that is under way has no tool at all."""


def ToolGate(agent: AnAgent, gate: Gate, *, tool_search: bool = True) -> AnAgent:  # noqa: N802
    """A copy of the `agent` that has, in each run, the tools that `gate` keeps, in its order.

    Handoffs are no tools here and are left alone; so are tools that the provider runs itself. Kept are a forced
    `tool_choice`, tools that end the run and deferred ones, which cost nothing until a search finds them. The agent
    does not have a cut tool: a call to it raises ModelBehaviorError, unless the run has
    `RunConfig(tool_not_found_behavior="return_error_to_model")`. The `tool_search`, two tools, `find_tool` and
    `call_tool`, leads to what is cut; in mode "defer", the tool search of OpenAI Responses does. Clones of the copy are
    gated too.
    """
    kind = type(agent)

    class Gated(kind):  # type: ignore[misc, valid-type]
        async def get_all_tools(self, run_context: Any) -> list[Any]:
            tools = await super().get_all_tools(run_context)
            run = _run_that_asks()
            if run.is_held_elsewhere or not run_context.turn_input:
                history = []
                keep = [] if gate.privilege else [tool.name for tool in tools]
            else:
                history = run_context.turn_input
                keep = _needed(self, [] if gate.privilege else tools)
            has_tool_search = tool_search and _can_have_tool_search(self, gate, tools)
            decision = await gate.adecide(
                history,
                tools,
                conversation=run.session or getattr(get_current_trace(), "group_id", None),
                keep=keep,
                forced=[self.model_settings.tool_choice],
                tool_search=has_tool_search or gate.mode == "defer",
                takes_messages=False,
            )
            with suppress(Exception), custom_span(EVENT, dict(decision.event())):
                pass  # a step of the trace, for every tracer of the framework
            if decision.mode == "defer" and decision.cut and _can_search(self):
                return _with_deferred_tools(gate.by_key(tools)[1], decision.kept, decision.cut)
            offered = [_bound_tool(tool, decision) for tool in decision.tools]
            restored = not run_context.turn_input  # its pending calls are looked up first: one may be the search's
            if has_tool_search and (decision.needs_tool_search or restored):
                offered += _search_tools(gate, tools, decision)
            NOTHING.set(not offered and not self.handoffs)
            return offered

        def __post_init__(self: Any) -> None:  # of a clone
            super().__post_init__()
            self.model_settings = _without_choice_of_nothing(self.model_settings)

    Gated.__name__ = kind.__name__
    Gated.__qualname__ = kind.__qualname__
    twin: Any = copy(agent)
    twin.model_settings = _without_choice_of_nothing(twin.model_settings)
    twin.__class__ = Gated
    return cast(AnAgent, twin)


def _bound_tool(tool: Any, decision: GateDecision) -> Any:
    """A tool whose agents, if it starts any, are bound to what may run here."""
    if decision.may_run is None or not isinstance(tool, FunctionTool):
        return tool

    def bind(_: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        CALLERS.set(decision.may_run)  # for the rest of this task: the framework runs each call in one of its own
        return ToolGuardrailFunctionOutput.allow()

    bound = copy(tool)
    bound.tool_input_guardrails = [ToolInputGuardrail(bind), *(tool.tool_input_guardrails or ())]
    return bound


class _Settings(ModelSettings):
    """Settings whose `tool_choice` stays away where every tool was refused: providers reject a choice among nothing."""

    def resolve(self, override: Any) -> Any:
        settings = super().resolve(override)
        if not NOTHING.get():
            return settings
        return replace(settings, tool_choice=None, parallel_tool_calls=None)


def _without_choice_of_nothing(settings: Any) -> Any:
    if settings.tool_choice is None or isinstance(settings, _Settings):
        return settings
    return _Settings(**{setting.name: getattr(settings, setting.name) for setting in fields(settings)})


class _Run(NamedTuple):
    """What a gate has to know of a run, and its agent is not told."""

    is_held_elsewhere: bool
    """Whether the provider has the history, and the run sends only what is new."""

    session: str | None


def _run_that_asks() -> _Run:
    """The run that asks an agent for its tools, from the frames of the framework that are under way.

    Where they are not as expected, the provider is taken to hold the history, so that nothing is cut, and the
    conversation to have no name.
    """
    # The framework (0.24) has no public way to either. `RunContextWrapper`, which it gives to `get_all_tools`, to hooks
    # and to `is_enabled`, lacks the run's `session`, `conversation_id` and `previous_response_id`. `Model.get_response`
    # gets the last two, but only once the tools of the turn stand.
    frame: FrameType | None = sys._getframe(1)
    elsewhere = None
    session = None
    while frame is not None and (elsewhere is None or session is None):
        held = frame.f_locals
        if elsewhere is None and "server_conversation_tracker" in held:
            elsewhere = held["server_conversation_tracker"] is not None
        session = session or getattr(held.get("session"), "session_id", None)
        frame = frame.f_back
    return _Run(elsewhere is not False, session if isinstance(session, str) else None)


def _needed(agent: Any, tools: list[Any]) -> list[str]:
    """The tools that end a run, and those that are deferred."""
    deferred = [tool.name for tool in tools if getattr(tool, "defer_loading", False)]
    behavior = agent.tool_use_behavior
    if not isinstance(behavior, Mapping):
        return deferred
    return [*behavior.get("stop_at_tool_names", ()), *deferred]


def _can_search(agent: Any) -> bool:
    """A model that is given by its name is taken for one of OpenAI Responses, the framework's default."""
    return not isinstance(agent.model, Model) or isinstance(agent.model, OpenAIResponsesModel)


def _with_deferred_tools(named: dict[str, Any], kept: tuple[str, ...], cut: tuple[str, ...]) -> list[Any]:
    """The tools that are kept, the provider's tool search, and those that it leads to."""
    offered = [named[name] for name in kept]
    if not any(isinstance(tool, ToolSearchTool) for tool in named.values()):
        offered.append(ToolSearchTool())
    for name in cut:
        hidden = copy(named[name])
        hidden.defer_loading = True
        offered.append(hidden)
    return offered


def _can_have_tool_search(agent: Any, gate: Gate, tools: list[Any]) -> bool:
    return agent.tool_use_behavior != "stop_on_first_tool" and fits(gate.mode, (tool.name for tool in tools))


def _search_tools(gate: Gate, tools: list[Any], decision: GateDecision) -> list[FunctionTool]:
    """`find_tool`, and `call_tool`, which asks the tool that is meant for approval, guardrails and time-outs."""
    behind = {
        tool.name: tool
        for key, tool in gate.by_key(tools)[1].items()
        if isinstance(tool, FunctionTool) and not tool.defer_loading and key not in decision.refused
    }

    def read(arguments: object) -> tuple[FunctionTool | None, str]:
        """The tool that is meant and its arguments, or none and what the model is told."""
        called = meant(arguments, behind)
        if not isinstance(called, ToolCall):
            return None, called
        return behind[called.name], json.dumps(called.arguments)

    async def find(context: Any, arguments: str) -> str:
        return listing(await gate.afind(query_of(arguments), behind.values()), behind.values())

    async def call(context: Any, arguments: str) -> Any:
        tool, inner = read(arguments)
        if tool is None:
            return inner
        words = gate.refusal(tool, decision.may_run, json.loads(inner))
        if words:
            return words
        with function_span(tool.name):
            within = _inside(context, tool, inner)
            with running_for(gate.privilege, decision.may_run):
                return await invoke_function_tool(function_tool=tool, context=within, arguments=inner)

    async def needs_approval(context: Any, parameters: dict[str, Any], call_id: str) -> bool:
        from agents.util._approvals import (
            evaluate_function_tool_approval,  # no public name; only the tool search needs it
        )

        tool, inner = read(parameters)
        if tool is None:
            return False
        return bool((await evaluate_function_tool_approval(tool, context, inner, call_id)).outcome != "invoke")

    async def checked(kind: str, data: Any, **more: Any) -> ToolGuardrailFunctionOutput:
        tool, inner = read(data.context.tool_arguments)
        for guardrail in (tool and getattr(tool, kind)) or ():
            within = type(data)(_inside(data.context, tool, inner), data.agent, **more)
            verdict: ToolGuardrailFunctionOutput = await guardrail.run(within)
            if verdict.behavior["type"] != "allow":
                return verdict
        return ToolGuardrailFunctionOutput.allow()

    async def check_input(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        return await checked("tool_input_guardrails", data)

    async def check_output(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return await checked("tool_output_guardrails", data, output=data.output)

    return [
        FunctionTool(
            FIND.name, find_tool(decision.hidden).description, dict(FIND.schema), find, strict_json_schema=False
        ),
        FunctionTool(
            CALL.name,
            CALL.description,
            dict(CALL.schema),
            call,
            strict_json_schema=False,
            tool_input_guardrails=[ToolInputGuardrail(check_input)],
            tool_output_guardrails=[ToolOutputGuardrail(check_output)],
            # The framework asks for approval of a call that is no JSON where a function decides on approvals.
            needs_approval=needs_approval if any(tool.needs_approval for tool in behind.values()) else False,
        ),
    ]


def _inside(context: Any, tool: Any, arguments: str) -> Any:
    """The context of the call as the tool that is meant knows it."""
    return ToolContext.from_agent_context(
        context,
        context.tool_call_id,
        tool_call=context.tool_call,
        agent=context.agent,
        tool_name=tool.name,
        tool_arguments=arguments,
        run_config=context.run_config,
    )
