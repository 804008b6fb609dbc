"""Mode "append": what later turns add joins at the end of the messages, and the list of tools stands."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from camdf import Gate, Payoff, UsageError
from camdf.gate.append import BETAS, CHANNELS, Addition, betas_of, channel_of, names_added
from camdf.policies.rules import TopK
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
    return Gate(TopK(1), words, Payoff(0.0), **{"mode": "append", **settings})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(turns: int) -> list[dict[str, Any]]:
    """A history of so many turns, as a client has it that knows nothing of additions."""
    answered = [(user(text), {"role": "assistant", "content": "Done."}) for text in ASKED[:turns]]
    return [message for pair in answered for message in pair][:-1]


def test_the_list_stands_and_every_turn_adds_at_its_place() -> None:
    gate = gate_of()
    decisions = [gate.decide(said(turns), TOOLS, model=CLAUDE) for turns in (1, 2, 3)]
    assert [[tool.name for tool in decision.tools] for decision in decisions] == [["send_email"]] * 3
    assert decisions[2].kept == ("send_email", "book_flight", "play_music")
    assert decisions[2].joined == ("book_flight", "play_music")
    assert decisions[2].appended == (Addition(2, (TOOLS[1],)), Addition(4, (TOOLS[2],)))
    sent = [decision.messages(said(turns)) for turns, decision in enumerate(decisions, 1)]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before, "a cached prompt stands"
    assert {decision.mode for decision in decisions} == {"append"}


@pytest.mark.parametrize("model", [CLAUDE, GPT])
def test_a_history_that_has_the_additions_is_sent_as_one_that_has_not(model: str) -> None:
    gate, kept = gate_of(), list[Any]()
    for turns in (1, 2, 3):
        kept = [*kept, *([{"role": "assistant", "content": "Done."}] if kept else []), user(ASKED[turns - 1])]
        decision = gate.decide(kept, TOOLS, model=model)
        kept = decision.messages(kept)
        fresh = gate_of().decide(said(turns), TOOLS, model=model)
        assert kept == fresh.messages(said(turns))
        assert (decision.kept, decision.tools) == (fresh.kept, fresh.tools)
    again = gate_of().decide(kept, TOOLS, model=model)
    assert again.appended == ()
    assert again.joined == ("book_flight", "play_music")
    assert [name for message in kept for name in names_added(message)] == ["book_flight", "play_music"]


def test_what_joined_stays_where_nothing_can_be_scored() -> None:
    history = gate_of().decide(said(3), TOOLS, model=GPT).messages(said(3))

    def broken(task: str, tools: Any) -> list[float]:
        raise RuntimeError

    decision = Gate(TopK(1), broken, Payoff(0.0), mode="append", tool_search=True).decide(history, TOOLS, model=GPT)
    assert {"book_flight", "play_music"} <= set(decision.kept)
    assert not {"book_flight", "play_music"} & {view(tool).name for tool in decision.tools}


def test_each_provider_gets_its_own_shape() -> None:
    definition = {"name": "book_flight", "description": TOOLS[1].description}
    claude, gpt = (gate_of().decide(said(2), TOOLS, model=model) for model in (CLAUDE, GPT))
    block = {"type": "tool_definition", "definition": {**definition, "input_schema": TOOLS[1].schema}}
    system = {"role": "system", "content": [{"type": "tool_addition", "tool": block}]}
    assert claude.messages(said(2)) == [*said(2), system]
    item = {"type": "function", **definition, "parameters": TOOLS[1].schema}
    added = {"type": "additional_tools", "role": "developer", "tools": [item]}
    assert gpt.messages(said(2)) == [*said(2), added]
    assert [tool["name"] for tool in claude.anthropic()] == [tool["name"] for tool in gpt.openai_responses()]
    assert betas_of(claude.messages(said(2))) == list(BETAS)
    assert betas_of(said(2)) == []
    for decision in (claude, gpt):  # these two take no tools among messages
        assert [view(tool).name for tool in decision.openai()] == ["send_email", "book_flight"]
        assert [view(tool).name for tool in decision.mcp()] == ["send_email", "book_flight"]


def test_a_tool_that_is_declared_and_deferred_joins_by_its_name() -> None:
    declared = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema, "defer_loading": True}
        for tool in TOOLS
    ]
    decision = gate_of().decide(said(2), declared, model=CLAUDE)
    assert [tool.get("defer_loading", False) for tool in decision.tools] == [False, True, True, True, True]
    (block,) = decision.messages(said(2))[-1]["content"]
    assert block["tool"] == {"type": "tool_reference", "name": "book_flight"}
    assert betas_of(decision.messages(said(2))) == [BETAS[0]]
    assert "book_flight" in gate_of().decide(decision.messages(said(2)), declared, model=CLAUDE).joined


@pytest.mark.parametrize("model", ["", "claude-sonnet-5", "bedrock/anthropic.claude-opus-5", "llama-4"])
def test_a_model_that_takes_none_has_what_drop_gives(model: str) -> None:
    for tool_search in (False, True):
        decision = gate_of().decide(said(3), TOOLS, model=model, tool_search=tool_search)
        assert decision == gate_of(mode="drop").decide(said(3), TOOLS, tool_search=tool_search)
        assert decision.messages(said(3)) == said(3)
    assert gate_of().decide(ASKED[0], TOOLS, model=CLAUDE).mode == "drop", "one text has no messages to add to"


def test_the_table_of_models_can_be_another() -> None:
    gate = gate_of(channels={**CHANNELS, "our-alias": "anthropic", "gpt-4": None})
    assert gate.decide(said(2), TOOLS, model="our-alias-2").channel == "anthropic"
    assert gate.decide(said(2), TOOLS, model="gpt-4.1").channel is None
    assert gate.decide(said(2), TOOLS, model="gpt-5").channel == "openai_responses"
    assert channel_of("anthropic/claude-haiku-5-5") == "anthropic"
    with refuses(UsageError, "channels", "Gate", must="a mapping"):
        gate_of(channels={"gpt": "chat"})


def test_with_a_search_turns_still_add_and_its_names_stand() -> None:
    gate = gate_of(tool_search=True)
    decisions = [gate.decide(said(turns), TOOLS, model=CLAUDE) for turns in (1, 2, 3)]
    assert [len(decision.joined) for decision in decisions] == [0, 1, 2]
    assert len({json.dumps(decision.anthropic()) for decision in decisions}) == 1
    assert "book_flight" in decisions[0].hidden


def test_a_forced_tool_is_on_the_list_for_its_request() -> None:
    decision = gate_of().decide(said(2), TOOLS, model=GPT, forced=["book_flight"])
    assert [tool.name for tool in decision.tools] == ["send_email", "book_flight"]
    assert decision.appended == ()


def test_everyday_conversations_keep_their_list_and_their_beginning_on_any_worker() -> None:
    for conversation in conversations():
        before: list[Any] = []
        listed: list[Any] = []
        for number, turn in enumerate(conversation.turns):
            history = [*conversation.before(number), played(turn)[0]]
            summed_up = conversation.summary_after is not None and number == conversation.summary_after + 1
            decisions = [gate_of().decide(history, conversation.tools, model=GPT) for _ in range(2)]
            assert decisions[0] == decisions[1]
            now = decisions[0].messages(history)
            if listed and not summed_up and not decisions[0].open:
                assert decisions[0].tools[: len(listed)] == listed
                assert now[: len(before)] == before
            before, listed = now, [] if decisions[0].open else decisions[0].tools


@pytest.mark.parametrize("block", [{}, {"tool": None}, {"tool": "play_music"}, {"tool": ["play_music"]}])
def test_a_history_with_a_broken_addition_needs_no_beta_and_adds_no_tool(block: dict[str, Any]) -> None:
    message = {"role": "system", "content": [{"type": "tool_addition", **block}, "play_music"]}
    assert betas_of([message, "play_music"]) == []
    assert list(names_added(message)) == []
