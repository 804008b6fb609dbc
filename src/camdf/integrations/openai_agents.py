"""OpenAI Agents: an agent whose model gets the tools that its task deserves.

    agent = gated(Agent(name="Travel", tools=tools), gate)

The conversation is the `group_id` of the run (`RunConfig(group_id="thread 7")`, which the framework keeps in the trace)
and the agent's name; a run without a group, or with tracing disabled, is a conversation of its own. The task is the
last user message at the start of the run, so a run is decided once however many turns it takes. A run that comes back
from storage, after an approval, has every tool again: what it waits for may have been kept for reasons forgotten here.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

from camdf.errors import needs
from camdf.gate import Gate
from camdf.tools import called_tools, last_user_text, view

with needs("openai-agents"):
    from agents import Agent, get_current_trace

AnAgent = TypeVar("AnAgent", bound=Agent)


def gated(agent: AnAgent, gate: Gate) -> AnAgent:
    """A copy of the agent that has, in each run, the tools that `gate` keeps, in its order.

    Handoffs are no tools here and are left alone; so are tools that the provider runs itself. Kept are tools that the
    history has called, a forced `tool_choice`, tools that end the run and deferred ones, which cost nothing until a
    search finds them. The agent does not have a cut tool: a call to it raises ModelBehaviorError, unless the run has
    `RunConfig(tool_not_found_behavior="return_error_to_model")`. Clones of the copy are gated too.
    """
    kind = type(agent)
    runs: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
    restored: WeakSet[Any] = WeakSet()

    class Gated(kind):  # type: ignore[misc, valid-type]
        async def get_all_tools(self, run_context: Any) -> list[Any]:
            tools = await super().get_all_tools(run_context)
            question = _question(self, tools, run_context.turn_input)
            if not question["task"]:  # so it is for a run that comes back from storage: its tools are looked up first
                restored.add(run_context)
            if run_context in restored:
                question = {"task": "", "tools": tools, "keep": [view(tool).name for tool in tools]}
            else:
                group = getattr(get_current_trace(), "group_id", None) or runs.setdefault(run_context, uuid4().hex)
                question["conversation"] = f"{group}/{self.name}"
            return (await gate.adecide(**question)).tools

    Gated.__name__, Gated.__qualname__ = kind.__name__, kind.__qualname__
    twin = copy(agent)
    twin.__class__ = Gated
    return twin


def _question(agent: Any, tools: list[Any], history: list[Any]) -> dict[str, Any]:
    behaviour, choice = agent.tool_use_behavior, agent.model_settings.tool_choice
    last = behaviour.get("stop_at_tool_names", ()) if isinstance(behaviour, Mapping) else ()
    deferred = [tool.name for tool in tools if getattr(tool, "defer_loading", False)]
    keep = [*called_tools(history), *last, *deferred, choice]
    return {"task": last_user_text(history), "tools": tools, "keep": keep}
