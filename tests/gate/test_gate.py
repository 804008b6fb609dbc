"""The gate's promises, each a test of that name."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import Payoff, cold_start, load, save
from camdf.errors import UsageError
from camdf.gate import Gate, GateDecision, Guards, Limits, Records, Rollout
from camdf.gate.memory import Memory
from camdf.gate.telemetry import Sink
from camdf.policies.rules import ScoreAtLeast
from camdf.policies.training import Training
from camdf.runtime.workers import Work, Workers
from camdf.scorers import BM25
from camdf.tools import Tool
from camdf_lab import domains
from golden import PAYOFF, VECTORS, golden_gate, openai_tool, overlap
from saying import refuses, says

CATALOGUE = VECTORS[0].tools
TOOLS = [openai_tool(name, text) for name, text in CATALOGUE.items()]
TASK = "Book a flight and a hotel in a city"
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def names(tools: Sequence[Any]) -> list[str]:
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


def high(*wanted: str, policy: float = 0.5, **gate: Any) -> Gate:
    """A gate that keeps the named tools and whatever its guards keep."""
    return Gate(ScoreAtLeast(policy), lambda _, tools: falling(tools, wanted), PAYOFF, **gate)


def falling(tools: Sequence[Tool], wanted: Sequence[str] = ()) -> list[float]:
    """1 for the wanted tools; ever lower ones below a tenth for the others, so that scores are never all equal."""
    return [1.0 if tool.name in wanted else 0.1 / (place + 1) for place, tool in enumerate(tools)]


class Broken:
    """An object whose attributes raise."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class BreaksDown(ScoreAtLeast):
    def decide(self, rankings: Any, payoff: Any) -> Any:
        raise ZeroDivisionError


# The same answer everywhere.


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task or "empty")
def test_the_library_keeps_what_the_golden_vectors_say(vector: Any) -> None:
    tools = [openai_tool(*each) for each in vector.tools.items()]
    decision = golden_gate().decide(vector.task, tools)
    assert names(decision.tools) == list(decision.kept) == vector.kept
    assert asyncio.run(golden_gate().adecide(vector.task, tools)) == decision


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.task[:30])
def test_scores_at_hand_are_decided_on_the_calling_thread_as_they_are_elsewhere(vector: Any) -> None:
    tools = [openai_tool(name, text) for name, text in vector.tools.items()]
    scores = overlap(vector.task, [Tool(name, text) for name, text in vector.tools.items()])
    gate = golden_gate(None)
    decision = gate.decide_scored(vector.task, tools, scores)
    assert decision == golden_gate(None).decide(vector.task, tools, scores=scores)
    assert list(decision.kept) == vector.kept
    assert (gate._decider.shared.readers._threads, gate._decider.shared.scorers._threads) == (0, 0)


def test_scores_at_hand_that_are_nonsense_leave_the_whole_list_and_raise_nothing() -> None:
    gate = golden_gate(None)
    nonsense: list[Any] = [[float("nan")] * len(TOOLS), [1.0], "abc", {}, None]
    for scores in nonsense:
        decision = gate.decide_scored(TASK, TOOLS, scores)
        assert (decision.open, names(decision.tools)) == (True, names(TOOLS)), scores
    assert gate.decide_scored(TASK, 7, [1.0]).tools == []  # type: ignore[arg-type]
    assert gate.decide_scored("", TOOLS, [0.5] * len(TOOLS)).reason == "empty task"


def test_the_same_input_gives_the_same_answer_whatever_came_before() -> None:
    gate = golden_gate()
    first = [gate.decide(vector.task, [openai_tool(*t) for t in vector.tools.items()]).kept for vector in VECTORS]
    again = [gate.decide(v.task, [openai_tool(*t) for t in v.tools.items()]).kept for v in reversed(VECTORS)]
    assert first == again[::-1]


# Never raises.

ODD: list[Any] = [
    None, "", "x", 0, -1, 1.5, True, float("nan"), float("inf"), b"\xff", "\ud800", "🙂" * 50, [], {}, (), Broken(),
    object(), {"type": "function"}, {"type": "function", "function": None}, {"type": "function", "function": {}},
    {"name": "a"}, {"name": "a", "input_schema": {"x": {1, 2}}}, {"name": 3, "inputSchema": []}, WEB_SEARCH, TOOLS[0],
    {"function_declarations": [{"name": "g"}]}, Tool("t", "does t"), lambda: None, int, {"name": "a", "description": 7},
    Tool("raises", parameters=lambda: 1 / 0),  # type: ignore[arg-type, return-value]
]  # fmt: skip


INPUTS = int(os.environ.get("FUZZ_INPUTS", "20000"))


