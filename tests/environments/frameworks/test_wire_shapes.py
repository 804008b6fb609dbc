"""Requests as they leave a real LiteLLM proxy, held against the types of the official OpenAI and Anthropic SDKs.

The SDKs describe what their providers accept as typed dictionaries; here a key that these do not know is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import ToolUnionParam
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta import BetaToolUnionParam
from anthropic.types.beta.beta_system_message_param import BetaSystemMessageParam
from litellm.experimental_mcp_client.tools import transform_mcp_tool_to_openai_tool
from litellm_proxy import KEY, running
from mcp.types import Tool as MCPTool
from openai.types.chat import ChatCompletionNamedToolChoiceParam, ChatCompletionToolUnionParam
from openai.types.chat.chat_completion_allowed_tool_choice_param import ChatCompletionAllowedToolChoiceParam
from openai.types.responses import ToolChoiceAllowedParam, ToolChoiceFunctionParam, ToolParam
from openai.types.responses.response_input_item_param import AdditionalTools
from posted import post
from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from camdf.gate import GateDecision
from camdf.gate.append import BETAS, Channels
from camdf.gate.lists import allowed_choice
from camdf.tools import SCHEMAS, UNTOLD, view
from golden import VECTORS, golden_gate, openai_tool
from scripted import ScriptedModel

TRIP = VECTORS[0]
MARK = {"type": "ephemeral"}
GATING = """
from litellm.integrations.custom_logger import CustomLogger
from camdf.integrations.litellm import ToolGate
from golden import golden_gate

class ByMode(CustomLogger):
    '''One hook for every mode; a request names its own as the user.'''

    def __init__(self):
        super().__init__()
        modes = ("drop", "append", "defer", "allow", "shadow")
        channels = {"claude": "anthropic", "scripted": "openai_responses"}
        gates = {mode: golden_gate(mode=mode, channels=channels) for mode in modes}
        self.hooks = {mode: ToolGate(gate, search=mode == "defer") for mode, gate in gates.items()}

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        return await self.hooks[data.pop("user")].async_pre_call_hook(user_api_key_dict, cache, data, call_type)

gate_hook = ByMode()
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture(scope="module")
def proxy(model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("proxy"), GATING, model.url) as url:
        yield url


def strict(kind: Any) -> TypeAdapter[Any]:
    """A check of values by a type of an SDK that knows no further keys."""
    _forbid_further_keys(kind, set())
    return TypeAdapter(kind)


def _forbid_further_keys(kind: Any, seen: set[int]) -> None:
    if id(kind) in seen:
        return
    seen.add(id(kind))
    inner = get_args(kind)
    if is_typeddict(kind):
        if not hasattr(kind, "__pydantic_config__"):  # JSON schemas say for themselves that they are open
            kind.__pydantic_config__ = {"extra": "forbid"}
        inner = tuple(get_type_hints(kind).values())
    for each in inner:
        _forbid_further_keys(each, seen)


CHAT_TOOL, RESPONSES_TOOL, ANTHROPIC_TOOL = map(strict, (ChatCompletionToolUnionParam, ToolParam, ToolUnionParam))
CHAT_ALLOWED, RESPONSES_ALLOWED = map(strict, (ChatCompletionAllowedToolChoiceParam, ToolChoiceAllowedParam))
CHAT_NAMED = strict(ChatCompletionNamedToolChoiceParam)
RESPONSES_NAMED = strict(ToolChoiceFunctionParam)
ANTHROPIC_SYSTEM, RESPONSES_ADDITION = strict(BetaSystemMessageParam), strict(AdditionalTools)


def sent(proxy: str, model: ScriptedModel, path: str, mode: str, body: dict[str, Any]) -> dict[str, Any]:
    """What reaches the provider."""
    post(proxy + path, {"model": "scripted", **body, "user": mode}, Authorization=f"Bearer {KEY}")
    return model.requests[-1]


def functions() -> list[dict[str, Any]]:
    return [openai_tool(name, text) for name, text in TRIP.tools.items()]


def chat(proxy: str, model: ScriptedModel, mode: str) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": TRIP.task}], "tools": functions()}
    return sent(proxy, model, "/v1/chat/completions", mode, body)


def responses(proxy: str, model: ScriptedModel, mode: str, **more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in functions()]
    body = {"input": TRIP.task, "tools": [*tools, {"type": "web_search"}], **more}
    return sent(proxy, model, "/v1/responses", mode, body)


def messages(proxy: str, model: ScriptedModel, mode: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}}
    tools = [{"name": name, "description": text, "input_schema": schema} for name, text in TRIP.tools.items()]
    tools[-1]["cache_control"] = MARK
    body = {"messages": [{"role": "user", "content": TRIP.task}], "tools": tools, "max_tokens": 50, "model": "claude"}
    return sent(proxy, model, "/v1/messages", mode, body)


