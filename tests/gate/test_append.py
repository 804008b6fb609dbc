"""Mode "append": the list of tools never changes, and what a turn needs joins at its end."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf import Gate, Payoff, UsageError
from camdf.gate import GateDecision, Guards, Limits
from camdf.gate.append import BETAS, CHANNELS, Addition, betas_of, channel_of, names_added
from camdf.gate.notes import with_note, without_note
from camdf.policies.rules import USUAL_TOOLS, AcquireAll, FirstDay, TopK
from camdf.tools import Tool, view
from everyday import conversations, played
from saying import refuses

NAMES = ("send_email", "book_flight", "play_music", "find_hotel", "get_weather")
TOOLS = [Tool(name, f"Tool to {name.replace('_', ' ')}.", {"type": "object", "properties": {}}) for name in NAMES]
CLAUDE, GPT = "claude-opus-5", "gpt-5.6"
ASKED = (
    "Please send an email to Kim about the plan for next week",
    "Now book the flight to Rome for the two of us please",
    "And then play some quiet music while I am packing my bags",
)


def words(task: str, tools: Any) -> list[float]:
    """How many words of its name a tool shares with a task."""
    return [float(sum(word in task.lower() for word in tool.name.split("_"))) for tool in tools]


def gate_of(**settings: Any) -> Gate:
    settings = {"mode": "append", "tool_search": True, "limits": Limits(cached_prefix=0), **settings}
    return Gate(settings.pop("policy", TopK(1)), words, Payoff(0.0), **settings)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(turns: int) -> list[dict[str, Any]]:
    """A history of so many turns, as a client has it that knows nothing of additions."""
    answered = [(user(text), {"role": "assistant", "content": "Done."}) for text in ASKED[:turns]]
    return [message for pair in answered for message in pair][:-1]


def test_the_list_never_changes_and_every_turn_brings_its_own_at_its_end() -> None:
    gate = gate_of()
    decisions = [gate.decide(said(turns), TOOLS, model=CLAUDE) for turns in (1, 2, 3)]
    assert [decision.head for decision in decisions] == [[]] * 3
    assert len({json.dumps(decision.anthropic(said(3))["tools"]) for decision in decisions}) == 1
    assert decisions[2].kept == decisions[2].joined == ("send_email", "book_flight", "play_music")
    assert decisions[2].appended == tuple(
        map(Addition, (0, 2, 4), [("send_email",), ("book_flight",), ("play_music",)])
    )
    sent = [decision.messages(said(turns)) for turns, decision in enumerate(decisions, 1)]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before, "a cached prompt stands"
    assert {decision.mode for decision in decisions} == {"append"}


def test_a_harness_that_takes_tools_alone_has_all_that_turns_brought_on_its_list() -> None:
    decision = gate_of().decide(said(2), TOOLS)
    assert [tool["function"]["name"] for tool in decision.openai()] == [*NAMES[:2], "find_tool", "call_tool"]
    alone = gate_of().decide(said(2), TOOLS, takes_messages=False)
    assert alone == gate_of(mode="drop").decide(said(2), TOOLS)
    assert alone.messages(said(2)) == said(2)


def test_a_topic_that_returns_and_a_turn_that_says_nothing_join_nothing() -> None:
    history = [*said(2), user("Please send an email to Ada as well, about the very same plan"), user("Thanks a lot!")]
    decision = gate_of().decide(history, TOOLS)
    assert [addition.after for addition in decision.appended] == [0, 2]
    assert gate_of().decide([user("hello")], TOOLS).appended == ()


@pytest.mark.parametrize("model", [CLAUDE, GPT, ""])
def test_a_history_that_has_the_additions_is_sent_as_one_that_has_not(model: str) -> None:
    gate, kept = gate_of(), list[Any]()
    for turns in (1, 2, 3):
        kept = [*kept, *([{"role": "assistant", "content": "Done."}] if kept else []), user(ASKED[turns - 1])]
        decision = gate.decide(kept, TOOLS, model=model)
        kept = decision.messages(kept)
        fresh = gate_of().decide(said(turns), TOOLS, model=model)
        assert kept == fresh.messages(said(turns))
        assert (decision.kept, decision.tools, decision.head) == (fresh.kept, fresh.tools, fresh.head)
    again = gate_of().decide(kept, TOOLS, model=model)
    assert again.appended == ()
    assert again.joined == NAMES[:3]
    assert [name for message in kept for name in names_added(message)] == [*NAMES[:3]]


@pytest.mark.parametrize("model", [GPT, ""])
def test_what_joined_stays_where_nothing_can_be_scored(model: str) -> None:
    history = gate_of().decide(said(2), TOOLS, model=model).messages(said(2))
    history += [{"role": "assistant", "content": "Done."}, user(ASKED[2])]

    def broken(task: str, tools: Any) -> list[float]:
        raise RuntimeError

    decision = Gate(TopK(1), broken, Payoff(0.0), mode="append", tool_search=True).decide(history, TOOLS, model=model)
    assert decision.kept == NAMES[:2]
    assert decision.reason == "scorer failed"
    assert decision.messages(history) == history


def test_a_turn_whose_scorer_failed_gets_no_note_later_where_the_history_keeps_notes() -> None:
    failing = [False]

    def scorer(task: str, tools: Any) -> list[float]:
        if failing[0]:
            raise RuntimeError
        return words(task, tools)

    gate = Gate(TopK(1), scorer, Payoff(0.0), mode="append", tool_search=True)
    kept: list[Any] = []
    for turn, failing[0] in zip(ASKED, (False, True, False), strict=True):
        kept = [*kept, user(turn)]
        kept = [*gate.decide(kept, TOOLS).messages(kept), {"role": "assistant", "content": "Done."}]
    assert [len(without_note(message).lines) for message in kept] == [1, 0, 0, 0, 1, 0]


def test_each_provider_gets_its_own_shape_and_a_note_where_the_request_is_another_ones() -> None:
    first = said(1)
    definition = {"name": "send_email", "description": TOOLS[0].description}
    claude, gpt, other = (gate_of().decide(first, TOOLS, model=model) for model in (CLAUDE, GPT, ""))
    block = {"type": "tool_definition", "definition": {**definition, "input_schema": TOOLS[0].schema}}
    system = {"role": "system", "content": [{"type": "tool_addition", "tool": block}]}
    assert claude.anthropic(first)["messages"] == [*first, system]
    assert claude.anthropic(first)["betas"] == list(BETAS)
    item = {"type": "function", **definition, "parameters": TOOLS[0].schema}
    added = {"type": "additional_tools", "role": "developer", "tools": [item]}
    assert gpt.openai_responses(first)["input"] == [*first, added]
    noted = [with_note(first[0], [f"- send_email(): {TOOLS[0].description}"])]
    assert other.openai(first)["messages"] == claude.openai(first)["messages"] == noted
    assert gpt.anthropic(first)["messages"] == other.anthropic(first)["messages"] == noted
    assert "betas" not in other.anthropic(first)
    assert betas_of(first) == []
    for decision in (claude, gpt, other):
        names = [tool["name"] for tool in decision.openai_responses(first)["tools"]]
        assert names == ["find_tool", "call_tool"]


def test_a_request_without_tools_has_no_list_of_them() -> None:
    decision = Gate(TopK(1), words, Payoff(0.0)).decide(said(1), [])
    assert decision.openai(said(1)) == decision.anthropic(said(1)) == {"messages": said(1)}
    assert decision.openai_responses(said(1)) == {"input": said(1)}


def test_a_tool_that_is_declared_and_deferred_joins_by_its_name() -> None:
    declared = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema, "defer_loading": True}
        for tool in TOOLS
    ]
    decision = gate_of().decide(said(2), declared, model=CLAUDE)
    assert [tool.get("defer_loading", False) for tool in decision.head] == [True] * 5
    (block,) = decision.messages(said(2))[-1]["content"]
    assert block["tool"] == {"type": "tool_reference", "name": "book_flight"}
    assert betas_of(decision.messages(said(2))) == [BETAS[0]]
    assert "book_flight" in gate_of().decide(decision.messages(said(2)), declared, model=CLAUDE).joined


@pytest.mark.parametrize(
    "settings",
    [{"tool_search": False}, {"policy": AcquireAll()}, {"tools": [*TOOLS, Tool("find_tool", "Find a tool of ours.")]}],
)
def test_where_tools_cannot_join_it_is_drop(settings: dict[str, Any]) -> None:
    tools = settings.pop("tools", TOOLS)
    decision = gate_of(**settings).decide(said(3), tools)
    assert decision == gate_of(**settings, mode="drop").decide(said(3), tools)
    assert decision.mode == "drop"
    assert decision.openai(said(3))["messages"] == said(3)
    assert gate_of().decide(ASKED[0], TOOLS).mode == "drop", "one text has no messages to add to"


def test_the_table_of_models_can_be_another() -> None:
    gate = gate_of(channels={**CHANNELS, "our-alias": "anthropic", "gpt-4": None})
    assert gate.decide(said(2), TOOLS, model="our-alias-2").channel == "anthropic"
    assert gate.decide(said(2), TOOLS, model="gpt-4.1").channel == "note"
    assert gate.decide(said(2), TOOLS, model="gpt-5").channel == "openai_responses"
    assert channel_of("anthropic/claude-haiku-5-5") == "anthropic"
    with refuses(UsageError, "channels", "Gate", must="a mapping"):
        gate_of(channels={"gpt": "chat"})


def test_the_names_of_the_search_follow_from_the_tools_alone() -> None:
    few = Limits(cached_prefix=0, search_names=12)
    decisions = [gate_of(limits=few).decide(said(turns), TOOLS) for turns in (1, 2, 3)]
    assert len({decision.hidden for decision in decisions}) == 1
    assert decisions[0].hidden


def test_a_forced_tool_is_on_the_list_for_its_request() -> None:
    decision = gate_of().decide(said(2), TOOLS, model=GPT, forced=["book_flight"])
    assert [tool.name for tool in decision.head] == ["book_flight"]
    assert decision.appended == (Addition(0, ("send_email",)),)


def test_a_tool_that_was_called_by_its_own_name_joins_at_the_next_turn() -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather"}}]}
    first, _, second = said(2)
    decision = gate_of().decide([first, called, second], TOOLS)
    assert decision.appended == (Addition(0, ("send_email",)), Addition(2, ("book_flight", "get_weather")))


def test_a_fallback_is_declared_until_something_is_decided() -> None:
    gate = gate_of(guards=Guards(fallback=["get_weather"]))
    assert [tool.name for tool in gate.decide([user("hello")], TOOLS).head] == ["get_weather"]
    assert gate.decide(said(1), TOOLS).head == []


def test_a_policy_says_what_decides_where_every_turn_has_its_own() -> None:
    many = [Tool(f"tool_{number}", f"Does thing {number}.") for number in range(40)]
    gate = Gate(
        FirstDay(),
        lambda task, tools: [0.9 * 0.7**place for place, _ in enumerate(tools)],
        Payoff(0.0),
        mode="append",
        tool_search=True,
        limits=Limits(cached_prefix=0),
    )
    assert gate.decide(said(1), many).joined == ("tool_0", "tool_1")
    assert len(gate.decide(said(1), many, takes_messages=False).kept) == USUAL_TOOLS


@given(st.integers(0, 40), st.integers(0, 3_000), st.integers(0, 200), st.sets(st.integers(0, 39), max_size=3))
def test_the_head_fills_the_smallest_cached_prefix_or_is_left_as_it_is(
    count: int, smallest: int, words_before: int, pinned: set[int]
) -> None:
    many = [Tool(f"tool_{number}", "Does it. " * (number % 7 + 1)) for number in range(count)]
    guards = Guards(pinned=[f"tool_{number}" for number in pinned])
    gate = gate_of(limits=Limits(cached_prefix=smallest), guards=guards)
    history = [{"role": "system", "content": "Be kind. " * words_before}, *said(1)]
    decision = gate.decide(history, many)
    stays = [tool for tool in many if tool.name in guards.pinned]
    bare = gate_of(limits=Limits(cached_prefix=0), guards=guards).decide(history, many)

    def length(decision: GateDecision) -> int:
        definitions = [view(tool) for tool in (*decision.head, *decision.search)]
        return len("Be kind. " * words_before) + sum(len(tool.definition()) for tool in definitions)

    assert {tool.name for tool in bare.head} == {tool.name for tool in stays if decision.cut or stays}
    if decision.head != bare.head:
        assert length(decision) >= 3.9 * smallest
        assert length(bare) < 4.1 * smallest
    again = gate.decide([history[0], *said(3)], many)
    assert again.head == decision.head


@pytest.mark.parametrize("model", [GPT, ""])
def test_everyday_conversations_keep_their_list_and_their_beginning_on_any_worker(model: str) -> None:
    for conversation in conversations():
        sent: list[Any] = []
        for number, turn in enumerate(conversation.turns):
            history = [*conversation.before(number), played(turn)[0]]
            summed_up = conversation.summary_after is not None and number == conversation.summary_after + 1
            decisions = [gate_of().decide(history, conversation.tools, model=model) for _ in range(2)]
            assert decisions[0] == decisions[1]
            now = decisions[0].openai_responses(history)
            if sent and not summed_up:
                assert now["tools"] == sent[-1]["tools"]
                assert now["input"][: len(sent[-1]["input"])] == sent[-1]["input"]
            sent.append(now)


@pytest.mark.parametrize("block", [{}, {"tool": None}, {"tool": "play_music"}, {"tool": ["play_music"]}])
def test_a_history_with_a_broken_addition_needs_no_beta_and_adds_no_tool(block: dict[str, Any]) -> None:
    message = {"role": "system", "content": [{"type": "tool_addition", **block}, "play_music"]}
    assert betas_of([message, "play_music"]) == []
    assert list(names_added(message)) == []
