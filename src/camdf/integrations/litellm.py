"""LiteLLM proxy: a hook that forwards, of the tools in a request, those that its task deserves.

    gate_hook = ToolGate(gate)                        # in gating.py, beside the proxy's configuration
    litellm_settings: {callbacks: gating.gate_hook}   # in the configuration

It serves /v1/chat/completions, /v1/messages and /v1/responses, streamed or not. The conversation is the session that
the proxy knows (a header such as `x-litellm-session-id`, `session_id` in the metadata), the `conversation` of a
Responses request, or else the first user message: together with API key and end user, so that no two tenants share
one, and as a digest, so that no text is kept. A `previous_response_id` alone names another response at every turn and
leaves the history with the provider: what it has called cannot be known, so nothing is cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from camdf.errors import needs
from camdf.gate import Gate
from camdf.tools import called_tools, forced_tools, last_user_text, view

with needs("litellm"):
    from litellm.integrations.custom_logger import CustomLogger


class ToolGate(CustomLogger):
    """Keeps in `data["tools"]` what `gate` keeps, in its order; tools the provider runs itself always pass.

    Tools that the history has called and a forced `tool_choice` are kept. The proxy passes on whatever the model
    answers: a call to a cut tool reaches the client, which may run it; from then on it is in the history and offered.
    Do not subclass: the proxy refuses a callback that is no `CustomLogger`, and skips a hook that is only inherited.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: str) -> Any:
        tools = data.get("tools")
        if not isinstance(tools, list) or not tools:
            return data
        try:
            question = _question(data, (user_api_key_dict.api_key, user_api_key_dict.end_user_id))
        except Exception:  # a request that the provider will refuse; what may be offered is asked even so
            question = {"task": ""}
        kept = await self.gate.adecide(**question, tools=tools)
        data["tools"] = kept.tools
        for name in () if kept.tools else ("tools", "tool_choice", "parallel_tool_calls"):
            data.pop(name, None)  # every tool was refused: providers reject an empty list and a choice among nothing
        return data


def _question(data: Mapping[str, Any], tenant: tuple[Any, ...]) -> dict[str, Any]:
    said = data.get("messages") or data.get("input")
    history = said if isinstance(said, list) else [{"role": "user", "content": said}]
    task, source = last_user_text(history), _session(data)
    if not source and data.get("previous_response_id"):
        return {"task": task, "keep": [view(tool).name for tool in data["tools"]]}
    source = source or next(filter(None, (last_user_text([message]) for message in history)), "")
    conversation = hashlib.sha256(repr((*tenant, source)).encode()).hexdigest() if source else None
    keep = [*called_tools(history), *forced_tools(data.get("tool_choice"))]
    return {"task": task, "conversation": conversation, "keep": keep}


def _session(data: Mapping[str, Any]) -> str:
    metadata = {**(data.get("metadata") or {}), **(data.get("litellm_metadata") or {})}
    known = data.get("litellm_session_id") or metadata.get("session_id")
    if known and not metadata.get("litellm_session_id_generated"):  # which is another one at every turn
        return f"session {known}"
    held = data.get("conversation")
    return f"conversation {held.get('id') if isinstance(held, Mapping) else held}" if held else ""
