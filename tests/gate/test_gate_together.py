"""Tasks that are decided on together get the decisions that each gets alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf import Decisions, Policy, Rankings
from camdf.gate import Gate, GateDecision, Guards, Limits, Rollout
from camdf.gate.request import Question
from camdf.tools import Tool
from golden import PAYOFF, golden_gate

NAMES = [f"tool-{i}" for i in range(12)]
THEIRS = NAMES[::4]
PRICES = {name: 0.5 + i % 4 for i, name in enumerate(NAMES)}


class Picky(Policy):
    """Breaks on a list of three."""

    kind = "picky"

    def decide(self, rankings: Rankings, payoff: camdf.Payoff) -> Decisions:
        if (rankings.lengths == 3).any():
            raise ZeroDivisionError
        return camdf.TopK(1).decide(rankings, payoff)


GATES: dict[str, Any] = {
    "plain": {},
    "priced": {"prices": PRICES},
    "bounded": {"limits": Limits(at_least=1, at_most=3), "guards": Guards(pinned=["tool-1"])},
    "refusing": {"guards": Guards(allow=NAMES[:8], fallback=["tool-2"])},
    "exploring": {"rollout": Rollout(explore=0.5)},
    "trusting some": {"guards": Guards(trusted=["ours"])},
    "rolled out": {"rollout": Rollout(0.5)},
    "switched off": {"rollout": Rollout(off=True)},
    "picky": {"policy": Picky()},
    "the paper's": {"policy": camdf.TopK(2)},
}

scores = st.one_of(st.just(0.0), st.just(0.5), st.floats(0, 1), st.sampled_from([float("nan"), -1.0]))
tasks = st.tuples(
    st.sampled_from(["", "one task", "another task", "Hello!", "tool-3"]),
    st.lists(st.tuples(st.sampled_from(NAMES), scores), max_size=8, unique_by=lambda pair: pair[0]),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.lists(st.sampled_from(NAMES), max_size=1),
)


def question(
    task: str, ranked: list[tuple[str, float]], keep: list[str], forced: list[str], name: str | None = None
) -> Question:
    tools = [Tool(name, server="theirs" if name in THEIRS else "ours") for name, _ in ranked]
    return Question(task, tools, 0.0, name, keep, forced, [score for _, score in ranked])


def bare(decision: GateDecision) -> GateDecision:
    return replace(decision, id="", latency=0.0)


@pytest.mark.parametrize("name", GATES)
@settings(max_examples=40, deadline=None)
@given(st.lists(tasks, max_size=6))
def test_decisions_made_together_are_those_made_alone(name: str, asked: list[Any]) -> None:
    options = {"policy": golden_gate().policy, "payoff": PAYOFF, **GATES[name]}
    named = [(*each, f"conversation {number}") for number, each in enumerate(asked)]
    together = Gate(**options).decide_together([question(*each) for each in named])
    alone = [Gate(**options).decide_together([question(*each)])[0] for each in named]
    assert list(map(bare, together)) == list(map(bare, alone))


def test_the_policy_is_asked_once_for_all() -> None:
    asked = list[int]()

    class Counting(camdf.TopK):
        def decide(self, rankings: Rankings, payoff: camdf.Payoff) -> Decisions:
            asked.append(len(rankings))
            return super().decide(rankings, payoff)

    gate = Gate(Counting(1), None, PAYOFF)
    ranked = [[("tool-1", 0.1 * i), ("tool-2", 0.9)] for i in range(5)]
    gate.decide_together([question("a task", each, [], []) for each in ranked])
    assert asked == [5]


def test_one_tool_may_cost_another_price_in_each_list() -> None:
    lists = [{"a": 0.9, "b": 0.2}, {"b": 0.8}]
    both = Rankings.from_scores(lists, [{"a": 1.0, "b": 2.0}, {"b": 3.0}])
    assert both.costs.tolist() == [[1.0, 2.0], [3.0, 0.0]]
    with pytest.raises(camdf.UsageError):
        Rankings.from_scores(lists, [{"a": 1.0, "b": 2.0}, {"b": 0.0}])