MODES = ("drop", "append", "defer", "allow", "shadow")


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_of_every_mode_is_one_that_the_sdk_knows(proxy: str, model: ScriptedModel, mode: str) -> None:
    for ask, kind in ((chat, CHAT_TOOL), (responses, RESPONSES_TOOL), (messages, ANTHROPIC_TOOL)):
        tools = ask(proxy, model, mode)["tools"]
        assert tools
        for tool in tools:
            kind.validate_python(tool, strict=True)


LATER = [
    {"role": "user", "content": TRIP.task},
    {"role": "assistant", "content": "Which flight?"},
    {"role": "user", "content": "The first. And send an email to a person about it, please"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thank you so much for all of your help with this today"},
]


def joining(tools: list[dict[str, Any]], model: str) -> list[GateDecision]:
    """The decisions on the first, the second and the last turn."""
    channels: Channels = {"claude": "anthropic", "gpt": "openai_responses"}
    gate = golden_gate(mode="append", channels=channels, tool_search=True)
    return [gate.decide(LATER[:turns], tools, model=model) for turns in (1, 3, 5)]


@pytest.mark.parametrize("declared", [False, True])
def test_tools_join_messages_as_anthropic_has_them(declared: bool) -> None:
    schema = {"type": "object", "properties": {}}
    deferred = {"defer_loading": True} if declared else {}
    tools = [
        {"name": name, "description": text, "input_schema": schema, **deferred} for name, text in TRIP.tools.items()
    ]
    decisions = joining(tools, "claude")
    first, second, third = (
        decision.anthropic(LATER[:turns]) for decision, turns in zip(decisions, (1, 3, 5), strict=True)
    )
    assert first["tools"] == second["tools"] == third["tools"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    for tool in first["tools"]:
        ANTHROPIC_TOOL.validate_python(tool, strict=True)
    for now, message in ((first, first["messages"][1]), (second, second["messages"][-1])):
        added = [block["tool"] for block in ANTHROPIC_SYSTEM.validate_python(message, strict=True)["content"]]
        assert {tool["type"] for tool in added} == {"tool_reference" if declared else "tool_definition"}
        assert now["betas"] == [BETAS[0]] + [BETAS[1]] * (not declared)
    assert {*BETAS} <= set(get_args(get_args(AnthropicBetaParam)[1]))


def test_tools_join_the_input_as_responses_have_them() -> None:
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in functions()]
    first, second, third = (
        decision.openai_responses(LATER[:turns])
        for decision, turns in zip(joining(tools, "gpt"), (1, 3, 5), strict=True)
    )
    assert first["tools"] == second["tools"] == third["tools"]
    assert third["input"][: len(second["input"])] == second["input"]
    for item in (first["input"][1], second["input"][-1]):
        assert RESPONSES_ADDITION.validate_python(item, strict=True)["tools"]


def test_a_proxy_cuts_where_the_gate_would_append(proxy: str, model: ScriptedModel) -> None:
    request = sent(proxy, model, "/v1/chat/completions", "append", {"messages": LATER[:3], "tools": functions()})
    assert request["messages"] == LATER[:3]
    dropped = sent(proxy, model, "/v1/chat/completions", "drop", {"messages": LATER[:3], "tools": functions()})
    assert request["tools"] == dropped["tools"]


def test_deferred_tools_come_with_the_providers_search(proxy: str, model: ScriptedModel) -> None:
    search = {responses: "tool_search", messages: "tool_search_tool_bm25_20251119"}
    for ask, kind in search.items():
        tools = ask(proxy, model, "defer")["tools"]
        assert [tool["type"] for tool in tools if str(tool.get("type")).startswith("tool_search")] == [kind]
        deferred = [tool["name"] for tool in tools if tool.get("defer_loading")]
        assert deferred == [name for name in TRIP.tools if name not in TRIP.kept]


@pytest.mark.parametrize("mode", ["drop", "defer"])
def test_one_cache_mark_stands_on_the_last_tool_that_is_loaded(proxy: str, model: ScriptedModel, mode: str) -> None:
    tools = messages(proxy, model, mode)["tools"]
    loaded = [tool for tool in tools if not tool.get("defer_loading")]
    assert [tool["name"] for tool in tools if tool.get("cache_control")] == [loaded[-1]["name"]]
    assert loaded[-1]["cache_control"] == MARK


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_what_is_allowed_is_named_as_responses_have_it(proxy: str, model: ScriptedModel, choice: str) -> None:
    found = responses(proxy, model, "allow", tool_choice=choice)["tool_choice"]
    RESPONSES_ALLOWED.validate_python(found, strict=True)
    assert found["mode"] == choice
    *named, hosted = found["tools"]
    assert [RESPONSES_NAMED.validate_python(tool, strict=True)["name"] for tool in named] == TRIP.kept
    assert hosted == {"type": "web_search"}  # by its type, as the SDK's own example has it


def test_what_is_allowed_is_named_as_chat_completions_have_it() -> None:
    """Not through LiteLLM, which refuses it."""
    found = allowed_choice(["a", *functions()], "auto", responses=False)
    CHAT_ALLOWED.validate_python(found, strict=True)
    named = [CHAT_NAMED.validate_python(tool, strict=True) for tool in found["allowed_tools"]["tools"]]
    assert [tool["function"]["name"] for tool in named] == ["a", *TRIP.tools]


FUNCTION = {"type": "function", "strict": False, "name": "a", "parameters": {}}
NAMED = [{"type": "function", "name": "a"}]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (CHAT_TOOL, {**openai_tool("a", "b"), "defer_loading": True}),
        (CHAT_TOOL, {"type": "tool_search"}),
        (RESPONSES_TOOL, {**FUNCTION, "deferred": True}),
        (RESPONSES_TOOL, {**FUNCTION, "defer_loading": "yes"}),
        (RESPONSES_TOOL, {**FUNCTION, "cache_control": MARK}),
        (RESPONSES_TOOL, {"type": "tool_search", "name": "tool_search"}),
        (ANTHROPIC_TOOL, {"name": "a", "input_schema": {"type": "object"}, "cache_control": {"type": "forever"}}),
        (ANTHROPIC_TOOL, {"name": "a", "input_schema": {"type": "object"}, "defer": True}),
        (ANTHROPIC_TOOL, {"type": "tool_search_tool_bm25_20251119", "name": "tool_search"}),
        (CHAT_ALLOWED, {"type": "allowed_tools", "mode": "auto", "tools": NAMED}),
        (RESPONSES_ALLOWED, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": NAMED}}),
        (RESPONSES_ALLOWED, {"type": "allowed_tools", "mode": "any", "tools": NAMED}),
        (CHAT_NAMED, NAMED[0]),
        (RESPONSES_NAMED, {"type": "function", "function": {"name": "a"}}),
    ],
)
def test_a_wrong_shape_is_found(kind: TypeAdapter[Any], wrong: Any) -> None:
    with pytest.raises(ValidationError):
        kind.validate_python(wrong, strict=True)


