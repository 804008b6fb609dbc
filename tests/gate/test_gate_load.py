"""The gate under load: linear time, bounds, one budget for everything, threads that come and go."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import camdf
from camdf.gate import Breaker, Gate, GateDecision, Guards, Limits, Records, Rollout
from camdf.policies.rules import ScoreAtLeast
from camdf.prices import Prices
from camdf.runtime import workers
from camdf.runtime.workers import BusyError, Workers
from camdf.tools import Tool, keyed
from golden import PAYOFF, VECTORS, golden_gate, openai_tool, overlap
from saying import refuses, says

TASK = "Book a flight and a hotel in a city"
TOOLS = [openai_tool(name, text) for name, text in VECTORS[0].tools.items()]


def first(task: str, tools: Sequence[Tool]) -> list[float]:
    """A scorer that prefers the first tool."""
    return [1.0, *[0.0] * (len(tools) - 1)] if tools else []


def gate_of(scorer: Any = first, **settings: Any) -> Gate:
    return Gate(ScoreAtLeast(0.5), scorer, PAYOFF, **settings)


def least_seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Of the processor, over all threads: others who use the machine do not count."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


# Linear in the number of tools.

LISTS: dict[str, Callable[[int], list[Tool]]] = {
    "all alike": lambda count: [Tool("a", "does a")] * count,
    "all alike on two servers": lambda count: [Tool("a", "does a", server="xy"[i % 2]) for i in range(count)],
    "names that others will be given": lambda count: [
        *(Tool(f"a#{i}") for i in range(count // 2)),
        *(Tool("a") for _ in range(count - count // 2)),
    ],
    "all different": lambda count: [Tool(f"t{i}", f"does {i}") for i in range(count)],
}


@pytest.mark.parametrize("named", LISTS)
def test_the_time_of_a_decision_is_linear_in_the_number_of_tools_whatever_their_names(named: str) -> None:
    allowed = {"a", *(f"a#{i}" for i in range(6000)), *(f"t{i}" for i in range(6000))}
    gate = gate_of(guards=Guards(allow=allowed | {"x/a", "y/a"}, pinned=["t1"]))
    call: dict[str, Any] = {"role": "assistant", "tool_calls": [{"function": {"name": "a"}}]}
    history = [{"role": "user", "content": TASK}, call]

    def seconds(count: int) -> float:
        tools = LISTS[named](count)
        return least_seconds(lambda: gate.decide(history, tools).explain())

    seconds(100)
    assert seconds(6000) < 25 * max(seconds(750), 0.002), "a square would take 64 times as long"


def test_six_thousand_equal_names_have_keys_of_their_own() -> None:
    assert len(keyed([Tool("a")] * 6000)) == 6000


def test_a_long_history_of_calls_takes_time_by_its_own_length_and_not_times_the_tools() -> None:
    gate = gate_of()
    call: dict[str, Any] = {"role": "assistant", "tool_calls": [{"function": {"name": "t7"}}]}
    history = [{"role": "user", "content": TASK}, *[call] * 3000]
    few, many = LISTS["all different"](10), LISTS["all different"](3000)
    short = least_seconds(lambda: gate.decide(history[:2], many))
    assert least_seconds(lambda: gate.decide(history, many)) < 6 * (
        short + least_seconds(lambda: gate.decide(history, few))
    )


def test_a_reminder_that_is_opened_again_and_again_takes_no_square_of_its_length() -> None:
    from camdf.gate.turns import own_words

    def seconds(count: int) -> float:
        return least_seconds(lambda: own_words("<system-reminder " * count))

    assert seconds(60_000) < 25 * max(seconds(7_500), 0.002), "a square would take 64 times as long"


# Bounds: beyond them the list is open, and the decision says so.


def test_more_tools_than_the_bound_are_not_scored_and_only_what_may_be_offered_is() -> None:
    calls: list[str] = []

    def noting(task: str, tools: Sequence[Tool]) -> list[float]:
        calls.append(task)
        return first(task, tools)

    gate = gate_of(noting, limits=Limits(tools=5), guards=Guards(allow=[f"t{i}" for i in range(6)]))
    many = [Tool(f"t{i}") for i in range(7)]
    decision = gate.decide(TASK, many)
    assert (decision.reason, decision.open, decision.refused) == ("request too large", True, ("t6",))
    assert decision.tools == many[:6]
    assert says(decision.explain(), "open (request too large)")
    assert gate.decide(TASK, many[:5]).kept == ("t0",)
    assert calls == [TASK]
    assert gate_of(limits=Limits(tools=5), guards=Guards(fallback=["t3"])).decide(TASK, many).kept == ("t3",)


@pytest.mark.parametrize(
    ("task", "description"),
    [
        ("x " * 600, ""),
        ([{"role": "user", "content": "x " * 600}], ""),
        ([{"role": "user", "content": TASK}, {"role": "tool", "content": [{"text": "y" * 1100}]}], ""),
        (TASK, "z" * 1100),
    ],
    ids=["a text", "a turn", "a result", "a description"],
)
def test_more_characters_than_the_bound_are_not_scored(task: Any, description: str) -> None:
    tools = [Tool("a", description), Tool("b")]
    decision = gate_of(limits=Limits(characters=1000)).decide(task, tools)
    assert (decision.reason, decision.tools) == ("request too large", tools)
    assert gate_of(limits=Limits(characters=2000)).decide(task, tools).kept == ("a",)


def test_a_conversation_beyond_the_bound_keeps_what_it_has() -> None:
    gate = gate_of(limits=Limits(tools=3))
    tools = [Tool("a"), Tool("b"), Tool("c")]
    gate.decide(TASK, tools, conversation="c")
    decision = gate.decide(TASK, [*tools, Tool("d")], conversation="c")
    assert (decision.reason, decision.kept, decision.open) == ("request too large", ("a",), False)


NONSENSE: dict[type[Any], dict[str, list[Any]]] = {
    Guards: {
        "allow": ["search", [3], 5],
        "digests": [5, {"search": 5}],
        "pinned": ["search", b"search", [1], [None], 5],
        "fallback": ["search", [("a", "b")]],
        "trusted": ["mail", b"mail", [1]],
        "untrusted_places": [-1, 1.5, None, True],
    },
    Limits: {
        "seconds": [-1, 0, float("nan"), float("inf"), 1e300, "5", True],
        "tools": [0, -1, 1.5, None],
        "characters": [0, "many", None],
        "at_least": [-1, 1.5, "2", None, True],
        "at_most": [-1, 2.5, "2", True],
        "breaker": [5, Breaker],
        "search_names": [-1, 1.5, None, True],
        "cached_prefix": [-1, 1.5, None, True],
    },
    Rollout: {
        "share": [2, -0.1, True],
        "off": [0.5, None],
        "salt": [5, None],
        "every": [-1, "1", float("inf")],
        "explore": [2, -0.1, float("nan"), "all", None, True],
        "explore_pressure": [-1, "x"],
        "explore_key": [5, None],
    },
    Records: {
        "conversations": [-1, 1.5, None],
        "store": [5, {}],
        "on_decision": [5],
        "tenant": [None, 5],
        "id_key": ["a key", b"short"],
    },
}


def test_every_setting_has_nonsense_to_refuse() -> None:
    for kind, values in NONSENSE.items():
        assert {part.name for part in fields(kind) if part.init} == values.keys()


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        (kind, name, value)
        for kind, settings in NONSENSE.items()
        for name, values in settings.items()
        for value in values
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(kind: type[Any], setting: str, value: Any) -> None:
    with pytest.raises(camdf.UsageError, match=rf"^The '{setting}' of {kind.__name__} must be .* Got .* instead"):
        kind(**{setting: value})


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with refuses(camdf.UsageError, "'at_least' of Limits", must="at most … 'at_most', 1", got=5):
        Limits(at_least=5, at_most=1)


def test_scores_may_be_an_array() -> None:
    scores = np.zeros(len(TOOLS))
    scores[3] = 1.0
    given: list[Any] = [scores, scores.astype(np.float32), scores.astype(int), np.ma.array(scores)]
    for each in given:
        assert gate_of(None).decide(TASK, TOOLS, scores=each).kept == ("search_flights",)
    bad: list[Any] = [scores[:3], scores[None], np.full(len(TOOLS), np.nan), np.array(1.0), scores.astype(str)]
    for each in bad:
        assert gate_of(None).decide(TASK, TOOLS, scores=each).reason == "scores refused"


# One tool that is broken costs that tool alone.

ROUND: dict[str, Any] = {"type": "object"}
ROUND["properties"] = {"again": ROUND}
DEEP: dict[str, Any] = {}
_inner = DEEP
for _ in range(100_000):
    _inner["x"] = _inner = {}


def raising() -> Any:
    raise RuntimeError("no schema")


@pytest.mark.parametrize(
    "schema",
    [ROUND, DEEP, raising, {"x": {1, 2}}, {1: object()}],
    ids=["round", "deep", "raises", "a set", "an object"],
)
def test_a_tool_with_a_broken_schema_costs_that_tool_alone(schema: Any) -> None:
    broken = Tool("broken", "does nothing", schema)
    gate = golden_gate(prices=Prices(uncached=3000.0, cached=300.0))
    whole = gate.decide(TASK, TOOLS)
    decision = gate.decide(TASK, [*TOOLS, broken])
    assert decision.reason == "decided"
    assert set(decision.kept) - {"broken"} == set(whole.kept)
    assert decision.cut
    digests = {tool.name: tool.digest() for tool in map(camdf.tools.view, TOOLS)}
    refused = golden_gate(guards=Guards(digests={**digests, "broken": "0"})).decide(TASK, [*TOOLS, broken])
    assert (refused.refused, refused.reason, len(refused.cut) > 0) == (("broken",), "decided", True)


def test_a_price_that_is_none_costs_that_tool_alone() -> None:
    prices: dict[str, Any] = dict.fromkeys(VECTORS[0].tools, 1.0)
    prices |= {"run_sql": float("nan"), "play_music": 0.0, "read_file": "dear"}
    del prices["write_file"]
    decision = golden_gate(prices=prices).decide(TASK, TOOLS)
    assert decision.reason == "decided"
    left_alone = ("play_music", "run_sql", "read_file", "write_file")
    assert decision.kept == (*golden_gate().decide(TASK, TOOLS).kept, *left_alone)
    assert f"Never cut: {', '.join(left_alone)}." in decision.explain()


class Odd(str):
    """A name that raises when it is used as one."""

    def __hash__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


def test_a_tool_whose_name_is_no_plain_text_costs_that_tool_alone() -> None:
    odd: list[Any] = [Tool(Odd("odd"), "odd"), Tool(3), Tool(None), Tool(["x"]), Tool("d", None)]  # type: ignore[arg-type]
    decision = golden_gate().decide(TASK, [*TOOLS, *odd])
    assert decision.reason == "decided"
    assert {"odd", "Tool", "Tool#2", "Tool#3", "Tool#4"} <= {*decision.kept, *decision.cut}


# One budget for reading, pricing, scoring and deciding.


RELEASED = threading.Event()
"""Ends what is slow, once a test has seen that nobody waits for it."""


@pytest.fixture
def _slow() -> Iterator[None]:
    RELEASED.clear()
    yield
    RELEASED.set()


class SlowTool:
    """A tool that takes its time to say what it is called."""

    description, parameters = "does something", {"type": "object"}

    @property
    def name(self) -> str:
        RELEASED.wait(60)
        return "slow"


class SlowPolicy(ScoreAtLeast):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        RELEASED.wait(60)
        return super().decide(rankings, payoff)


def slowly(*_: object) -> Any:
    RELEASED.wait(60)
    return 1.0


SLOW: dict[str, tuple[dict[str, Any], list[Any], str]] = {
    "a tool": ({}, [*TOOLS, SlowTool()], "tools not readable"),
    "a price": ({"prices": slowly}, TOOLS, "tools not readable"),
    "a scorer": ({"scorer": slowly}, TOOLS, "scorer too slow"),
    "a policy": ({"policy": SlowPolicy(0.5)}, TOOLS, "scorer too slow"),
    "a schema": ({"prices": Prices()}, [Tool("a"), Tool("b", parameters=slowly)], "tools not readable"),
}


ASKED = ("a scorer", "a policy")
"""What is asked on a thread for every caller; all else only for an event loop."""


@pytest.mark.usefixtures("_slow")
@pytest.mark.parametrize("slow", SLOW)
def test_whatever_is_slow_costs_the_budget_and_no_more(slow: str) -> None:
    settings, tools, reason = SLOW[slow]
    given = {"policy": ScoreAtLeast(0.5), "scorer": first, "payoff": PAYOFF, "limits": Limits(seconds=0.5), **settings}
    for in_loop in (True, False) if slow in ASKED else (True,):
        gate = Gate(**given)
        began = time.perf_counter()
        decision = asyncio.run(gate.adecide(TASK, tools)) if in_loop else gate.decide(TASK, tools)
        assert time.perf_counter() - began < 30, "half of what it would take to wait"
        assert (decision.reason, decision.error, decision.open) == (reason, "TimeoutError", True)
        assert decision.tools == tools


@pytest.mark.usefixtures("_slow")
def test_what_may_be_offered_fails_closed_where_there_was_no_time_to_read() -> None:
    tools = [*TOOLS, SlowTool()]
    gate = gate_of(limits=Limits(seconds=0.1), guards=Guards(allow=["get_weather", "slow"]))
    decision = asyncio.run(gate.adecide(TASK, tools))
    assert (decision.tools, decision.kept, len(decision.refused)) == ([], (), len(tools))


@pytest.mark.usefixtures("_slow")
def test_a_slow_scorer_leaves_time_to_say_what_may_be_offered() -> None:
    decision = gate_of(slowly, limits=Limits(seconds=0.5), guards=Guards(allow=["get_weather"])).decide(TASK, TOOLS)
    assert (decision.reason, decision.kept, len(decision.refused)) == ("scorer too slow", ("get_weather",), 17)


# Many at once.


def test_a_thousand_decisions_at_once_with_a_scorer_of_fifty_milliseconds_are_all_decided() -> None:
    def waits(task: str, tools: Sequence[Tool]) -> list[float]:
        time.sleep(0.05)
        return first(task, tools)

    gate = gate_of(waits, limits=Limits(seconds=60))

    async def burst() -> list[GateDecision]:
        return await asyncio.gather(*(gate.adecide(f"{TASK} {i}", TOOLS) for i in range(1000)))

    assert Counter(decision.reason for decision in asyncio.run(burst())) == {"decided": 1000}
    assert gate._decider.shared.scorers._threads <= 64


def test_a_thousand_coroutines_at_once_are_all_decided() -> None:
    async def waits(task: str, tools: Sequence[Tool]) -> list[float]:
        await asyncio.sleep(0.05)
        return first(task, tools)

    gate = gate_of(waits, limits=Limits(seconds=60))

    async def burst() -> list[GateDecision]:
        return await asyncio.gather(*(gate.adecide(f"{TASK} {i}", TOOLS) for i in range(1000)))

    assert Counter(decision.reason for decision in asyncio.run(burst())) == {"decided": 1000}


def test_work_in_line_that_nobody_waits_for_any_more_is_never_begun() -> None:
    workers, release, begun = Workers(1), threading.Event(), []
    one = workers.start(lambda work: release.wait(20))
    two = workers.start(lambda work: begun.append("two"), 0.01)
    three = workers.start(lambda work: begun.append("three"))
    with pytest.raises(TimeoutError):
        two.wait()
    release.set()
    one.wait()
    three.wait()
    assert begun == ["three"]


def test_work_is_refused_at_once_where_every_thread_is_stuck_and_taken_again_later() -> None:
    workers, release = Workers(2), threading.Event()
    stuck = [workers.start(lambda work: release.wait(20), 0.01) for _ in range(2)]
    for each in stuck:
        with pytest.raises(TimeoutError):
            each.wait()
    with pytest.raises(BusyError):
        workers.start(lambda work: 1)
    release.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            assert workers.start(lambda work: 1).wait() == 1
            return
        except BusyError:
            time.sleep(0.01)
    raise AssertionError("the threads never came back")


# Coroutines.


def test_a_coroutine_is_cancelled_at_the_budget_and_when_its_caller_is() -> None:
    running, cancelled = [0], [0]

    async def endless(task: str, tools: Sequence[Tool]) -> list[float]:
        running[0] += 1
        try:
            await asyncio.sleep(60)
            return first(task, tools)
        except asyncio.CancelledError:
            cancelled[0] += 1
            raise
        finally:
            running[0] -= 1

    def settled(count: int) -> bool:
        deadline = time.monotonic() + 10
        while cancelled[0] < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return (running[0], cancelled[0]) == (0, count)

    gate = gate_of(endless, limits=Limits(seconds=0.5))

    async def burst() -> list[GateDecision]:
        return await asyncio.gather(*(gate.adecide(f"{TASK} {i}", TOOLS) for i in range(30)))

    assert {decision.reason for decision in asyncio.run(burst())} == {"scorer too slow"}
    assert gate.decide(TASK, TOOLS).reason == "scorer too slow"
    assert settled(31)

    async def given_up() -> None:
        deciding = asyncio.create_task(gate_of(endless, limits=Limits(seconds=None)).adecide(TASK, TOOLS))
        while not running[0]:
            await asyncio.sleep(0.01)
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding

    asyncio.run(given_up())
    assert settled(32)


def test_coroutines_of_all_gates_share_one_event_loop_and_so_one_client() -> None:
    loops = set()

    async def noting(task: str, tools: Sequence[Tool]) -> list[float]:
        loops.add(asyncio.get_running_loop())
        return first(task, tools)

    for number in range(3):
        gate = gate_of(noting)
        assert gate.decide(f"{TASK} {number}", TOOLS).reason == "decided"
        assert asyncio.run(gate.adecide(f"{TASK} again {number}", TOOLS)).reason == "decided"
    assert len(loops) == 1


# An event loop goes on.


def test_reading_five_hundred_tools_that_take_long_to_read_does_not_hold_up_an_event_loop() -> None:
    class Tool500:
        description, parameters = "does something", {"type": "object"}

        def __init__(self, number: int) -> None:
            self.number = number

        @property
        def name(self) -> str:
            return f"t{sum(range(2000)) and self.number}"  # half a second in all

    tools = [Tool500(number) for number in range(500)]
    gate = gate_of(prices=Prices())

    async def longest_pause() -> tuple[float, float]:
        longest, began = 0.0, time.perf_counter()
        last = began
        deciding = asyncio.create_task(gate.adecide(TASK, tools))
        while not deciding.done():
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        assert deciding.result().reason == "decided"
        return longest, time.perf_counter() - began

    pauses = [asyncio.run(longest_pause()) for _ in range(5)]
    assert min(pause / took for pause, took in pauses) < 0.5, "on the loop it would be the whole"


# Threads, forks, dropped gates.


def test_dropped_gates_leave_no_threads_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "REST", 0.05)
    time.sleep(0.2)
    seen: list[GateDecision] = []
    before = set(threading.enumerate())
    for number in range(50):
        gate = gate_of(records=Records(on_decision=seen.append))
        gate.decide(f"{TASK} {number}", TOOLS)
    del gate
    gc.collect()
    deadline = time.monotonic() + 20
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(threading.enumerate()) <= before
    assert len(seen) == 50


def test_a_gate_whose_threads_have_ended_begins_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "REST", 0.01)
    gate = gate_of()
    for number in range(20):
        assert gate.decide(f"{TASK} {number}", TOOLS).reason == "decided"
        time.sleep(0.01 * (number % 3))


IN_A_FORK = """
import os, sys, threading, time, asyncio
from camdf.gate import Limits, Records, Rollout
from test_gate_load import TASK, TOOLS, first, gate_of