def test_tens_of_thousands_of_arbitrary_inputs_never_raise_and_never_add_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Workers, "start", _at_once)
    rng = random.Random(0)
    policy = golden_gate().policy

    def odd_scorer(task: str, tools: Sequence[Tool]) -> Any:
        pick = rng.randrange(8)
        if pick == 0:
            raise rng.choice([ValueError, OSError, KeyError, TimeoutError, RuntimeError])(task)
        length = len(tools) + (pick == 1)
        values = [rng.choice([0.5, 0.0, 1, "0.5", None, float("nan"), -1.0, True, 7.5]) for _ in range(length)]
        return rng.choice([values, [rng.random() for _ in range(length)], None, "abc", np.ones((length, 1))])

    prices = [None, {}, {"a": 1.0}, lambda tool: rng.choice([1.0, 0.0, -1.0, float("nan"), "x"])]
    allows = [None, None, {"a", "t", "get_weather"}, lambda tool: 1 / 0, lambda tool: rng.random() < 0.5]
    gates = [
        Gate(
            policy,
            odd_scorer,
            PAYOFF,
            prices=rng.choice(prices),  # type: ignore[arg-type]
            mode=rng.choice(["drop", "shadow", "defer"]),
            guards=Guards(
                allow=rng.choice(allows),  # type: ignore[arg-type]
                digests=rng.choice([None, None, {"t": "0"}]),
                pinned=["a"],
                fallback=rng.choice([None, ["t"]]),
            ),
            limits=Limits(seconds=None, at_least=rng.randrange(3), at_most=rng.choice([None, 2])),
            rollout=Rollout(explore=rng.choice([0.0, 0.3])),
            records=Records(conversations=3),
        )
        for _ in range(50)
    ]
    for number in range(INPUTS):
        gate = gates[number % len(gates)]
        tools = rng.choices(ODD, k=rng.randrange(5)) if rng.random() < 0.97 else rng.choice(ODD)
        scores: Any = rng.choice([None, None, None, {"a": 0.4}, [0.5] * 3, "x", {"t": "nan"}])
        decision = gate.decide(
            rng.choice(ODD), tools, conversation=rng.choice([None, "c", "d", *ODD]), keep=rng.choice(ODD), scores=scores
        )
        assert isinstance(decision, GateDecision)
        came = list(tools) if isinstance(tools, (list, tuple)) else []
        if isinstance(tools, Mapping) and all(isinstance(each, (list, tuple)) for each in tools.values()):
            came = [tool for theirs in tools.values() for tool in theirs]  # by server
        if gate.mode != "defer":
            assert all(any(tool is each for each in came) for tool in decision.tools), (tools, decision)
        assert len({*decision.kept, *decision.cut, *decision.refused}) == len(came)
        if number % 500 == 0:
            decision.explain()
            decision.svg()


def _at_once(self: Workers, work: Any, seconds: float | None = None) -> Work[Any]:
    """No thread: so many decisions on threads take minutes and show nothing more."""
    begun: Work[Any] = Work(seconds, lambda future: None)
    try:
        begun.future.set_result(work(begun))
    except Exception as error:
        begun.future.set_exception(error)
    return begun


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_answer_is_a_subset_of_the_authorized_input_with_pins_and_bounds_kept(data: st.DataObject) -> None:
    listed = data.draw(st.lists(st.sampled_from(sorted(CATALOGUE)), unique=True, max_size=12))
    allowed = set(data.draw(st.lists(st.sampled_from(sorted(CATALOGUE)))))
    pinned = set(data.draw(st.lists(st.sampled_from(sorted(CATALOGUE)), max_size=3)))
    least, most = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 8))
    scores = [data.draw(st.floats(0, 1)) for _ in listed]
    gate = golden_gate(
        guards=Guards(allow=allowed, pinned=pinned), limits=Limits(at_least=least, at_most=max(least, most))
    )
    decision = gate.decide(TASK, [openai_tool(name, "") for name in listed], scores=scores)
    kept = decision.kept
    authorized = [name for name in listed if name in allowed]
    guarded = pinned & set(authorized)
    assert list(kept) == [name for name in authorized if name in kept]
    assert guarded <= set(kept)
    assert len(kept) >= min(least, len(authorized))
    assert decision.open or len(kept) <= max(most, least, len(guarded))


# Decided once; later turns only widen.


def turns(gate: Gate, tasks: Sequence[str], conversation: str | None) -> list[str]:
    return [json.dumps(gate.decide(task, TOOLS, conversation=conversation).tools) for task in tasks]


TEN_TURNS = [VECTORS[i % 5].task for i in range(10)]


def test_ten_turns_of_one_conversation_are_byte_identical_or_a_superset() -> None:
    sent = turns(golden_gate(), TEN_TURNS, "c")
    for before, after in pairwise(sent):
        assert after == before or after.startswith(before[:-1] + ", "), "what is added is appended"
    assert turns(golden_gate(), [TASK] * 10, "c") == [sent[0]] * 10


def cached_share(sent: Sequence[str]) -> float:
    """The share of tool bytes that a provider's prefix cache would have served, over the turns after the first."""
    hits = [len(_common(before, after)) / len(after) for before, after in pairwise(sent)]
    return float(np.mean(hits))


def _common(a: str, b: str) -> str:
    end = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:end]


def test_a_providers_cache_is_hit_more_often_than_under_an_unguarded_filter(capsys: pytest.CaptureFixture[str]) -> None:
    guarded, unguarded = turns(golden_gate(), TEN_TURNS, "c"), turns(golden_gate(), TEN_TURNS, None)
    with capsys.disabled():
        print(f" cache hits: gate {cached_share(guarded):.0%}, unguarded filter {cached_share(unguarded):.0%}", end="")
    assert cached_share(guarded) > 0.85
    assert cached_share(unguarded) < 0.35


