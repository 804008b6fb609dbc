"""A turn is folded once while nothing that its part follows from changes, and anew as soon as anything does."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf.gate import Gate, GateDecision, Guards, Limits, fold
from camdf.prices import Prices
from camdf.tools import FromServer

CASES = int(os.environ.get("CASES", "100"))
PAYOFF = camdf.Payoff(0.05)
NAMES = ("send_mail", "read_mail", "book_trip", "read_file", "play_song")
TEXTS = ("send a mail", "book a trip", "read_file", "hello", "play it")


class RewritingIsDear(Prices):
    """Prices at which hardly any tool is worth a prompt that is read anew."""

    def of_rewriting(self, characters: int) -> float:
        return 1e-3 * characters


def by_letters(task: str, tools: Any) -> list[float]:
    return [len(set(task) & set(tool.name)) / 10 for tool in tools]


def gate_in(mode: Any, tool_search: bool) -> Gate:
    guards = Guards(trusted=["mail"])
    limits = Limits(seconds=None)
    settings = {"prices": RewritingIsDear(turns=6), "mode": mode, "tool_search": tool_search}
    return Gate(camdf.cold_start(), by_letters, PAYOFF, guards=guards, limits=limits, **settings)


def definition(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "input_schema": {"type": "object", "properties": {}}}


def history(said: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """Some turns, and the tools that were called in each."""
    messages: list[dict[str, Any]] = []
    for text, called in said:
        messages.append({"role": "user", "content": text})
        for name in called:
            call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
            messages.append({"role": "assistant", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "1", "content": "done"})
    return messages


turns = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.lists(st.sampled_from(NAMES), max_size=1)), min_size=1, max_size=3
)
asked_at_first = st.fixed_dictionaries(
    {
        "said": turns,
        "servers": st.lists(st.sampled_from(["mail", "web"]), min_size=5, max_size=5),
        "hosted": st.just(0),
        "keep": st.just([]),
        "model": st.just("gpt-5.4"),
        "takes_messages": st.booleans(),
    }
)
changes = st.one_of(
    st.tuples(st.just("called"), st.lists(st.sampled_from(NAMES), max_size=1)),
    st.tuples(st.just("hosted"), st.integers(0, 5)),
    st.tuples(st.just("keep"), st.lists(st.sampled_from(NAMES), max_size=1)),
    st.tuples(st.just("model"), st.sampled_from(["", "claude-sonnet-4-5", "gpt-5.4"])),
    st.tuples(st.just("takes_messages"), st.booleans()),
)


def changed(question: dict[str, Any], what: str, value: Any) -> dict[str, Any]:
    """The question with one thing changed; the tools that were called are those of the first turn."""
    if what == "called":
        (text, _), *later = question["said"]
        return {**question, "said": [(text, value), *later]}
    return {**question, what: value}


def decided(gate: Gate, question: dict[str, Any]) -> GateDecision:
    tools: list[Any] = [
        FromServer(server, definition(name)) for server, name in zip(question["servers"], NAMES, strict=True)
    ]
    tools.insert(question["hosted"], {"type": "web_search_preview"})
    asked = {key: question[key] for key in ("keep", "model", "takes_messages")}
    return gate.decide(history(question["said"]), tools, **asked)


@settings(max_examples=CASES, deadline=None)
@given(
    st.sampled_from(["drop", "append", "defer"]),
    st.booleans(),
    asked_at_first,
    st.lists(changes, min_size=1, max_size=4),
)
def test_whatever_a_gate_folded_before_it_decides_as_one_that_folded_nothing(
    mode: str, tool_search: bool, question: dict[str, Any], edits: list[tuple[str, Any]]
) -> None:
    gate = gate_in(mode, tool_search)
    for what, value in [("said", question["said"]), *edits]:
        question = changed(question, what, value)
        new = decided(gate_in(mode, tool_search), question)
        for again in (decided(gate, question), decided(gate, question)):
            assert (again, again.ranking, again.appended) == (new, new.ranking, new.appended)


def test_a_history_that_comes_again_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    handed_over = fold.handed_over

    def counted(scores: Any, *rest: Any, **named: Any) -> Any:
        folded.append(len(scores))
        return handed_over(scores, *rest, **named)

    monkeypatch.setattr(fold, "handed_over", counted)
    tools = [definition(name) for name in NAMES]
    gate = gate_in("drop", False)
    said: list[tuple[str, list[str]]] = [("send a mail", []), ("play it", [])]
    for messages in (history(said), history(said), history([*said, ("book a trip", [])])):
        gate.decide(messages, tools)
    assert len(folded) == 3
