"""What was evaluated is what is served: a replay counts the tools that a gate hands over, by one function.

Choices that are empty are left out: a gate takes them for no decision, and a replay for no tool.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from camdf import AcquireAll, LoggedTasks, Payoff, Policy, Rankings, ScoreAtLeast, TopK, TopShare, cold_start
from camdf.core.decisions import Decisions
from camdf.evaluation.replay import MEASURES, Fixed, all_handed_over, replay, without_signal
from camdf.evaluation.splits import Split
from camdf.gate import Gate, Guards, Limits
from camdf.tools import Tool

CASES = int(os.environ.get("CASES", "20"))
"""CASES=2000 is the long form."""

TASK = "a task that is no tool's name"


class Anything(Policy):
    """Chooses tools by their names and places, in no order that means anything."""

    def __init__(self, salt: int) -> None:
        self.salt = salt

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        acquired = np.zeros_like(rankings.listed)
        for row, length in enumerate(rankings.lengths.tolist()):
            for place, name in enumerate(rankings.names(row)[:length]):
                acquired[row, place] = (self.salt >> (sum(name.encode()) + 3 * place) % 16) & 1
        return Decisions(acquired)


@dataclass(frozen=True)
class Listed:
    """A list of tools with their scores."""

    tools: tuple[Tool, ...]
    scores: dict[str, float]


policies: st.SearchStrategy[Policy] = st.one_of(
    st.builds(Anything, st.integers(1, 2**16 - 1)),
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
    acquired = policy.decide(rankings, payoff).acquired
    assume(acquired.any() or least > 0)
    stays = np.array([[name in pinned | keep for name in rankings.names(0)]])
    undecided = stays if searches and not isinstance(policy, AcquireAll) else rankings.listed
    marks = all_handed_over(rankings, acquired, stays, least, most, undecided=undecided)
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
    chosen = policy.decide(logged.rankings, payoff).acquired.any(axis=1)
    assume((chosen | without_signal(logged.rankings)).all())
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
