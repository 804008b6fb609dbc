"""Tools of every harness, seen one way. The frameworks' real objects are checked beside each adapter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from camdf.tools import Tool, keyed, view

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PARTS: dict[str, Any] = {"name": "get_weather", "description": "Weather of a city"}

KNOWN: dict[str, Any] = {
    "OpenAI chat completions": {"type": "function", "function": {**PARTS, "parameters": SCHEMA}},
    "OpenAI responses": {"type": "function", **PARTS, "parameters": SCHEMA},
    "Anthropic": {**PARTS, "input_schema": SCHEMA},
    "Anthropic, custom": {"type": "custom", **PARTS, "input_schema": SCHEMA},
    "MCP, as JSON": {**PARTS, "inputSchema": SCHEMA},
    "MCP": SimpleNamespace(**PARTS, input_schema=SCHEMA),
    "MCP 1": SimpleNamespace(**PARTS, inputSchema=SCHEMA),
    "pydantic-ai": SimpleNamespace(**PARTS, parameters_json_schema=SCHEMA),
    "OpenAI Agents": SimpleNamespace(**PARTS, params_json_schema=SCHEMA),
    "FastMCP": SimpleNamespace(**PARTS, parameters=SCHEMA),
    "LangChain, written out": {**PARTS, "args_schema": SCHEMA},
    "LangChain, arguments written out": {**PARTS, "args": SCHEMA["properties"]},
    "LangChain": type("BaseTool", (), {**PARTS, "tool_call_schema": SCHEMA})(),
    "LangChain, a model": type(
        "BaseTool", (), {**PARTS, "tool_call_schema": SimpleNamespace(model_json_schema=lambda: SCHEMA)}
    )(),
    "LlamaIndex": SimpleNamespace(metadata=SimpleNamespace(**PARTS, get_parameters_dict=lambda: SCHEMA)),
    "ours": Tool("get_weather", "Weather of a city", SCHEMA),
}
FOREIGN: dict[str, Any] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "tool_search_tool_bm25": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "dict": {"function_declarations": [{"name": "a"}]},
    "computer": SimpleNamespace(name="computer"),
    "NoneType": None,
}


@pytest.mark.parametrize("native", KNOWN.values(), ids=list(KNOWN))
def test_one_tool_in_every_known_shape_is_the_same_tool(native: Any) -> None:
    tool = view(native)
    assert (tool.name, tool.description, tool.foreign) == ("get_weather", "Weather of a city", False)
    assert tool.schema == SCHEMA
    assert tool.digest() == view(KNOWN["Anthropic"]).digest()
    assert tool.text == "get weather. Weather of a city"


def test_a_digest_changes_with_a_schema_and_not_with_the_order_of_its_keys() -> None:
    tool = Tool("a", "b", SCHEMA)
    assert Tool("a", "b", dict(reversed(SCHEMA.items()))).digest() == tool.digest()
    assert Tool("a", "b", {**SCHEMA, "required": ["city"]}).digest() != tool.digest()
    assert Tool("a", "c", SCHEMA).digest() != tool.digest()


@pytest.mark.parametrize(("name", "native"), FOREIGN.items(), ids=list(FOREIGN))
def test_the_providers_own_tools_and_unknown_shapes_are_foreign(name: str, native: Any) -> None:
    assert view(native) == Tool(name, foreign=True)


def test_a_plain_function_is_a_tool() -> None:
    def get_weather(city: str) -> str:
        """Weather of a city."""
        return city

    assert view(get_weather) == Tool("get_weather", "Weather of a city.")


def test_a_tool_without_a_description_is_still_a_tool() -> None:
    assert view({"name": "a", "input_schema": {}}) == Tool("a")
    assert view({"type": "custom", "name": "grammar"}) == Tool("grammar")
    assert view({"type": "function", "function": {"name": "a"}}) == Tool("a")


@pytest.mark.parametrize(
    "more",
    [{"args": {"city": "Oslo"}}, {"args": {}}, {"args": ["city"]}, {"args": None}, {"args_schema": "<class 'S'>"}],
)
def test_arguments_that_are_no_schema_are_not_taken_for_one(more: dict[str, Any]) -> None:
    assert view({**PARTS, **more}) == Tool(**PARTS)
    assert view({"name": "get_weather", **more}).foreign


def test_names_that_collide_get_keys_of_their_own() -> None:
    tools = [Tool("a"), Tool("a", server="x"), Tool("a", server="x"), Tool("b"), Tool("a")]
    assert list(keyed(tools)) == ["a", "x/a", "x/a#2", "b", "a#2"]
    assert list(keyed([Tool("a", server="x"), Tool("b", server="x")])) == ["a", "b"]
    assert list(keyed(tools).values()) == tools
