"""What was evaluated is what is served: a replay counts the tools that a gate hands over, by one function."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from camdf import AcquireAll, LoggedTasks, Payoff, Policy, Rankings, ScoreAtLeast, TopK, TopShare, cold_start
from camdf.core.decisions import Decisions
from camdf.evaluation.replay import MEASURES, Fixed, all_handed_over, replay
from camdf.evaluation.splits import Split
from camdf.gate import Gate, Guards, Limits
from camdf.tools import Tool

CASES = int(os.environ.get("CASES", "20"))
"""CASES=2000 is the long form."""

TASK = "a task that is no tool's name"


class Anything(Policy):
    """Chooses tools by their names and places, in no order that means anything, and may say that none is needed."""

    def __init__(self, salt: int, none: float | None = None) -> None:
        self.salt = salt
        self.none = none

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        acquired = np.zeros_like(rankings.listed)
        for row, length in enumerate(rankings.lengths.tolist()):
            for place, name in enumerate(rankings.names(row)[:length]):
                acquired[row, place] = (self.salt >> (sum(name.encode()) + 3 * place) % 16) & 1
        none = None if self.none is None else np.full(len(rankings), self.none)
        return Decisions(acquired, none=none)


chances = st.none() | st.sampled_from([0.0, 0.49, 0.5, 1.0])


@dataclass(frozen=True)
class Listed:
    """A list of tools with their scores."""

    tools: tuple[Tool, ...]
    scores: dict[str, float]


policies: st.SearchStrategy[Policy] = st.one_of(
    st.builds(Anything, st.integers(0, 2**16 - 1), chances),
    st.builds(Anything, st.just(0), chances),
    st.builds(TopK, st.integers(0, 8)),
    st.builds(TopShare, st.sampled_from([0.2, 0.5, 1.0])),
    st.builds(ScoreAtLeast, st.sampled_from([0.1, 0.5])),
    st.just(AcquireAll()),
    st.just(cold_start()),
)
payoffs = st.builds(
    Payoff, st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from(["exact", "partial"]), st.sampled_from([0.0, 0.9])
)
scored = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)


@st.composite
def lists(draw: st.DrawFn, servers: tuple[str, ...] = ("",)) -> Listed:
    count = draw(st.integers(1, 9))
    tools = tuple(Tool(f"tool {number}", server=draw(st.sampled_from(servers))) for number in range(count))
    alike = draw(st.booleans()) and draw(st.booleans())
    one = draw(scored)
    return Listed(tools, {tool.name: one if alike else draw(scored) for tool in tools})


@settings(max_examples=CASES, deadline=None)
@given(lists(("ours", "theirs")), policies, payoffs, st.booleans(), st.data())
def test_a_gate_hands_over_what_a_replay_counts_whatever_its_guards(
    listed: Listed, policy: Policy, payoff: Payoff, searches: bool, data: st.DataObject
) -> None:
    names = sorted(listed.scores)
    some = st.sets(st.sampled_from(names), max_size=3)
    pinned, keep = data.draw(some), data.draw(some)
    allow = data.draw(st.none() | st.sets(st.sampled_from(names), min_size=1))
    trusted = data.draw(st.none() | st.just({"ours"}))
    least = data.draw(st.integers(0, 4))
    most = data.draw(st.none() | st.integers(max(least, 1), 8))
    guards = Guards(pinned=pinned, allow=allow, trusted=trusted, untrusted_places=data.draw(st.integers(0, 2)))
    limits = Limits(at_least=least, at_most=most, seconds=None)
    gate = Gate(policy, None, payoff, guards=guards, limits=limits, tool_search=searches)
    decision = gate.decide(TASK, listed.tools, scores=listed.scores, keep=keep)
    assert not decision.error

    believed = [tool for tool in listed.tools if trusted is None or tool.server in trusted]
    offered = {tool.name for tool in believed if allow is None or tool.name in allow}
    assume(offered)
    rankings = Rankings.from_scores({name: score for name, score in listed.scores.items() if name in offered})
    decisions = policy.decide(rankings, payoff)
    stays = np.array([[name in pinned | keep for name in rankings.names(0)]])
    searches = searches and not isinstance(policy, AcquireAll)
    marks = all_handed_over(rankings, decisions, stays, least, most, searches=searches)
    handed = {name for name, kept in zip(rankings.names(0), marks[0], strict=True) if kept}
    assert handed == set(decision.kept) & offered


@settings(max_examples=CASES, deadline=None)
@given(st.lists(lists(), min_size=1, max_size=5), policies, payoffs, st.data())
def test_a_replay_measures_what_a_gate_hands_over(
    some: list[Listed], policy: Policy, payoff: Payoff, data: st.DataObject
) -> None:
    required = [data.draw(st.sets(st.sampled_from(sorted(each.scores)))) for each in some]
    records = [{"scores": each.scores, "required": sorted(need)} for each, need in zip(some, required, strict=True)]
    logged = LoggedTasks.from_records(records)
    every = np.arange(len(some))
    outcomes = replay({"it": lambda: Fixed(policy)}, logged, payoff, [Split(every, every[:0], every)])
    gate = Gate(policy, None, payoff, limits=Limits(seconds=None), tool_search=payoff.recourse > 0)
    for row, each in enumerate(some):
        kept = set(gate.decide(TASK, each.tools, scores=each.scores).kept)
        told = dict(zip(MEASURES, outcomes.values["it"][row].tolist(), strict=True))
        assert told["tools"] == told["cost"] == len(kept)
        assert told["sufficiency"] == (required[row] <= kept)


def test_a_task_whose_scores_prefer_no_tool_counts_as_the_gate_treats_it_and_as_the_paper_does() -> None:
    logged = LoggedTasks.from_records([{"scores": {"mail": 0.5, "maps": 0.5, "files": 0.5}, "required": ["mail"]}])
    every = np.arange(1)
    for recourse, gated, tools in ((0.0, True, 3), (0.9, True, 0), (0.0, False, 1), (0.9, False, 1)):
        payoff = Payoff(0.1, recourse=recourse)
        outcomes = replay({"it": lambda: TopK(1)}, logged, payoff, [Split(every, every[:0], every)], gated=gated)
        assert outcomes.mean("it", "tools") == tools


class Chosen(Policy):
    """Chooses so many of the best tools, and says how likely none is needed."""

    def __init__(self, count: int, none: float | None) -> None:
        self.count = count
        self.none = none

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        depth = np.full(len(rankings), self.count)
        none = None if self.none is None else np.full(len(rankings), self.none)
        return replace(Decisions.prefix(rankings, depth), none=none)


MAIL = Tool("send_mail", "Sends a mail.")
WEATHER = Tool("get_weather", "Says what the weather is.")
SCORES = {"send_mail": 0.6, "get_weather": 0.2}


@pytest.mark.parametrize("none", [None, 0.4, 0.6])
@pytest.mark.parametrize("searches", [False, True])
def test_nothing_is_handed_over_only_where_a_search_remains_or_most_likely_nothing_is_needed(
    none: float | None, searches: bool
) -> None:
    gate = Gate(Chosen(0, none), None, Payoff(0.1), tool_search=searches)
    decision = gate.decide(TASK, [MAIL, WEATHER], scores=SCORES)
    empty = searches or none == 0.6
    assert decision.tools == ([] if empty else [MAIL, WEATHER])
    assert bool(decision.search) == searches
    assert decision.reason == ("nothing needed" if none == 0.6 else "no signal")
    assert decision.open == (none != 0.6)
    assert decision.none == none
    some = Gate(Chosen(1, none), None, Payoff(0.1), tool_search=searches)
    chosen = some.decide(TASK, [MAIL, WEATHER], scores=SCORES)
    assert (chosen.kept, chosen.reason) == (("send_mail",), "decided"), "what a policy chose is what the agent gets"


def test_where_nothing_is_needed_what_must_stay_stays_and_a_later_turn_decides() -> None:
    class BySubject(Policy):
        def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
            needs = rankings.scores[:, 0] > 0.5
            return replace(Decisions.prefix(rankings, needs.astype(np.int64)), none=np.where(needs, 0.1, 0.9))

    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        likely = 0.9 if "mail" in task else 0.3
        return [likely if tool.name == "send_mail" else 0.1 for tool in tools]

    user = partial(dict[str, Any], role="user")
    for searches in (False, True):
        gate = Gate(BySubject(), scorer, Payoff(0.1), tool_search=searches, guards=Guards(pinned={"get_weather"}))
        talk = [user(content="What is two plus two?")]
        first = gate.decide(talk, [MAIL, WEATHER])
        assert (first.kept, first.reason) == (("get_weather",), "nothing needed")
        talk += [{"role": "assistant", "content": "Four."}, user(content="Send that by mail to Ada.")]
        second = gate.decide(talk, [MAIL, WEATHER])
        assert (set(second.kept), second.reason) == ({"send_mail", "get_weather"}, "decided")
        talk += [{"role": "assistant", "content": "Done."}, user(content="And what is three plus three?")]
        third = gate.decide(talk, [MAIL, WEATHER])
        assert set(third.kept) == {"send_mail", "get_weather"}, "once there, a tool stays"