async def thoughtful(task, tools):
    await asyncio.sleep(0)
    return first(task, tools)

seen = []
limits = Limits(seconds=60)
gates = [gate_of(limits=limits, records=Records(on_decision=seen.append)), gate_of(thoughtful, limits=limits)]
gates.append(gate_of(limits=limits, rollout=Rollout(lambda: 1.0, off=lambda: False, every=0)))
for gate in gates:
    gate.decide(TASK, TOOLS, conversation="c")
    gate._lock.acquire()  # as where another thread is at work while the process forks
    gate.memory._lock.acquire()
    gate._decider.shared.turn_scores._lock.acquire()
    gate._decider.terms._lock.acquire()
child = os.fork()
if child == 0:
    seen.clear()
    began = time.monotonic()
    found = [gate.decide(f"{TASK} again", TOOLS, conversation="c") for gate in gates]
    gates[0].sink.drain()
    sound = all((d.reason, d.kept) == ("decided before", ("get_weather",)) for d in found)
    os._exit(0 if sound and len(seen) == 1 and time.monotonic() - began < 30 else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_goes_on_with_what_its_conversations_have() -> None:
    here = Path(__file__).parent
    found = (here, here.parent / "parts", here.parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, found))}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_A_FORK], timeout=300, capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr


def kept_by(gate: Gate) -> tuple[str, ...]:
    return gate.decide(TASK, TOOLS).kept