def members(kind: Any) -> list[Any]:
    """The typed dictionaries of a union."""
    return [kind] if is_typeddict(kind) else [each for inner in get_args(kind) for each in members(inner)]


PROVIDERS = {"chat": ChatCompletionToolUnionParam, "responses": ToolParam, "messages": ToolUnionParam}
PROVIDERS["beta"] = BetaToolUnionParam
KINDS = {f"{name}: {kind.__name__}": kind for name, union in PROVIDERS.items() for kind in members(union)}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_digest_knows_every_field_of_the_providers_own_types(kind: Any) -> None:
    """One that appears tomorrow fails here, unless the digest has it or it is named among those that no model reads."""
    hints = get_type_hints(kind)
    inner = next((key for key in ("function", "custom") if key in hints and is_typeddict(hints[key])), None)
    kinds = [each for each in get_args(hints["type"]) for each in get_args(each) or [each]]  # it may be optional
    base: dict[str, Any] = {"type": kinds[0]}
    base |= {inner: {"name": "a"}} if inner else {"name": "a", "description": "b"} if "name" in hints else {}
    for field in hints:
        if field in ("type", inner, *UNTOLD):
            continue
        tools = [view({**base, field: value}) for value in ({"a": 1}, {"a": 2})]
        assert tools[0].digest() != tools[1].digest(), field
        assert all(tool.readable for tool in tools), field
        assert not tools[0].foreign or not {*SCHEMAS} & hints.keys() or "name" not in hints
    for field in get_type_hints(hints[inner]) if inner else ():
        if inner and field not in UNTOLD:
            tools = [view({**base, inner: {**base[inner], field: value}}) for value in ({"a": 1}, {"a": 2})]
            assert tools[0].digest() != tools[1].digest(), field


def test_a_digest_knows_every_field_of_the_protocols_own_type() -> None:
    changed = {
        "name": "b",
        "title": "b",
        "description": "b",
        "input_schema": {"type": "object", "title": "b"},
        "output_schema": {"type": "object"},
        "annotations": {"title": "b"},
    }
    assert changed.keys() | UNTOLD >= MCPTool.model_fields.keys()
    plain = {"name": "a", "input_schema": {"type": "object"}}
    for field, value in changed.items():
        before, after = (MCPTool.model_validate(each) for each in (plain, {**plain, field: value}))
        assert view(before).digest() != view(after).digest(), field
        sent = [tool.model_dump(by_alias=True, exclude_none=True) for tool in (before, after)]
        assert view(sent[0]).digest() != view(sent[1]).digest(), field


def test_what_an_mcp_server_claims_does_not_reach_an_openai_tool() -> None:
    claims = {"server": "mail", "annotations": {"server": "mail"}, "_meta": {"server": "mail"}}
    made = transform_mcp_tool_to_openai_tool(MCPTool.model_validate({"name": "a", "inputSchema": {}, **claims}))
    assert view(made).server == ""
