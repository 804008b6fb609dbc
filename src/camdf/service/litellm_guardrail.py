"""LiteLLM's Generic Guardrail API: its proxy needs a URL in its configuration, and no Python of ours.

| of LiteLLM's request | what it is here |
| --- | --- |
| `structured_messages`, `tools` | the conversation and its tools, as of `/v1/decide` |
| `litellm_trace_id` | the conversation's name, where a header of the client's has it |
| `user_api_key_end_user_id` | `user` |
| `additional_provider_specific_params` | `route` and `keep` |
| the client's header `x-camdf-tool-search` | `tool_search`: it answers `call_tool`. No other client does |
| `model` | not used: what joins a conversation stands in a note, which every model reads |
| `tool_choice`, `previous_response_id` | not in it: tools that clients force have to be in `keep` |

| of the decision | what LiteLLM is told |
| --- | --- |
| the tools, and the search of a client that answers it | `tools` |
| changed messages | `structured_messages` |
| no tools | all that may be offered, since LiteLLM ignores an empty list; "BLOCKED" where none may be |
"""

from __future__ import annotations

from typing import Any

from camdf.errors import needs
from camdf.service import shapes
from camdf.service.calls import HttpAnswer, HttpCall
from camdf.service.deciding import Asked, Deciding, asked_within_limits
from camdf.service.litellm_shapes import DeclaredParams, GuardrailAnswer, GuardrailRequest
from camdf.tools import name_of

with needs("serve"):
    from msgspec import UNSET

SEARCHES = "x-camdf-tool-search"
UNCHANGED = GuardrailAnswer(action="NONE")
REFUSED = GuardrailAnswer(action="BLOCKED", blocked_reason="None of the tools of this request may be offered.")


async def answer_guardrail(deciding: Deciding, call: HttpCall) -> HttpAnswer:
    """What the proxy is to do with a request, by the decision on its tools."""
    sent = await call.read_as(GuardrailRequest)
    if sent.input_type != "request" or not sent.tools:
        return HttpAnswer.as_json(UNCHANGED)
    declared = sent.additional_provider_specific_params or DeclaredParams()
    headers = sent.request_headers or {}
    is_named = sent.litellm_trace_id in headers.values()  # if not, it is another one at every request
    question = shapes.DecideRequest(
        messages=sent.structured_messages or [],
        tools=sent.tools,
        keep=declared.keep,
        tool_search=SEARCHES in headers,
        conversation=(is_named and sent.litellm_trace_id) or UNSET,
        user=(sent.request_data or {}).get("user_api_key_end_user_id") or "",
        route=declared.route,
    )
    asked = asked_within_limits(call, question, _told)
    call.enter(asked.work)
    (answer,) = await deciding.answers([asked])
    return HttpAnswer(answer)


def _told(asked: Asked, decision: shapes.Decision) -> GuardrailAnswer:
    request = asked.request
    offered = asked.served.gate.may_be_offered(request.tools or ())
    if decision.may_run is not UNSET:
        offered = [tool for tool in offered if name_of(tool) in decision.may_run]
    tools: list[Any] = [*decision.tools, *decision.search]
    if not tools or not asked.served.may_cut(searches=request.tool_search is True):
        tools = offered
    if not tools:
        return REFUSED
    if tools == request.tools and not decision.changed:
        return UNCHANGED
    changes = {change.place: change.message for change in decision.changed}
    messages = [changes.get(place, message) for place, message in enumerate(request.messages or ())]
    stay = [message for message in messages if changes and message is not None]
    return GuardrailAnswer(action="GUARDRAIL_INTERVENED", tools=tools, structured_messages=stay)