def test_a_spawned_process_decides_the_same() -> None:
    gate = Gate(golden_gate().policy, overlap, PAYOFF)
    gate.decide(TASK, TOOLS)
    assert pickle.loads(pickle.dumps(gate)).decide(TASK, TOOLS).kept == kept_by(gate)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(kept_by, (gate,)) == kept_by(gate)


# Memory.


def test_a_conversation_remembers_so_many_tools_and_names_of_any_length() -> None:
    gate = gate_of(records=Records(conversations=5))
    for number in range(30):
        names = [f"n{number}-{i}" for i in range(500)]
        gate.decide(
            f"{TASK} {number}", [Tool(name) for name in names], conversation="c" * 1_000_000, scores=[1.0] * 499 + [0.9]
        )
    (name,) = gate.memory._kept
    assert len(name) < 100
    assert len(gate.memory._kept[name].kept) == 10_000


def test_a_sink_that_exits_goes_on() -> None:
    seen: list[int] = []

    def exits(decision: GateDecision) -> None:
        seen.append(1)
        if len(seen) == 1:
            sys.exit(1)

    gate = gate_of(records=Records(on_decision=exits))
    for number in range(5):
        gate.decide(f"{TASK} {number}", TOOLS)
    assert gate.sink is not None
    gate.sink.drain()
    assert (len(seen), gate.sink.dropped) == (5, 1)