def test_the_first_decision_keeps_the_original_order_and_later_tools_are_appended() -> None:
    wanted = {"first": ["write_file", "get_weather"], "second": ["read_email"]}
    gate = Gate(ScoreAtLeast(0.5), lambda task, tools: falling(tools, wanted[task]), PAYOFF)
    assert gate.decide("first", TOOLS, conversation="c").kept == ("get_weather", "write_file")
    assert gate.decide("second", TOOLS, conversation="c").kept == ("get_weather", "write_file", "read_email")
    assert gate.decide("second", TOOLS[::-1], conversation="c").kept == ("get_weather", "write_file", "read_email")
    assert gate.decide("second", TOOLS).kept == ("read_email",)


def test_a_task_asked_again_is_not_scored_again() -> None:
    calls: list[str] = []

    def counting(task: str, tools: Sequence[Tool]) -> list[float]:
        calls.append(task)
        return overlap(task, tools)

    gate = Gate(golden_gate().policy, counting, PAYOFF)
    decisions = [gate.decide(TASK, TOOLS, conversation="c") for _ in range(5)]
    assert calls == [TASK]
    assert [decision.reason for decision in decisions] == ["decided", *["decided before"] * 4]
    assert len({decision.kept for decision in decisions}) == 1


def test_a_tool_that_the_harness_takes_away_is_not_offered_however_it_was_kept() -> None:
    gate = high("get_weather", "send_email")
    gate.decide("a", TOOLS, conversation="c")
    fewer = [tool for tool in TOOLS if tool["function"]["name"] != "get_weather"]
    assert gate.decide("a", fewer, conversation="c").kept == ("send_email",)
    assert gate.decide("a", TOOLS, conversation="c").kept == ("get_weather", "send_email")


