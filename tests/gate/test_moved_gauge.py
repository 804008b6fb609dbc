"""The gauge that says what has moved since the fit of a policy, by the latest lists that gates decided on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import camdf
from camdf import LoggedTasks, Payoff, Policy
from camdf.core.rankings import Floats
from camdf.gate import Gate
from camdf.gate.settings import Guards, Records
from camdf.gate.telemetry import MOST_CANDIDATES, OpenTelemetryMetrics, PrometheusMetrics, RecentLists
from camdf.policies.drift import fitted_catalogue
from camdf.policies.training import Training
from camdf.tools import Tool

PAYOFF = Payoff(0.12)
TOOLS = tuple(f"tool_{place}" for place in range(10))
NOTHING = {"scores": 0, "catalogue": 0, "tools": 0}


def scores_of(seed: int, tasks: int = 80) -> Floats:
    """(tasks, tools): one or two of ten score high."""
    rng = np.random.default_rng(seed)
    scores: Floats = 0.4 * rng.random((tasks, len(TOOLS)))
    for row in scores:
        row[rng.choice(len(TOOLS), rng.integers(1, 3), replace=False)] += 0.5
    return scores


@pytest.fixture(scope="module")
def policy() -> Policy:
    """A rule that knows what lists were like."""
    records = [{"scores": dict(zip(TOOLS, row, strict=True)), "required": []} for row in scores_of(1).tolist()]
    logged = LoggedTasks.from_records(records)
    policy = camdf.ScoreAtLeast(0.5)
    chosen = policy.decide(logged.rankings, PAYOFF).acquired.sum(axis=1)
    kept = fitted_catalogue(logged, chosen, PAYOFF.cost_pressure)
    policy.training_ = Training(catalogue=kept, payoff=PAYOFF)
    return policy


def decide_on(gate: Gate, scores: Floats, names: tuple[str, ...] = TOOLS) -> None:
    tools = [Tool(name, "") for name in names]
    for place, row in enumerate(scores.tolist()):
        gate.decide(f"task {place}", tools, scores=row)
    assert gate.sink is not None
    gate.sink.drain()


def moved_of(policy: Policy, scores: Floats, names: tuple[str, ...] = TOOLS, **settings: Any) -> dict[str, int]:
    """What the gauge says once a gate has decided on these lists."""
    registry = prometheus_client.CollectorRegistry()
    gate = Gate(policy, None, PAYOFF, records=Records(on_decision=PrometheusMetrics(registry)), **settings)
    decide_on(gate, scores, names)
    values = {what: registry.get_sample_value("camdf_moved", {"what": what}) for what in NOTHING}
    return {what: int(value) for what, value in values.items() if value is not None}


def test_nothing_is_said_to_have_moved_of_lists_like_those_of_the_fit(policy: Policy) -> None:
    assert moved_of(policy, scores_of(2)) == NOTHING


@pytest.mark.parametrize(
    ("change", "names", "what"),
    [
        (lambda s: 0.5 * s + 0.4, TOOLS, {"scores", "tools"}),
        (lambda s: s, (*TOOLS[:-1], "new"), {"catalogue"}),
        (lambda s: np.where(s > 0.3, s, s + 0.4), TOOLS, {"scores", "tools"}),
    ],
)
def test_what_moved_is_counted(
    change: Callable[[Floats], Floats], names: tuple[str, ...], what: set[str], policy: Policy
) -> None:
    said = moved_of(policy, change(scores_of(2)), names)
    assert {name for name, policies in said.items() if policies} == what


def test_tools_that_stay_whatever_the_policy_says_are_not_of_its_choice(policy: Policy) -> None:
    pinned = Guards(pinned=TOOLS)
    assert moved_of(policy, scores_of(2), guards=pinned) == NOTHING


def test_a_policy_that_knows_nothing_of_its_fit_costs_nothing(policy: Policy) -> None:
    assert moved_of(camdf.ScoreAtLeast(0.5), 0.5 * scores_of(2) + 0.4) == NOTHING


def test_the_latest_lists_count_and_no_more_are_kept_than_there_is_room_for(policy: Policy) -> None:
    recent = RecentLists()
    decided = Gate(policy, None, PAYOFF).decide("task", [Tool(name, "") for name in TOOLS], scores=scores_of(2)[0])
    for _ in range(MOST_CANDIDATES // len(TOOLS) + 50):
        recent.add(decided)
    assert sum(len(one.ranking) for one in recent._lists) == MOST_CANDIDATES
    registry = prometheus_client.CollectorRegistry()
    gate = Gate(policy, None, PAYOFF, records=Records(on_decision=PrometheusMetrics(registry)))
    decide_on(gate, 0.5 * scores_of(2) + 0.4)
    assert registry.get_sample_value("camdf_moved", {"what": "scores"}) == 1
    for seed in range(3, 7):
        decide_on(gate, scores_of(seed))
    assert registry.get_sample_value("camdf_moved", {"what": "scores"}) == 0


def test_opentelemetry_observes_the_same(policy: Policy) -> None:
    reader = InMemoryMetricReader()
    metrics = OpenTelemetryMetrics(MeterProvider([reader]).get_meter("test"))
    decide_on(Gate(policy, None, PAYOFF, records=Records(on_decision=metrics)), 0.5 * scores_of(2) + 0.4)
    data = reader.get_metrics_data()
    assert data is not None
    (points,) = [
        metric.data.data_points
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "camdf.moved"
    ]
    observed: dict[Any, int] = {}
    for point in points:
        assert point.attributes is not None
        observed[point.attributes["what"]] = getattr(point, "value")  # noqa: B009 (a point may be of another kind, too)
    assert observed == {"scores": 1, "catalogue": 0, "tools": 1}
