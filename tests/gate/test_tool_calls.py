"""What the two tools of the tool search make of what a model writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import malformed
from camdf.gate.tool_search import NAMED, ToolCall, listing, meant, query_of
from camdf.tools import Tool

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
PARAMETERS = st.sampled_from(["pattern", "arguments", "args", "input", "parameters", "name", "path"])


def tool(*parameters: str, **schema: Any) -> dict[str, Tool]:
    properties: dict[str, Any] = {name: {} for name in parameters}
    return {"run": Tool("run", "Run it.", {"type": "object", "properties": properties, **schema})}


def test_a_broken_call_runs_with_what_the_model_wrote_or_not_at_all() -> None:
    broken = malformed.slips(malformed.COUNT)
    malformed.check(broken, malformed.taken(broken))


@given(parameters=st.sets(PARAMETERS), call=st.dictionaries(PARAMETERS, VALUES, max_size=3))
def test_arguments_are_those_that_the_model_wrote(parameters: set[str], call: dict[str, Any]) -> None:
    read = meant({**call, "name": "run"}, tool(*parameters))
    if not isinstance(read, ToolCall):
        assert read.startswith("Nothing ran")
        return
    assert set(read.arguments) <= parameters
    absent = ["name"]
    if "arguments" not in parameters and call.get("arguments", "") in (None, ""):
        absent.append("arguments")
    given = {key: value for key, value in call.items() if key not in absent}
    inside = [value if isinstance(value, dict) else _parsed(value) for value in given.values()]
    if given.keys() == {"arguments"} and isinstance(given["arguments"], dict):
        assert read.arguments == given["arguments"], "as it should be"
    else:
        assert read.arguments in ([given] if given.keys() <= parameters else inside if len(given) == 1 else [])


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return None


@given(text=st.text() | VALUES.map(json.dumps))
def test_whatever_is_written_gets_an_answer(text: str) -> None:
    assert isinstance(meant(text, tool("pattern")), (str, ToolCall))
    assert isinstance(query_of(text), str)


@pytest.mark.parametrize(
    ("schema", "written", "arguments"),
    [
        ({"properties": {}}, {}, {}),
        ({"properties": {"a": {}}}, {}, None),
        ({}, {}, None),
        ({}, {"arguments": {}}, {}),
        ({}, {"arguments": {"a": 1}}, {"a": 1}),
        ({}, {"args": {"a": 1}}, {"a": 1}),
        ({}, {"a": 1}, None),
        ({"properties": {"a": {}}}, {"a": 1}, {"a": 1}),
        ({"properties": {"a": {}}}, {"arguments": {"b": 1}}, None),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"arguments": {"b": 1}}, {"b": 1}),
        ({"properties": {"args": {}, "a": {}}}, {"args": {"a": 1}}, None),
        ({"properties": {"args": {}}}, {"args": "x"}, {"args": "x"}),
        ({"properties": {"arguments": {}}}, {"arguments": ["x"]}, {"arguments": ["x"]}),
        ({"properties": {"arguments": {}}}, {"arguments": {"arguments": 1}}, {"arguments": 1}),
        ({"properties": {"name": {}, "a": {}}}, {"a": 1}, None),
    ],
)
def test_a_call_is_taken_where_it_can_be_read_in_one_way_only(
    schema: dict[str, Any], written: dict[str, Any], arguments: dict[str, Any] | None
) -> None:
    read = meant({"name": "run", **written}, {"run": Tool("run", "Run it.", schema)})
    assert (read.arguments if isinstance(read, ToolCall) else None) == arguments


def test_the_words_hold_the_schema_unless_it_is_very_long() -> None:
    assert '"pattern"' in meant({"name": "run"}, tool("pattern"))
    assert len(meant({"name": "run"}, tool("pattern", title="x" * 10**6))) < 1000


def test_a_schema_that_cannot_be_read_is_none() -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError

    tools = {"run": Tool("run", "Run it.", broken)}
    assert meant({"name": "run", "arguments": {"a": 1}}, tools) == ToolCall("run", {"a": 1})
    assert isinstance(meant({"name": "run", "a": 1}, tools), str)
    assert "parameters" not in listing(tools.values())


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ({"query": "a song"}, "a song"),
        ('{"query": "a song"}', "a song"),
        ({"q": "a song", "limit": 3}, "a song"),
        ({"query": "a song", "limit": "3"}, "a song"),
        ({}, ""),
        ({"query": ["a", "b"]}, ""),
        ({"a": "one", "b": "two"}, ""),
        ("a song", ""),
    ],
)
def test_a_search_is_read_where_it_says_one_thing(written: object, query: str) -> None:
    assert query_of(written) == query


def test_a_search_that_finds_nothing_names_a_few_tools_and_says_how_many_there_are() -> None:
    answer = listing((), [Tool(f"tool_{number:04d}") for number in range(5000)])
    assert "5000 tools" in answer
    assert answer.count("tool_") == NAMED
    assert "these tools: tool_0001" in listing((), [Tool("tool_0001")])


def test_an_answer_is_bounded_whatever_a_server_writes() -> None:
    huge = Tool("a", "song " + "x" * 3_000_000, {"d": "y" * 3_000_000})
    assert len(listing([huge])) < 5_000