def test_turns_of_one_conversation_on_many_threads_only_widen_it() -> None:
    gate = golden_gate()
    threads = [
        threading.Thread(target=gate.decide, args=(v.task, TOOLS), kwargs={"conversation": "c"}) for v in VECTORS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    remembered = gate.memory.recall("c")
    assert remembered is not None
    alone = [golden_gate().decide(vector.task, TOOLS) for vector in VECTORS]
    assert {name for _, name, _ in remembered.kept} == {name for each in alone if not each.open for name in each.kept}


def test_the_memory_forgets_the_conversation_seen_longest_ago() -> None:
    memory = Memory(2)
    for name in "ab":
        memory.widen(name, [("", "x", 1)], False)
    memory.recall("a")
    memory.widen("c", [("", "x", 1)], False)
    assert [memory.recall(name) is not None for name in "abc"] == [True, False, True]
    assert len(memory) == 2


# Always kept.


def test_pinned_called_forced_named_and_provider_tools_are_never_cut() -> None:
    gate = high(guards=Guards(pinned=["run_sql"]))
    decision = gate.decide("play_music", [*TOOLS, WEB_SEARCH, Broken()], keep=["read_file"])
    assert decision.kept == ("play_music", "run_sql", "read_file", "web_search", "Broken")
    assert decision.tools[-2] is WEB_SEARCH
    why = {each.name: each.why for each in decision.ranking if each.kept}
    assert why == {
        "play_music": "the task is its name",
        "read_file": "required by the harness",
        "run_sql": "pinned",
    }


def test_history_and_tool_choice_name_what_must_stay() -> None:
    from camdf.gate.turns import Call, events
    from camdf.tools import forced_tools

    chat = [{"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "a", "arguments": "{}"}}]}]
    anthropic = [{"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "name": "b"}]}]
    responses: list[Any] = [
        {"type": "function_call", "name": "c", "arguments": "{}"},
        {"role": "user", "content": "x"},
        "odd",
    ]
    called = [event.tool for event in events([*chat, *anthropic, *responses, *chat]) if isinstance(event, Call)]
    assert list(dict.fromkeys(called)) == ["a", "b", "c"]
    assert forced_tools({"type": "function", "function": {"name": "a"}}) == ["a"]
    assert forced_tools({"type": "tool", "name": "b"}) == forced_tools({"type": "function", "name": "b"}) == ["b"]
    assert forced_tools({"type": "allowed_tools", "tools": [{"type": "function", "name": "a"}]}) == ["a"]
    within = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "a"}}]}
    assert forced_tools({"type": "allowed_tools", "allowed_tools": within}) == ["a"]
    assert forced_tools("auto") == forced_tools(None) == forced_tools({"type": "auto"}) == []


# How many are worth it: fails open. May it be offered: fails closed.


def raising(task: str, tools: Sequence[Tool]) -> list[float]:
    raise ConnectionError(f"could not score: {task}")


def exiting(task: str, tools: Sequence[Tool]) -> list[float]:
    sys.exit(1)


async def failing(task: str, tools: Sequence[Tool]) -> list[float]:
    raise KeyError(task)


class BrokenPolicy(camdf.Policy):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        raise OverflowError


FAILURES: dict[str, tuple[dict[str, Any], str, str]] = {
    "raises": ({"scorer": raising}, "scorer failed", "ConnectionError"),
    "exits": ({"scorer": exiting}, "scorer failed", "RuntimeError"),
    "fails in a coroutine": ({"scorer": failing}, "scorer failed", "KeyError"),
    "is missing": ({"scorer": None}, "scorer failed", "UsageError"),
    "hangs": ({"scorer": lambda *_: time.sleep(30), "limits": Limits(seconds=0.3)}, "scorer too slow", "TimeoutError"),
    "answers too few": ({"scorer": lambda *_: [0.5]}, "scores refused", "ScorerError"),
    "answers nothing": ({"scorer": lambda *_: None}, "scores refused", "ScorerError"),
    "answers texts": ({"scorer": lambda _, tools: ["0.5"] * len(tools)}, "scores refused", "ScorerError"),
    "answers truths": ({"scorer": lambda _, tools: [True] * len(tools)}, "scores refused", "ScorerError"),
    "answers nan": ({"scorer": lambda _, tools: [float("nan")] * len(tools)}, "scores refused", "ScorerError"),
    "answers infinity": ({"scorer": lambda _, tools: [float("inf")] * len(tools)}, "scores refused", "ScorerError"),
    "answers negatives": ({"scorer": lambda _, tools: [-0.1] * len(tools)}, "scores refused", "ScorerError"),
    "is fine but prices are not": ({"scorer": overlap, "prices": {}}, "policy failed", "KeyError"),
    "is fine but a price is 0": ({"scorer": overlap, "prices": lambda tool: 0.0}, "policy failed", "UsageError"),
    "is fine but the policy is not": (
        {"scorer": overlap, "policy": BrokenPolicy()},
        "policy failed",
        "OverflowError",
    ),
}


@pytest.mark.parametrize(("broken", "reason", "error"), FAILURES.values(), ids=list(FAILURES))
def test_what_goes_wrong_leaves_the_whole_authorized_list_and_says_so(
    broken: dict[str, Any], reason: str, error: str
) -> None:
    gate = Gate(
        **{"policy": ScoreAtLeast(0.5), "payoff": PAYOFF, **broken}, guards=Guards(allow=set(CATALOGUE) - {"run_sql"})
    )
    for decision in (gate.decide(f"secret {TASK}", TOOLS), asyncio.run(gate.adecide(f"secret {TASK}", TOOLS))):
        assert (decision.reason, decision.error, decision.open) == (reason, error, True)
        assert names(decision.tools) == [name for name in CATALOGUE if name != "run_sql"]
        assert "secret" not in f"{decision!r}{decision.explain()}{decision.event()}"
    assert gate.counts == {reason: 2}


def test_scores_that_are_all_equal_are_no_signal_and_leave_the_whole_list() -> None:
    def level(score: float, tools: int = len(TOOLS)) -> GateDecision:
        return Gate(ScoreAtLeast(0.5), lambda _, offered: [score] * len(offered), PAYOFF).decide(TASK, TOOLS[:tools])

    for decision in (level(0.0), level(0.3), level(1.0), level(0.0, tools=1)):
        assert (decision.reason, decision.open, decision.cut) == ("no signal", True, ())
    assert level(0.7, tools=1).reason == "decided", "one tool with a score is a ranking of one"


def test_a_request_that_shares_no_word_with_any_tool_keeps_every_tool() -> None:
    gate = Gate(camdf.cold_start(), BM25(), camdf.Payoff(0.12))
    decision = gate.decide("Will I need an umbrella in Oslo tomorrow?", TOOLS)
    assert (decision.reason, names(decision.tools)) == ("no signal", list(CATALOGUE))


def test_a_set_that_is_empty_is_no_signal() -> None:
    decision = Gate(ScoreAtLeast(0.5), lambda _, tools: falling(tools), PAYOFF).decide(TASK, TOOLS)
    assert (decision.reason, decision.open, decision.cut) == ("no signal", True, ())
    assert len(decision.ranking) == len(TOOLS), "what was ranked can still be explained and mined"


def test_neither_a_failure_nor_a_turn_without_signal_opens_a_conversation_or_is_remembered() -> None:
    wanted: dict[str, Any] = {
        "weather": ["get_weather"],
        "down": None,
        "nothing": [],
        "level": 0.0,
        "mail": ["read_email"],
    }

    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        if wanted[task] is None:
            raise ConnectionError
        return [0.0] * len(tools) if wanted[task] == 0.0 else falling(tools, wanted[task])

    gate = Gate(ScoreAtLeast(0.5), scorer, PAYOFF)
    found = [gate.decide(task, TOOLS, conversation="c") for task in wanted]
    assert [decision.reason for decision in found] == [
        "decided", "scorer failed", "no signal", "no signal", "decided",
    ]  # fmt: skip
    assert [decision.kept for decision in found] == [("get_weather",)] * 4 + [("get_weather", "read_email")]
    assert not any(decision.open for decision in found)


def test_a_conversation_that_begins_with_a_failure_is_open_until_a_turn_decides() -> None:
    well: list[bool] = []
    gate = Gate(
        ScoreAtLeast(0.5), lambda task, tools: falling(tools, ["get_weather"]) if well else raising(task, tools), PAYOFF
    )
    assert gate.decide("hello", TOOLS, conversation="c").open
    well.append(True)
    decision = gate.decide(TASK, TOOLS, conversation="c")
    assert (decision.reason, decision.kept, decision.open) == ("decided", ("get_weather",), False)


def test_an_empty_task_leaves_the_whole_list() -> None:
    for task in ("", "  ", None):
        decision = golden_gate().decide(task, TOOLS)  # type: ignore[arg-type]
        assert (decision.reason, len(decision.tools)) == ("empty task", len(TOOLS))


def test_the_operator_may_name_a_fallback_instead_of_everything() -> None:
    gate = Gate(
        ScoreAtLeast(0.5), raising, PAYOFF, guards=Guards(fallback=["read_file", "unheard_of"], pinned=["run_sql"])
    )
    assert gate.decide(TASK, TOOLS).kept == ("run_sql", "read_file")


def test_a_hanging_scorer_costs_its_budget_and_stuck_ones_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("camdf.gate.shared.SCORERS", 8)
    release = threading.Event()
    gate = Gate(ScoreAtLeast(0.5), lambda *_: release.wait(20), PAYOFF, limits=Limits(seconds=0.3))  # type: ignore[arg-type]
    reasons = [gate.decide(TASK, TOOLS).reason for _ in range(14)]
    assert reasons == ["scorer too slow"] * 8 + ["scorer busy"] * 6
    release.set()


def test_whether_a_tool_may_be_offered_fails_closed() -> None:
    def unsure(tool: Tool) -> bool:
        if tool.name == "run_sql":
            raise LookupError
        return tool.name != "write_file"

    decision = high("run_sql", "write_file", "get_weather", guards=Guards(allow=unsure)).decide(
        TASK, TOOLS, keep=["run_sql"]
    )
    assert decision.kept == ("get_weather",)
    assert decision.refused == ("run_sql", "write_file")
    failed = Gate(ScoreAtLeast(0.5), raising, PAYOFF, guards=Guards(allow=unsure)).decide(TASK, TOOLS)
    assert not {"run_sql", "write_file"} & set(names(failed.tools))


def test_a_changed_definition_is_refused_down_to_a_byte() -> None:
    from camdf.tools import view

    digests = {view(tool).name: view(tool).digest() for tool in TOOLS}
    changed = [openai_tool(name, text + ("." if name == "send_email" else "")) for name, text in CATALOGUE.items()]
    stranger = openai_tool("stranger", "a tool that nobody pinned")
    decision = high("send_email", "stranger", "get_weather", guards=Guards(digests=digests)).decide(
        TASK, [*changed, stranger]
    )
    assert decision.refused == ("send_email", "stranger")
    assert decision.kept == ("get_weather",)


def test_two_servers_may_have_a_tool_of_one_name_and_neither_hides_the_other() -> None:
    ours = [Tool("search", "a", server="docs"), Tool("search", "b", server="mail"), Tool("search", "c")]
    gate = Gate(ScoreAtLeast(0.5), lambda _, tools: [0.9, 0.1, 0.8], PAYOFF)
    decision = gate.decide(TASK, ours)
    assert decision.kept == ("docs/search", "search")
    assert decision.cut == ("mail/search",)
    assert decision.tools == [ours[0], ours[2]]
    swapped = gate.decide(TASK, ours[::-1])
    assert {*swapped.kept, *swapped.cut} == {"search", "mail/search", "docs/search"}, "whatever their order"


# Modes, exploration, bounds.


def test_shadow_says_what_it_would_cut_and_cuts_nothing() -> None:
    decision = high("get_weather", mode="shadow").decide(TASK, TOOLS)
    assert decision.kept == ("get_weather",)
    assert decision.tools == TOOLS
    assert says(decision.explain(), "Shadow mode", "nothing", "cut")


def test_defer_marks_what_it_would_cut_where_the_provider_has_tool_search() -> None:
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    tools = [{"name": name, "description": text, "input_schema": {}} for name, text in CATALOGUE.items()]
    decision = high("get_weather", mode="defer").decide(TASK, [*tools, search])
    assert [tool.get("defer_loading", False) for tool in decision.tools] == [False, False, *[True] * 17]
    assert decision.tools[:2] == [tools[0], search]
    assert "defer_loading" not in tools[1]
    without = high("get_weather", mode="defer").decide(TASK, tools)
    assert without.tools == tools


def test_a_share_of_conversations_sees_every_tool_and_is_flagged_for_good() -> None:
    gate = high("get_weather", rollout=Rollout(explore=0.1))
    explored = [gate.decide(TASK, TOOLS, conversation=str(i)).explored for i in range(2000)]
    assert 0.08 < np.mean(explored) < 0.12
    again = high("get_weather", rollout=Rollout(explore=0.1))
    assert [again.decide(TASK, TOOLS, conversation=str(i)).explored for i in range(2000)] == explored
    number = str(explored.index(True))
    for decision in (
        again.decide("another task", TOOLS, conversation=number),
        high("get_weather", rollout=Rollout(explore=0.1)).decide(TASK, TOOLS, conversation=number),
    ):
        assert (decision.explored, decision.reason, len(decision.tools)) == (True, "explored", len(TOOLS))
    assert [each.name for each in decision.ranking if each.kept] == ["get_weather"], "the log has what it would keep"


def test_a_share_of_conversations_may_explore_by_a_lower_pressure_and_stays_on_its_side() -> None:
    def rated(task: str, tools: Sequence[Tool]) -> list[float]:
        return [0.9 if tool.name == "get_weather" else 0.3 / (1 + i) for i, tool in enumerate(tools)]

    exploring: dict[str, Any] = {"rollout": Rollout(explore=0.3, explore_pressure=0.01)}
    gate, plain = (Gate(cold_start("probability"), rated, Payoff(0.2), **each) for each in (exploring, {}))
    turns = [{"role": "user", "content": TASK}, {"role": "user", "content": "and what of the day after tomorrow?"}]
    wider = 0
    for i in range(40):
        talk, name = [{"role": "user", "content": f"{TASK} Number {i}."}, *turns[1:]], f"talk {i}"
        first, second = (gate.decide(shown, TOOLS, conversation=name) for shown in (talk[:1], talk))
        narrow = plain.decide(talk[:1], TOOLS)
        assert not first.explored, "it did not see every tool, so it stays censored"
        assert first.cost_pressure in (0.01, 0.2)
        assert second.cost_pressure == first.cost_pressure
        assert second.kept[: len(first.kept)] == first.kept
        if first.cost_pressure == 0.2:
            assert first.kept == narrow.kept
        else:
            wider += 1
            assert set(narrow.kept) < set(first.kept) < {tool["function"]["name"] for tool in TOOLS}
            assert first.event()["camdf.cost_pressure"] == 0.01
        named = [gate.decide(TASK, TOOLS, conversation=str(i)) for _ in range(2)]
        assert named[0].cost_pressure == named[1].cost_pressure
        assert named[0].kept == named[1].kept
    assert 4 < wider < 22


def test_a_lower_pressure_is_lower_and_the_policy_can_decide_at_it() -> None:
    for wrong in (0.2, 0.3, -0.1, float("nan")):
        with pytest.raises(UsageError, match=r"'explore_pressure' of Rollout must be"):
            Gate(cold_start(), raising, Payoff(0.2), rollout=Rollout(explore=0.1, explore_pressure=wrong))
    fitted = camdf.CAMDF().fit(domains.load("retail"), Payoff(0.2))
    with refuses(UsageError, "decides", "cost pressure", "fitted"):
        Gate(fitted, raising, rollout=Rollout(explore=0.1, explore_pressure=0.1))


def requests_of(catalogue: Mapping[str, str]) -> list[str]:
    return [f"I would like to {text.lower()}" for text in catalogue.values()]


@pytest.mark.parametrize("tools", [1, 3, 8])
def test_a_gate_may_have_a_target_of_a_number_of_tools(tools: int) -> None:
    over = requests_of(CATALOGUE)
    gate = Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, mean_tools=tools)
    kept = np.mean([len(gate.decide(task, TOOLS).kept) for task in over])
    assert 0.75 * tools <= kept <= tools
    twice = Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, mean_tools=2 * tools)
    assert twice.payoff.cost_pressure < gate.payoff.cost_pressure


