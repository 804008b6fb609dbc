"""pydantic-ai: a capability that gives the model of an agent the tools that its task deserves.

    agent = Agent(model, tools=tools, capabilities=[ToolGate(gate)])

The conversation is pydantic-ai's own `conversation_id`, which a message history carries from run to run; a run without
a history is a conversation of its own. The task is the prompt of the run or, where a run goes on without one, the last
user prompt in its history. All state is the gate's, so one capability serves any number of agents and runs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate

with needs("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ToolCallPart, UserPromptPart


@dataclass
class ToolGate(AbstractCapability[Any]):
    """Hands the model the function tools that `gate` keeps, in its order, at every step of a run.

    Output tools never pass here. Kept are tools that the history has called, those that the agent's or the model's
    own settings name in `tool_choice`, and deferred ones: hidden until a search finds them, they cost nothing yet. A
    call to a cut tool is answered 'Unknown tool name'; from then on it is in the history and therefore offered.
    """

    gate: Gate

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None  # a gate is code, so no agent file can name it

    async def prepare_tools(self, ctx: Any, tool_defs: list[Any]) -> list[Any]:
        deferred = [tool.name for tool in tool_defs if tool.defer_loading]
        decision = await self.gate.adecide(
            _task(ctx),
            tool_defs,
            conversation=ctx.conversation_id or ctx.run_id,
            keep=[*deferred, *_called(ctx), *_chosen(ctx)],
        )
        return decision.tools


def _task(ctx: Any) -> str:
    if ctx.prompt is not None:
        return _text(ctx.prompt)
    said = (_text(part.content) for part in reversed(list(_parts(ctx))) if isinstance(part, UserPromptPart))
    return next(filter(None, said), "")


def _text(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _parts(ctx: Any) -> Iterator[Any]:
    return (part for message in ctx.messages for part in message.parts)


def _called(ctx: Any) -> list[str]:
    return [part.tool_name for part in _parts(ctx) if isinstance(part, ToolCallPart)]


def _chosen(ctx: Any) -> list[str]:
    """The settings of a run are resolved after this hook, so only those that stand before it are seen."""
    standing = [getattr(ctx.model, "settings", None), getattr(ctx.agent, "model_settings", None)]
    choices = [settings.get("tool_choice") for settings in standing if isinstance(settings, Mapping)]
    listed = [getattr(choice, "function_tools", choice) for choice in choices]
    return [name for names in listed if isinstance(names, list) for name in names]
