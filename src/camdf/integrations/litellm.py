"""LiteLLM proxy: a hook that forwards, of the tools in a request, those that its conversation deserves.

    gate_hook = ToolGate(gate)                        # in gating.py, beside the proxy's configuration
    litellm_settings: {callbacks: gating.gate_hook}   # in the configuration

It serves /v1/chat/completions, /v1/messages and /v1/responses, streamed or not. The history is what the request
carries, in `messages` or `input`, so any worker of the proxy forwards the same tools. Where the provider holds a part
of it (`previous_response_id`, `conversation`, references to stored items), nobody here knows what was said and called,
and nothing is cut; of a gate with a privilege, only what is free is forwarded.

The proxy runs no tool. A privilege bounds the list and the history that are forwarded; a call that the model writes all
the same reaches the client, which has to ask a gate of its own (`Gate.answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from camdf.errors import UsageError, needs
from camdf.gate import Gate
from camdf.gate.append import AuthorizedTools
from camdf.gate.lists import allowed_choice, has_search
from camdf.gate.telemetry import add_event
from camdf.tools import forced_tools, view

with needs("litellm"):
    from litellm.integrations.custom_logger import CustomLogger

MESSAGES = "anthropic_messages"
RESPONSES = "aresponses"
"""What the proxy calls two of its endpoints."""

HISTORIES = ("messages", "input")
"""Where requests have the history."""

SEARCHES: dict[str, dict[str, str]] = {
    MESSAGES: {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    RESPONSES: {"type": "tool_search"},
}
"""The tool search of Anthropic and of OpenAI. Chat completions have none."""


class ToolGate(CustomLogger):
    """Keeps in `data["tools"]` what `gate` keeps, in its order; tools the provider runs itself always pass.

    - In the history of a request, too, only what may be offered stays: a definition there has to be that of one of its
      `tools`, and a name that of one.
    - With mode "defer", `search` adds the provider's tool search to /v1/messages and /v1/responses where a request has
      none, so that what is cut stays within reach. Without a search the list stands.
    - Mode "append" is "drop" here: a proxy runs no search, so what is not on the list could not be called.
    - With mode "allow" the list stands, and the `tool_choice` of /v1/responses names what may be called. LiteLLM
      refuses such a choice in chat completions, and /v1/messages has none: there the gate only watches.

    The proxy passes on whatever the model answers: a call to a cut tool reaches the client, which may run it; from then
    on it is in the history and offered. Do not subclass: the proxy refuses a callback that is no `CustomLogger`, and
    skips a hook that is only inherited.
    """

    def __init__(self, gate: Gate, *, search: bool = False) -> None:
        if search and gate.mode != "defer":
            raise UsageError("Only deferred tools are found by a provider's search. Give the gate mode='defer'.")
        super().__init__()
        self.gate = gate
        self.search = search

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: str) -> Any:
        tools = data.get("tools")
        if not isinstance(tools, list) or not tools:
            if not _brings_tools(data):
                return data
            tools = []
        adds: list[Any] = []
        if self.search and call_type in SEARCHES and not has_search(tools):
            adds.append(SEARCHES[call_type])
        question = _question(data)
        if self.gate.privilege is not None:
            question.pop("keep", None)  # nobody asked for these
        decision = await self.gate.adecide(
            **question, tools=[*adds, *tools], tool_search=False, takes_messages=False
        )  # a proxy runs none
        with suppress(Exception):  # the proxy has its span at hand, and does not make it the current one
            add_event(user_api_key_dict.parent_otel_span, decision)
        searched = decision.cut and decision.mode == "defer"
        if tools:
            data["tools"] = [tool for tool in decision.tools if searched or tool not in adds]
        for field in HISTORIES:
            if isinstance(data.get(field), list):
                data[field] = decision.messages(data[field])
        if decision.mode == "allow" and decision.cut and call_type == RESPONSES:
            _, natives = self.gate.by_key(tools)
            allowed = [natives[key] for key in decision.kept]
            data["tool_choice"] = allowed_choice(allowed, data.get("tool_choice"), responses=True)
        if tools and not data["tools"]:  # all were refused: providers reject an empty list and a choice among nothing
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                data.pop(name, None)
        return data


def _brings_tools(data: Mapping[str, Any]) -> bool:
    """Whether the history of a request without a list of tools has some."""
    return any(
        AuthorizedTools().sendable(history).refused for name in HISTORIES if isinstance(history := data.get(name), list)
    )


def _question(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the gate is asked: the history, the session that picks the exploration share, and the forced tools."""
    try:
        forced = forced_tools(data.get("tool_choice"))
        said = data.get("messages") or data.get("input")
        history = said if isinstance(said, list) else [{"role": "user", "content": said}]
        if _is_elsewhere(data, history):
            return {"task": "", "keep": [view(tool).name for tool in data["tools"]], "forced": forced}
        return {"task": history, "conversation": _session(data), "forced": forced, "user": data.get("user") or ""}
    except Exception:  # a request that the provider will refuse; what may be offered is asked even so
        return {"task": ""}


def _is_elsewhere(data: Mapping[str, Any], history: list[Any]) -> bool:
    """Whether the provider holds a part of the history."""
    kinds = (item.get("type") for item in history if isinstance(item, Mapping))
    return bool(data.get("previous_response_id") or data.get("conversation")) or "item_reference" in kinds


def _session(data: Mapping[str, Any]) -> str | None:
    """The session that a client names in a header or in its metadata."""
    metadata = {**(data.get("metadata") or {}), **(data.get("litellm_metadata") or {})}
    if metadata.get("litellm_session_id_generated"):  # it is another one at every turn
        return None
    known = data.get("litellm_session_id") or metadata.get("session_id")
    return str(known) if known else None