def test_a_gate_may_have_a_target_of_dollars_or_of_an_expected_sufficiency() -> None:
    over, prices = requests_of(CATALOGUE), {name: 0.001 * (1 + i) for i, name in enumerate(CATALOGUE)}
    gate = Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, dollars_per_task=0.02, prices=prices)
    spent = np.mean([sum(prices[name] for name in gate.decide(task, TOOLS).kept) for task in over])
    assert 0.01 < spent <= 0.02
    some, most = (Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, sufficiency=s) for s in (0.4, 0.7))
    assert some.payoff.cost_pressure > most.payoff.cost_pressure


def test_a_target_that_says_nothing_or_two_things_or_that_no_request_serves_is_refused() -> None:
    over = requests_of(CATALOGUE)
    nothing: dict[str, Any] = {}
    for wrong in (nothing, {"mean_tools": 3, "sufficiency": 0.9}):
        with pytest.raises(UsageError, match="Give one of mean_tools"):
            Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, **wrong)
    with pytest.raises(UsageError, match=r"needs what tools cost: prices=camdf.Prices"):
        Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, dollars_per_task=0.01)
    with refuses(UsageError, "mean_tools", "Target", must="a number"):
        Gate.for_target(cold_start(), BM25(), requests=over, tools=TOOLS, mean_tools="three")  # type: ignore[arg-type]
    with refuses(UsageError, "18 requests", "ConnectionError"):
        Gate.for_target(cold_start(), raising, requests=over, tools=TOOLS, mean_tools=3)
    for few in ({"requests": "Book a flight", "tools": TOOLS}, {"requests": over, "tools": []}):
        with refuses(UsageError, "list", "least", "tools"):
            Gate.for_target(cold_start(), BM25(), **few, mean_tools=3)
    with pytest.raises(UsageError, match="at least one request"):
        Gate.for_target(cold_start(), BM25(), requests=[], tools=TOOLS, mean_tools=3)


