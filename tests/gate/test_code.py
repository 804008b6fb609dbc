"""Signatures for agents that write code: they parse whatever tools say of themselves, and lead back to the tools."""

from __future__ import annotations

import ast
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from camdf import Gate, Tool
from camdf.gate.code import RESERVED, python_code, typescript_code
from camdf.gate.tool_search import listing
from hostile_tools import HOSTILE, HOSTILE_TOOLS

TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "nonsense", 7, None])


def schemas(depth: int = 2) -> st.SearchStrategy[Any]:
    """Schemas as servers write them, and nonsense in their place."""
    scalar = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
    leaf: dict[str, Any] = {"type": KINDS, "description": TEXT, "enum": st.lists(scalar), "const": scalar}
    if depth:
        inner = schemas(depth - 1)
        leaf |= {
            "items": inner,
            "properties": st.dictionaries(TEXT, inner, max_size=3),
            "required": st.lists(TEXT),
            "anyOf": st.lists(inner, max_size=3),
            "$ref": st.sampled_from(["#/$defs/a", "#/properties", "elsewhere", "#"]),
        }
    return st.one_of(st.fixed_dictionaries({}, optional=leaf), scalar)


PARAMETERS = st.fixed_dictionaries(
    {}, optional={"properties": st.dictionaries(TEXT, schemas(), max_size=4), "required": st.lists(TEXT)}
)
TOOLS = st.lists(
    st.builds(
        Tool,
        TEXT,
        TEXT,
        st.fixed_dictionaries(
            {}, optional={"properties": st.dictionaries(TEXT, schemas(), max_size=4), "required": st.lists(TEXT)}
        ),
    ),
    max_size=5,
)


@given(TOOLS)
@example(HOSTILE_TOOLS)
def test_python_parses_and_holds_nothing_but_the_functions(tools: list[Tool]) -> None:
    code = python_code(tools)
    compile(code.text, "code", "exec")
    functions = ast.parse(code.text).body
    assert all(isinstance(node, ast.FunctionDef) for node in functions)
    assert [node.name for node in functions if isinstance(node, ast.FunctionDef)] == list(code.functions)
    assert [function.tool for function in code.functions.values()] == tools
    for node, tool in zip(functions, tools, strict=True):
        assert isinstance(node, ast.FunctionDef)
        [only] = node.body
        assert isinstance(only, ast.Expr)
        written = {argument.arg: argument.arg for argument in node.args.kwonlyargs}
        assert set(code.functions[node.name].arguments_for_tool(written)) == set(tool.schema.get("properties", {}))


@given(TOOLS)
@example(HOSTILE_TOOLS)
def test_names_are_unique_and_none_is_a_word_of_either_language(tools: list[Tool]) -> None:
    names = list(typescript_code(tools).functions)
    assert names == list(python_code(tools).functions)
    assert len(set(names)) == len(tools)
    assert all(name.isidentifier() and name.isascii() and name not in RESERVED for name in names)


@given(TOOLS)
@example(HOSTILE_TOOLS)
def test_no_description_ends_a_comment(tools: list[Tool]) -> None:
    """Without its comments and strings, the code has one declaration a tool, and no other line."""
    text = typescript_code(tools).text
    bare = ""
    rest = text
    while rest:
        if rest.startswith("/*"):
            rest = rest[rest.index("*/") + 2 :]
        elif rest.startswith('"'):
            length = json.JSONDecoder().raw_decode(rest)[1]
            bare += "S"
            rest = rest[length:]
        else:
            bare += rest[0]
            rest = rest[1:]
    lines = [line for line in bare.splitlines() if line.strip()]
    assert len(lines) == len(tools)
    assert all(line.startswith("export declare function ") and line.endswith(": Promise<unknown>;") for line in lines)


def test_types_of_arguments_are_told() -> None:
    schema = {
        "properties": {
            "when": {"type": "string", "description": "A day."},
            "size": {"enum": ["s", "m"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": ["integer", "null"]},
            "place": {"$ref": "#/$defs/place"},
        },
        "required": ["when"],
        "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    }
    tool = Tool("book", "Book a room.", schema)
    written = python_code([tool]).text
    for part in ("when: str,", "size: Literal['s', 'm'] = ...", "tags: list[str] = ...", "limit: int | None = ..."):
        assert part in written
    assert "when: A day." in written
    written = typescript_code([tool]).text
    for part in (
        '"size"?: "s" | "m"',
        '"tags"?: Array<string>',
        '"limit"?: number | null',
        '"place"?: { "city": string }',
    ):
        assert part in written


def test_a_decision_and_a_search_answer_in_code() -> None:
    tools = [Tool(f"{verb}-room", f"{verb} a room in a hotel.") for verb in ("book", "cancel", "clean", "paint")]
    gate = Gate.start(
        tools, mean_tools=2, scorer=lambda task, tools: [1 / (1 + place) for place, _ in enumerate(tools)]
    )
    decision = gate.decide("Book a room", tools)
    assert {function.tool.name for function in decision.python().functions.values()} == set(decision.kept)
    assert list(decision.typescript().functions) == list(decision.python().functions)
    answer = listing(tools[:2], tools, written=typescript_code)
    assert typescript_code(tools[:2]).text in answer
    assert listing([], tools, written=typescript_code) == listing([], tools)
