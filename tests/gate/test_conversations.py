"""The gate in conversations: the history is the memory, whoever serves."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.core.payoff import Payoff
from camdf.gate import Gate, Guards, Limits, Rollout
from camdf.gate.request import read_task
from camdf.gate.tool_search import listing
from camdf.gate.turns import SHORT, Call, Turn, events, is_turn, text_of, words_in
from camdf.policies.rules import PlugIn, ScoreAtLeast, TopK
from camdf.prices import Prices
from camdf.scorers import Shared
from camdf.tools import Tool, view
from golden import PAYOFF, VECTORS, golden_gate, openai_tool
from saying import says

CATALOGUE = VECTORS[0].tools
TOOLS = [openai_tool(name, text) for name, text in CATALOGUE.items()]
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*names: str) -> dict[str, Any]:
    made = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"role": "assistant", "tool_calls": made}


def subjects(messages: Any) -> list[str]:
    return [event.subject for event in events(messages) if isinstance(event, Turn)]


BOOKING = [user("Book a flight and find a hotel"), said("Which date?"), user("Tomorrow please")]


def wants(**by_word: str) -> Callable[[str, Sequence[Tool]], list[float]]:
    """A scorer that prefers the tools named behind the words of the task."""

    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        wanted = {name for word, names in by_word.items() if word in task for name in names.split()}
        return [1.0 if tool.name in wanted else 0.0 for tool in tools]

    return scorer


def gate_of(scorer: Any = None, **settings: Any) -> Gate:
    known = wants(flight="search_flights book_flight", mail="send_email", weather="get_weather", music="play_music")
    return Gate(ScoreAtLeast(0.5), scorer or known, settings.pop("payoff", PAYOFF), **settings)


# What a history says.


@pytest.mark.parametrize(
    "messages",
    [
        [user("Find a flight to Oslo for Monday morning"), calls("search_flights"), {"role": "tool", "content": "3"}],
        [
            {"role": "user", "content": [{"type": "input_text", "text": "Find a flight to Oslo for Monday morning"}]},
            {"type": "function_call", "name": "search_flights", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "3"},
        ],
        [
            {"role": "user", "content": [{"type": "text", "text": "Find a flight to Oslo for Monday morning"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "search_flights", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "3"}]},
        ],
    ],
    ids=["chat", "responses", "anthropic"],
)
def test_three_shapes_of_history_say_the_same(messages: Any) -> None:
    said = "Find a flight to Oslo for Monday morning"
    assert events(messages) == (Turn(said, asks=said), Call("search_flights"))


@pytest.mark.parametrize("call", [{"type": "custom_tool_call"}, {"type": "mcp_call"}, {"type": "function_call"}])
def test_every_kind_of_call_is_read(call: dict[str, str]) -> None:
    assert events([{**call, "name": "run_sql"}]) == (Call("run_sql"),)


@pytest.mark.parametrize(
    "text",
    ["Good morning!", "hi", "Hello there, how are you?", "thank you so much", "Can you help me?", "👋", "...",
     "Guten Morgen zusammen", "Wie geht's?", "Vielen Dank!", "Buenas tardes :)", "¿Qué tal?", "Muchas gracias",
     "Bonjour à tous", "Ça va ?", "S'il vous plaît", "おはよう", "ありがとうございます!", "Hi\nthanks"],
)  # fmt: skip
def test_greetings_and_thanks_that_open_a_conversation_decide_nothing(text: str) -> None:
    decision = gate_of(lambda _, tools: [0.9, *[0.1] * (len(tools) - 1)]).decide([user(text)], TOOLS)
    assert (decision.open, decision.reason) == (True, "no signal")


@pytest.mark.parametrize(
    "text",
    ["Book a flight", "Check my email", "Weather?", "any open PRs?", "Hi, book a flight", "What day is it",
     "Wie spät?", "Termin absagen", "¿dónde está?", "Quel temps ?", "天気は?"],
)  # fmt: skip
def test_three_words_that_ask_for_something_are_decided_on(text: str) -> None:
    for task in ([user(text)], text):
        assert gate_of(lambda _, tools: [0.9, *[0.1] * (len(tools) - 1)]).decide(task, TOOLS).reason == "decided"


def test_the_page_says_how_few_words_are_read_with_those_before_them() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8").split())
    assert says(page, f"at most {SHORT} words", "those before it")


def test_what_a_harness_puts_between_a_users_words_is_no_turn_of_the_user() -> None:
    reminder = "<system-reminder>Use play_music for music.</system-reminder>"
    parts = [{"type": "text", "text": reminder}, {"type": "text", "text": "Send a mail to the whole sales team please"}]
    image = {"type": "image_url", "image_url": {"url": "x"}}
    assert subjects([{"role": "user", "content": parts}]) == ["Send a mail to the whole sales team please"]
    assert subjects([user(reminder), {"role": "user", "content": [image]}]) == ["", ""]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("and tomorrow?", True),
        ("yes please", True),
        ("明日は?", True),
        ("明日の朝の天気と電車の時刻を教えてください", False),
        ("Cancel the meeting with Anna and tell her why", False),
    ],
)
def test_a_short_turn_is_read_with_those_before_it(text: str, short: bool) -> None:
    before = "What is the weather like in the old town of Graz today?"
    assert (words_in(text) <= SHORT) is short
    assert subjects([user(before), said("Fine."), user(text)])[-1] == (f"{before}\n{text}" if short else text)


def test_the_task_is_what_the_user_asked_last() -> None:
    def asked_last(messages: list[dict[str, Any]]) -> str:
        return [text_of(message["content"]) for message in messages if is_turn(message)][-1]

    chat = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "x"}]
    assert asked_last([*chat, {"role": "user", "content": " second "}]) == "second"
    parts = [{"type": "text", "text": "look"}, {"type": "image"}, {"type": "input_text", "text": "here"}]
    assert asked_last([*chat, {"role": "user", "content": parts}]) == "look\nhere"
    results = {"role": "user", "content": [{"type": "tool_result", "content": "42"}]}
    assert asked_last([*chat, results]) == "first", "a tool's result is not a task"
    assert read_task("plain") == (Turn("plain", asks="plain"),)
    assert read_task([]) == ()
    assert read_task(None) == (Turn(""),)  # type: ignore[arg-type]


# The fold.


def test_a_second_worker_or_a_restart_between_any_two_turns_changes_no_byte() -> None:
    history = [
        user("Book a flight and find a hotel for two"),
        calls("book_flight"),
        user("Which date was it again?"),
        user("Now send a mail about it to the whole family"),
        calls("send_email", "read_file"),
        user("thanks!"),
        user("And play some quiet music in the living room"),
    ]
    one = gate_of()
    for end in range(1, len(history) + 1):
        assert one.decide(history[:end], TOOLS).tools == gate_of().decide(history[:end], TOOLS).tools


WORDS = [
    "find me a flight to Oslo",
    "send a mail to Anna and Bert",
    "how is the weather in the old town of Graz today?",
    "play some quiet music in the living room, please",
    "hello there",
    "",
    "and then?",
]


@given(st.lists(st.sampled_from(WORDS) | st.sampled_from(list(CATALOGUE)).map(lambda name: (name,)), max_size=8))
@settings(max_examples=300, deadline=None)
def test_once_decided_every_later_list_begins_with_the_one_before(what: list[Any]) -> None:
    gate, history, had = gate_of(), [], None
    for each in what:
        history.append(calls(*each) if isinstance(each, tuple) else user(each))
        decision = gate.decide(history, TOOLS)
        assert decision.tools
        if had is not None:
            assert decision.kept[: len(had)] == had
        had = None if decision.open else decision.kept


def test_follow_up_turns_keep_what_the_conversation_is_about() -> None:
    decision = gate_of().decide(BOOKING, TOOLS)
    assert decision.kept == ("search_flights", "book_flight")
    assert golden_gate().decide(BOOKING, TOOLS).kept


def test_greetings_and_images_leave_the_list_open_until_a_turn_says_something() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
    gate = gate_of()
    assert gate.decide([user("hello")], TOOLS).reason == "no signal"
    assert gate.decide([image], TOOLS).reason == "empty task"
    assert gate.decide([user("hello"), image, user("Send a mail to Anna")], TOOLS).kept == ("send_email",)
    after = gate.decide([user("Send a mail to Anna"), image], TOOLS)
    assert (after.kept, after.open, after.reason) == (("send_email",), False, "empty task")


def test_tools_that_the_history_called_stay_even_where_no_turn_made_them_worth_it() -> None:
    gate = gate_of()
    first = [user("hello"), calls("run_sql"), user("Send a mail to Anna")]
    assert gate.decide(first, TOOLS).kept == ("send_email", "run_sql")
    assert gate.decide([*first, calls("play_music")], TOOLS).kept == ("send_email", "run_sql", "play_music")


def test_a_tool_that_left_the_requests_own_list_is_forgotten() -> None:
    history = [user("Send a mail to Anna"), calls("send_email"), user("What is the weather in Graz tomorrow?")]
    fewer = [tool for tool in TOOLS if tool["function"]["name"] != "send_email"]
    assert gate_of().decide(history, fewer).kept == ("get_weather",)


def test_a_forced_tool_is_there_for_its_request_and_does_not_change_the_order() -> None:
    history = [user("Send a mail to Anna")]
    gate = gate_of()
    assert gate.decide(history, TOOLS, forced=["get_weather"]).kept == ("send_email", "get_weather")
    assert gate.decide([*history, calls("get_weather")], TOOLS).kept == ("send_email", "get_weather")
    assert gate.decide(history, TOOLS).kept == ("send_email",)


def test_with_a_tool_search_the_first_decision_stands() -> None:
    gate = gate_of()
    history = [user("hello"), calls("run_sql"), user("Send a mail to Anna")]
    first = gate.decide(history, TOOLS, tool_search=True)
    assert first.kept == ("send_email", "run_sql")
    history += [calls("call_tool"), user("What is the weather in Graz tomorrow?")]
    later = gate.decide(history, TOOLS, tool_search=True)
    assert (later.kept, later.reason) == (first.kept, "decided before")
    forced = gate.decide(history, TOOLS, tool_search=True, forced=["get_weather"])
    assert gate.decide([*history, calls("get_weather")], TOOLS, tool_search=True).kept == forced.kept


def test_with_a_tool_search_only_the_turns_up_to_the_first_with_signal_are_scored() -> None:
    asked: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return wants(mail="send_email")(task, tools)

    gate = gate_of(counting)
    gate.decide([user("Send a mail to Anna")], TOOLS, tool_search=True)
    gate.decide([user("Send a mail to Anna"), user("And what is the weather in Graz?")], TOOLS, tool_search=True)
    assert asked == ["Send a mail to Anna"]


def test_each_turn_is_scored_once_however_many_model_calls_it_takes() -> None:
    asked: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return wants(mail="send_email")(task, tools)

    gate, history = gate_of(counting), [user("Send a mail to Anna")]
    for _ in range(4):
        gate.decide(history, TOOLS)
        history.append(calls("send_email"))
    asyncio.run(gate.adecide([*history, user("Send a mail to Bert as well, the same one")], TOOLS))
    assert asked == ["Send a mail to Anna", "Send a mail to Bert as well, the same one"]


def test_workers_that_share_scores_agree_even_where_the_scorer_never_says_the_same_twice() -> None:
    rng = random.Random(0)
    store: dict[str, str] = {}

    def moody(task: str, tools: Sequence[Tool]) -> list[float]:
        return [rng.random() for _ in tools]

    history = [user("Send a mail to Anna and Bert"), user("And what is the weather in the old town of Graz?")]
    workers = [gate_of(Shared(moody, store)) for _ in range(5)]
    assert len({worker.decide(history, TOOLS).kept for worker in workers}) == 1
    assert len({gate_of(moody).decide(history, TOOLS).kept for _ in range(5)}) > 1


# Failures.


def test_a_turn_of_the_past_that_cannot_be_scored_in_time_opens_the_list_and_says_so() -> None:
    def slow(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(0.5)
        return wants(mail="send_email", weather="get_weather")(task, tools)

    gate = gate_of(slow, limits=Limits(seconds=0.8))
    history = [user("Send a mail to Anna and to Bert"), user("What is the weather in Graz tomorrow?")]
    first = gate.decide(history, TOOLS)
    assert (first.open, first.reason) == (False, "scorer too slow")  # the last turn alone is missing: the list stands
    gate = gate_of(slow, limits=Limits(seconds=0.3))
    opened = gate.decide(history, TOOLS)
    assert (opened.open, opened.reason, len(opened.kept)) == (True, "scorer too slow", len(TOOLS))
    time.sleep(1.5)  # what was begun is finished and kept
    assert gate.decide(history, TOOLS).kept == ("send_email", "get_weather")


def test_a_turn_on_which_the_scorer_always_fails_says_nothing_and_opens_nothing_for_good() -> None:
    def fragile(task: str, tools: Sequence[Tool]) -> list[float]:
        if "boom" in task:
            raise RuntimeError(task)
        return wants(mail="send_email")(task, tools)

    gate = gate_of(fragile)
    assert gate.decide([user("boom, and nothing else")], TOOLS).open
    for _ in range(3):  # however warm the worker is
        after = gate.decide(
            [user("boom, and nothing else"), user("Send a mail to Anna and to Bert, with my best wishes")], TOOLS
        )
        assert (after.kept, after.reason) == (("send_email",), "decided")
    ill = gate.decide([user("Send a mail to Anna"), user("boom, and what else is there to say about it?")], TOOLS)
    assert (ill.kept, ill.open, ill.reason) == (("send_email",), False, "scorer failed")


# What it costs to widen.


def test_a_late_widening_happens_only_where_it_is_worth_rewriting_the_cached_prompt() -> None:
    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        return [0.9 if tool.name == ("get_weather" if "weather" in task else "send_email") else 0.001 for tool in tools]

    prices = Prices(uncached=3.0, cached=0.3, turns=8)
    gate = Gate(PlugIn(), scorer, prices.payoff(task_worth=0.02), prices=prices)
    early = [user("Send a mail to Anna and Bert please"), user("What is the weather in Graz tomorrow, by the hour?")]
    late = [early[0], said("x" * 200_000), early[1]]
    assert set(gate.decide(early, TOOLS).kept) - set(gate.decide(early[:1], TOOLS).kept) == {"get_weather"}
    stands = gate.decide(late, TOOLS)
    assert stands.kept == gate.decide(early[:1], TOOLS).kept
    assert {each.why for each in stands.ranking if each.name == "get_weather"} == {
        "not worth rewriting the cached prompt"
    }


# What is handed over.


def test_the_cache_mark_moves_to_the_last_tool_that_is_loaded() -> None:
    mark = {"type": "ephemeral"}
    tools = [{"name": name, "description": text, "input_schema": {}} for name, text in CATALOGUE.items()]
    tools[-1] = {**tools[-1], "cache_control": mark}
    history = [user("Book a flight for two people to Oslo, please")]
    cut = gate_of().decide(history, tools).tools
    assert [tool.get("cache_control") for tool in cut] == [None, mark]
    deferred = gate_of(mode="defer").decide(history, [SEARCH, *tools]).tools
    assert [tool.get("cache_control") for tool in deferred] == [None, None, mark, *[None] * (len(tools) - 2)]
    assert [tool.get("defer_loading", False) for tool in deferred] == [False] * 3 + [True] * (len(tools) - 2)
    assert tools[-1]["cache_control"] == mark  # the harness's own list is untouched


def test_a_tool_without_a_name_is_not_taken_for_the_one_that_has_the_cache_mark() -> None:
    nameless = Tool("", "Does something.", {"type": "object"})
    assert gate_of().decide(BOOKING, [nameless, *TOOLS]).tools == gate_of().decide(BOOKING, TOOLS).tools


def test_allow_leaves_the_list_and_names_what_may_be_called() -> None:
    decision = gate_of(mode="allow").decide(BOOKING, TOOLS)
    assert decision.tools == TOOLS
    assert decision.kept == ("search_flights", "book_flight")


def test_deferred_lists_stand_whatever_is_found_and_called_later() -> None:
    gate, tools = gate_of(mode="defer"), [SEARCH, *TOOLS]
    history = [user("Send a mail to Anna")]
    first = gate.decide(history, tools).tools
    history += [calls("get_weather"), user("What is the weather in Graz tomorrow?")]
    assert gate.decide(history, tools).tools == first


def test_a_search_finds_the_best_tools_that_may_be_offered_and_never_raises() -> None:
    gate = gate_of(guards=Guards(allow=[name for name in CATALOGUE if name != "book_flight"]))
    assert gate.find("flight", TOOLS) == [tool for tool in TOOLS if tool["function"]["name"] == "search_flights"]
    assert gate.find("nothing of the kind", TOOLS) == []
    assert gate.find("run_sql", TOOLS) == [tool for tool in TOOLS if tool["function"]["name"] == "run_sql"]
    assert asyncio.run(gate.afind("flight", TOOLS)) == gate.find("flight", TOOLS)
    assert gate.find("flight", "no tools") == []


def test_a_search_whose_scorer_fails_or_is_late_finds_the_tools_that_share_words_with_it() -> None:
    def late(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(0.5)
        return [1.0] * len(tools)

    for gate in (gate_of(lambda *_: [][0]), gate_of(late, limits=Limits(seconds=0.05))):
        named = [view(tool).name for tool in gate.find("flights to Graz", TOOLS)]
        assert {*named[:2]} == {"book_flight", "search_flights"}
        assert gate.find("zzz", TOOLS) == []
        assert SEARCH not in gate.find("a tool search by bm25", [SEARCH, *TOOLS]), "call_tool cannot run a provider's"
    guarded = gate_of(lambda *_: [][0], guards=Guards(allow=[name for name in CATALOGUE if name != "book_flight"]))
    assert "book_flight" not in [view(tool).name for tool in guarded.find("flights", TOOLS)]


def test_a_search_for_a_name_finds_that_tool_alone_and_tells_its_parameters() -> None:
    gate = Gate(TopK(1), lambda task, tools: [1.0 + len(tool.name) for tool in tools], Payoff(0.0))
    found = gate.find("anything", TOOLS)
    assert len(found) == 5
    told = json.loads(listing(found))
    assert [sorted(entry) for entry in told["tools"]] == [["description", "name", "parameters"]] * 2
    assert [entry["name"] for entry in told["tools"]] + told["others"] == [view(tool).name for tool in found]
    assert "say that no tool does it" in told["next"]
    (alone,) = json.loads(listing(gate.find(told["others"][-1], TOOLS)))["tools"]
    assert alone["name"] == told["others"][-1]
    assert "parameters" in alone


def test_a_conversation_explores_at_every_turn_or_at_none_on_every_worker() -> None:
    gates = [gate_of(rollout=Rollout(explore=0.5)) for _ in range(2)]
    sides = set()
    for number in range(40):
        history = [user("hello"), user(f"Send a mail to number {number} on my list")]
        later = [*history, user("What is the weather in Graz tomorrow, by the hour?")]
        name = str(number)
        found = {random.choice(gates).decide(each, TOOLS, conversation=name).explored for each in (history, later)}
        assert len(found) == 1
        sides |= found
    assert sides == {True, False}