def test_own_scores_stand_in_for_the_scorer() -> None:
    gate = Gate(ScoreAtLeast(0.5), raising, PAYOFF)
    scores = {name: float(name == "run_sql") for name in CATALOGUE}
    assert gate.decide(TASK, TOOLS, scores=scores).kept == ("run_sql",)
    assert gate.decide(TASK, TOOLS, scores=list(scores.values())).kept == ("run_sql",)
    assert gate.decide(TASK, TOOLS, scores={"run_sql": 1.0}).reason == "scores refused"


def test_own_scores_are_those_of_their_call_whoever_asks_the_same_at_that_moment() -> None:
    """The text, and so the place where scores are kept, is the same for all of them."""
    gate = Gate(ScoreAtLeast(0.5), None, PAYOFF)
    wrong: list[str] = []

    ready = threading.Event()

    def ask(wanted: str) -> None:
        ready.wait()
        for _ in range(300):
            kept = gate.decide_scored(TASK, TOOLS, {name: float(name == wanted) for name in CATALOGUE}).kept
            if kept != (wanted,):
                wrong.append(wanted)

    threads = [threading.Thread(target=ask, args=(name,)) for name in list(CATALOGUE)[:4]]
    for thread in threads:  # at the usual pace: two that install a coverage trace at once end one of them
        thread.start()
    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        ready.set()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switched)
    assert not wrong


