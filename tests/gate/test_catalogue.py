"""A list of tools is read once while it stays the same, and anew as soon as anything in it changes."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import tools as viewing
from camdf.gate import Gate, GateDecision, Guards, Limits
from camdf.gate.catalogue import BYTES_KEPT, LISTS_KEPT, CatalogueReader, Catalogues
from camdf.prices import Prices
from camdf.tools import FromServer, Tool

CASES = int(os.environ.get("CASES", "100"))
PAYOFF = camdf.Payoff(0.05)


def by_letters(task: str, tools: Any) -> list[float]:
    return [len(set(task) & set(tool.name + tool.description)) / 30 for tool in tools]


def gate_of(**settings: Any) -> Gate:
    return Gate(camdf.TopK(2), by_letters, PAYOFF, prices=Prices(), limits=Limits(seconds=None), **settings)


def definition(name: str, text: str, argument: Any) -> dict[str, Any]:
    return {"name": name, "description": text, "input_schema": {"type": "object", "properties": {"a": argument}}}


values = st.one_of(st.none(), st.booleans(), st.integers(-1, 2), st.just(1.0), st.text("ab", max_size=3))
definitions = st.builds(definition, st.sampled_from("abcdef"), st.text("abcxyz ", max_size=8), values)
natives = st.one_of(
    definitions,
    st.builds(FromServer, st.sampled_from(["mail", "web"]), definitions),
    st.builds(lambda native: Tool(native["name"], native["description"], native["input_schema"]), definitions),
)
edits = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["name", "description", "argument", "more"]), values), max_size=4
)
guards = st.sampled_from(
    [
        Guards(),
        Guards(allow=["a", "b", "mail/c"]),
        Guards(pinned=["d"]),
        Guards(trusted=["mail"]),
        Guards(allow=lambda tool: tool.name != "e"),
    ]
)


def edited(tools: list[Any], place: int, what: str, value: Any) -> None:
    """Change one definition where it stands."""
    native = tools[place % len(tools)]
    written = native.tool if isinstance(native, FromServer) else native
    if isinstance(written, Tool):
        tools[place % len(tools)] = replace(written, description=str(value))
    elif what == "argument":
        written["input_schema"]["properties"]["a"] = value
    elif what == "more":
        written["input_schema"]["properties"][str(value)] = {}
    else:
        written[what] = str(value) or "f"


def bare(decision: GateDecision) -> GateDecision:
    return replace(decision, id="", latency=0.0)


@settings(max_examples=CASES, deadline=None)
@given(st.lists(natives, min_size=1, max_size=6), edits, guards)
def test_whatever_is_changed_in_place_a_gate_decides_as_one_that_never_saw_the_list(
    tools: list[Any], changes: list[Any], guarding: Guards
) -> None:
    gate = gate_of(guards=guarding)
    task = "abc xyz def"
    assert bare(gate.decide(task, tools)) == bare(gate_of(guards=guarding).decide(task, tools))
    for place, what, value in changes:
        edited(tools, place, what, value)
        again = gate.decide(task, tools)
        assert bare(again) == bare(gate_of(guards=guarding).decide(task, tools))
        assert all(any(sent is _bare(native) for native in tools) for sent in again.tools), "the harness's own objects"


def _bare(native: Any) -> Any:
    return native.tool if isinstance(native, FromServer) else native


def test_a_list_that_stays_the_same_is_viewed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    viewed: list[Any] = []
    view = viewing.view

    def viewing_once(native: Any) -> Tool:
        viewed.append(native)
        return view(native)

    monkeypatch.setattr(viewing, "view", viewing_once)
    tools = [definition(name, "Does it.", {}) for name in "abc"]
    gate = gate_of()
    for number in range(3):
        gate.decide(f"task {number}", copy.deepcopy(tools))
    assert len(viewed) == len(tools)


@pytest.mark.parametrize("changed", [True, 1.0])
def test_a_definition_that_is_equal_to_python_and_not_to_a_reviewer_is_refused(changed: object) -> None:
    tools = [definition("a", "Does it.", {"minimum": 1})]
    gate = gate_of(guards=Guards(digests={"a": viewing.view(tools[0]).digest()}))
    assert gate.decide("a task", tools).kept == ("a",)
    tools[0]["input_schema"]["properties"]["a"]["minimum"] = changed
    assert gate.decide("a task", tools).refused == ("a",)


def test_what_may_be_offered_is_asked_anew_of_a_function() -> None:
    allowed = {"a"}
    gate = gate_of(guards=Guards(allow=lambda tool: tool.name in allowed))
    tools = [definition(name, "Does it.", {}) for name in "ab"]
    assert gate.decide("a task", tools).refused == ("b",)
    allowed.add("b")
    assert gate.decide("a task", tools).refused == ()


def test_what_is_kept_is_bounded_in_number_and_size() -> None:
    kept = Catalogues()
    reader = CatalogueReader(Guards(), None, Limits(), None, kept)
    for number in range(2 * LISTS_KEPT):
        reader.read([definition("a", f"Does {number}.", {})])
    assert len(kept._kept) == LISTS_KEPT
    for letter in "abcdefghijklm":
        reader.read([definition("a", letter * (BYTES_KEPT // 10 - 1_000), {})])
    reader.read([definition("a", "n" * (BYTES_KEPT // 10), {})])  # too large to keep
    assert [entry.catalogue.tools["a"].description[0] for entry in kept._kept] == list("mlkjihgfed")