def test_own_scores_stay_in_their_conversation_and_are_not_the_scorers_elsewhere() -> None:
    gate = high("book_flight")
    said = [{"role": "user", "content": TASK}]
    assert gate.decide(said, TOOLS, scores={name: float(name == "run_sql") for name in CATALOGUE}).kept == ("run_sql",)
    assert gate.decide([*said, {"role": "assistant", "content": "Sure."}], TOOLS).kept == ("run_sql",)
    assert gate.decide(TASK, TOOLS).kept == ("book_flight",)


def test_a_history_of_more_scores_than_are_kept_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("camdf.gate.scoring.SCORES_KEPT", 2 * len(TOOLS) - 1)
    history = [{"role": "user", "content": f"Please do number {i} of these things"} for i in range(5)]
    decision = high("book_flight").decide(history, TOOLS)
    assert (decision.reason, decision.kept) == ("decided before", ("book_flight",))


@pytest.mark.parametrize("settings", [{}, {"guards": Guards(allow=[])}])
@pytest.mark.parametrize("tools", [[], [WEB_SEARCH]])
def test_a_request_with_nothing_to_cut_is_no_failure(tools: list[Any], settings: dict[str, Any]) -> None:
    decision = high(**settings).decide(TASK, tools)
    assert (decision.reason, decision.error, decision.cut) == ("decided", "", ())


def test_a_tool_that_was_called_stays_whatever_fails() -> None:
    called = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "run_sql", "arguments": "{}"}}]}
    history: list[Any] = [{"role": "user", "content": TASK}, called, {"role": "user", "content": "And now the rest"}]

    fails: list[tuple[Any, Any]] = [(ScoreAtLeast(0.5), raising), (BreaksDown(0.5), overlap)]
    for policy, scorer in fails:
        assert Gate(policy, scorer, PAYOFF, guards=Guards(fallback=())).decide(history, TOOLS).kept == ("run_sql",)


@pytest.mark.parametrize("tool_search", [False, True])
def test_a_policy_that_breaks_is_not_taken_for_the_scorer(tool_search: bool) -> None:
    gate = Gate(BreaksDown(0.5), overlap, PAYOFF)
    for _ in range(2):
        decision = gate.decide([{"role": "user", "content": TASK}], TOOLS, tool_search=tool_search)
        assert (decision.reason, decision.error) == ("policy failed", "ZeroDivisionError")


def test_scores_hold_until_the_names_of_the_arguments_change() -> None:
    def sheet(argument: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {argument: {"type": "string"}}}
        return {"type": "function", "function": {"name": "sheet", "description": "Edit it.", "parameters": schema}}

    gate = Gate(
        ScoreAtLeast(0.5),
        lambda _, tools: [1.0 * ("city" in tool.schema.get("properties", {})) for tool in tools],
        PAYOFF,
    )
    for argument, score in (("row", 0.0), ("city", 1.0)):
        found = {each.name: each.score for each in gate.decide(TASK, [sheet(argument), TOOLS[0]]).ranking}
        assert found["sheet"] == score


def test_prices_come_from_a_mapping_a_function_or_anything_with_of() -> None:
    class Words:
        def of(self, tool: Tool) -> float:
            return float(len(tool.description.split()))

    mapping = {name: float(len(text.split())) for name, text in CATALOGUE.items()}
    prices: list[Any] = [mapping, Words().of, Words()]
    found = [golden_gate(prices=each).decide(TASK, TOOLS) for each in prices]
    assert found[0].ranking == found[1].ranking == found[2].ranking
    assert found[0].ranking != golden_gate().decide(TASK, TOOLS).ranking


def test_a_policy_from_a_file_decides_at_the_payoff_that_it_was_fitted_for(tmp_path: Path) -> None:
    save(cold_start(), tmp_path / "policy.json", Training(payoff=Payoff(0.01)))
    tools = [openai_tool(name, text) for name, text in VECTORS[0].tools.items()]
    decision = Gate.start(tools, policy=load(tmp_path / "policy.json"), scorer=overlap).decide(VECTORS[0].task, tools)
    assert decision.cost_pressure == 0.01


def test_a_gate_that_cannot_work_is_refused_when_it_is_made() -> None:
    wrong: list[Any] = ["policy.json", cold_start, ScoreAtLeast, None]
    for policy in wrong:
        with refuses(UsageError, "policy", "Gate", "decides", "camdf.cold_start("):
            Gate(policy, overlap, PAYOFF)
    scorers: list[Any] = ["start", BM25, [0.5]]
    for scorer in scorers:
        with refuses(UsageError, "scorer", "Gate", "called", "Start("):
            golden_gate(scorer=scorer)
    with refuses(ValueError, "serves", "payoff", "gate"):
        Gate(golden_gate().policy, overlap)
    settings: dict[str, Any] = {"prices": 5, "guards": 5, "limits": None, "rollout": 0.5, "records": print}
    for name, value in settings.items():
        with pytest.raises(UsageError, match=f"'{name}' of Gate must be .*Got .* instead"):
            golden_gate(**{name: value})
    with refuses(ValueError, "mode", "Gate", "drop", "append", "defer", "allow", "shadow", "cut"):
        golden_gate(mode="cut")


# An event loop goes on.


def test_a_slow_scorer_does_not_hold_up_an_event_loop() -> None:
    def slow(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(1.0)
        return falling(tools, ["get_weather"])

    async def longest_pause() -> float:
        gate = Gate(ScoreAtLeast(0.5), slow, PAYOFF, limits=Limits(seconds=60))
        longest, last = 0.0, time.perf_counter()
        deciding = asyncio.create_task(gate.adecide(TASK, TOOLS))
        while not deciding.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        assert deciding.result().reason == "decided"
        return longest

    assert asyncio.run(longest_pause()) < 0.5, "half of what the scorer takes"


def test_a_coroutine_is_a_scorer_too_in_both_worlds() -> None:
    async def thoughtful(task: str, tools: Sequence[Tool]) -> list[float]:
        await asyncio.sleep(0)
        return overlap(task, tools)

    gate = Gate(golden_gate().policy, thoughtful, PAYOFF)
    assert gate.decide(TASK, TOOLS).kept == asyncio.run(gate.adecide(TASK, TOOLS)).kept == tuple(VECTORS[0].kept)


def test_cancelling_the_caller_cancels_the_decision() -> None:
    async def cancelled(after: float) -> None:
        gate = Gate(ScoreAtLeast(0.5), lambda *_: time.sleep(0.5) or [], PAYOFF)  # type: ignore[func-returns-value]
        deciding = asyncio.create_task(gate.adecide(TASK, TOOLS))
        await asyncio.sleep(after)
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding

    for after in (0.0, 0.002, 0.01, *np.linspace(0.0005, 0.005, 30)):  # reading the request ends somewhere in between
        asyncio.run(cancelled(after))


# Explained and logged.


def test_a_decision_explains_every_ranked_tool_with_score_priced_cost_and_why() -> None:
    decision = golden_gate(prices=lambda tool: 2.0, guards=Guards(pinned=["run_sql"])).decide(
        TASK, [*TOOLS, WEB_SEARCH]
    )
    text = decision.explain()
    assert says(text, len(decision.kept), "19 tools")
    for each in decision.ranking:
        line = next(line for line in text.splitlines() if f" {each.name} " in line)
        assert f"{each.score:.3f}" in line
        assert "0.1200" in line
        assert line.endswith(f"{'kept' if each.kept else 'cut'}, {each.why}")
    assert "Never cut: web_search." in text
    assert f"{decision.priced_cost:.4f} of a solved task" in text


def test_the_picture_has_a_row_a_tool_and_escapes_names() -> None:
    decision = golden_gate().decide(TASK, [*TOOLS, openai_tool("<script>", "book a hotel & flight")])
    picture = decision._repr_svg_()
    assert picture == decision.svg()
    assert picture.count("kept,") + picture.count("cut,") == len(decision.ranking)
    assert "<script>" not in picture
    assert "&lt;script&gt;" in picture
    many = golden_gate().decide(TASK, [openai_tool(f"t{i}", "city hotel" * (i % 2)) for i in range(200)])
    assert "and 140 more" in many.svg()


def test_the_span_of_the_moment_gets_the_decision_without_the_tasks_text() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("turn"):
        decision = golden_gate().decide(f"canary-4711 {TASK}", TOOLS)
    (span,) = exporter.get_finished_spans()
    (event,) = span.events
    assert event.name == "camdf.decision"
    assert event.attributes is not None
    assert event.attributes["camdf.kept"] == decision.kept
    assert event.attributes["camdf.priced_cost"] == decision.priced_cost
    assert "canary" not in str(span.to_json())


def test_a_tracer_that_is_loaded_and_broken_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (SimpleNamespace(), SimpleNamespace(get_current_active_span=lambda: 1 / 0)):
        monkeypatch.setitem(sys.modules, "mlflow", module)
        assert golden_gate().decide(TASK, TOOLS) == golden_gate().decide(TASK, TOOLS)


def test_a_stalled_sink_never_holds_up_a_decision() -> None:
    release, seen = threading.Event(), []

    def stalled(decision: GateDecision) -> None:
        release.wait(120)
        seen.append(decision)

    gate = high("get_weather", records=Records(on_decision=stalled))
    assert gate.sink is not None
    start = time.perf_counter()
    for _ in range(1500):
        gate.decide(TASK, TOOLS[:2], scores=[1.0, 0.0])
    assert time.perf_counter() - start < 60, "half of what one call of the sink takes"
    assert 498 <= gate.sink.dropped <= 500
    release.set()
    gate.sink.drain()
    assert len(seen) == 1500 - gate.sink.dropped


def test_a_sink_that_raises_is_counted_and_goes_on() -> None:
    got = []
    sink = Sink(lambda decision: got.append(1 / decision.priced_cost_of_all))
    for number in (1, 2):
        sink.put(GateDecision([], (), ranking=()) if number == 1 else high().decide(TASK, TOOLS))
    sink.drain()
    assert (sink.dropped, len(got)) == (1, 1)
