"""Where decisions go: the span of the moment, and a sink of the operator's that can never hold one up.

Frameworks that trace by themselves have no current span here. Their adapters write a step of their own, named `EVENT`,
into the framework's trace, and every tracer of that framework has it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple, get_args

import numpy as np

from camdf.core.rankings import Rankings
from camdf.errors import require
from camdf.gate.decision import GateDecision
from camdf.gate.ranking import Ranked
from camdf.policies.drift import What, moved
from camdf.policies.training import FittedCatalogue
from camdf.runtime.workers import BusyError, Work, Workers

EVENT = "camdf.decision"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOOLS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 150, 300, 500, 1000)
"""Upper bounds of the histograms' buckets."""

DECISIONS = "Decisions of the gate."
LATENCY = "Seconds from the question to the decision."
KEPT = "Tools that a decision keeps; in shadow, that it would keep."
MOVED = "Policies of which this has moved since their fit, by the latest lists that they decided on."

MOST_CANDIDATES = 60_000
"""The latest lists that are kept have so many tools together."""

COMPARED = 240
"""The latest lists of a policy that are compared with those of its fit."""


def add_to_span(decision: GateDecision) -> None:
    """The decision on the span of the moment, where the host has loaded a tracer and is recording.

    OpenTelemetry's span gets an event. MLflow keeps its own current span, apart from OpenTelemetry's.
    """
    opentelemetry: Any = sys.modules.get("opentelemetry.trace")
    if opentelemetry is not None:
        add_event(opentelemetry.get_current_span(), decision)
    mlflow: Any = sys.modules.get("mlflow")
    current = getattr(mlflow, "get_current_active_span", lambda: None)()
    if current is not None:
        current.set_attributes(dict(decision.event()))


def add_event(span: Any, decision: GateDecision) -> None:
    """The decision as an event on a span of OpenTelemetry, where there is one and it is recording."""
    if span is not None and span.is_recording():
        span.add_event(EVENT, attributes=dict(decision.event()))


class Sink:
    """Calls `receive` from a thread of its own; what a full line cannot take is dropped and counted."""

    def __init__(self, receive: Callable[[GateDecision], object], size: int = 1000) -> None:
        self.receive = receive
        self.dropped = 0
        self._worker = Workers(limit=1, waiting=size)
        self._last: Work[None] | None = None

    def put(self, decision: GateDecision) -> None:
        """Hand over a decision without waiting."""
        try:
            self._last = self._worker.start(lambda work: self._receive(decision))
        except BusyError:
            self.dropped += 1

    def drain(self) -> None:
        """Wait until everything handed over so far has been received."""
        if self._last is not None:
            self._last.wait()

    def _receive(self, decision: GateDecision) -> None:
        try:
            self.receive(decision)
        except BaseException:
            self.dropped += 1


class DecidedList(NamedTuple):
    """A list that a gate decided on."""

    policy: str
    """The SHA-256 of the policy."""

    catalogue: FittedCatalogue
    """What the lists were like on which it was fitted."""

    ranking: tuple[Ranked, ...]
    conversation: str
    cost_pressure: float | None


class RecentLists:
    """The latest lists that gates decided on, and what of them has moved since the fits of their policies."""

    def __init__(self) -> None:
        self._lists: deque[DecidedList] = deque()
        self._candidates = 0
        self._lock = Lock()

    def add(self, decision: GateDecision) -> None:
        """Keep the list of a decision, where its policy's file says what lists were like at the fit."""
        catalogue = decision.catalogue
        ranking = decision.ranking
        if not ranking or catalogue is None or catalogue.lists is None:
            return
        decided = DecidedList(decision.policy_digest, catalogue, ranking, decision.conversation, decision.cost_pressure)
        with self._lock:
            self._lists.append(decided)
            self._candidates += len(ranking)
            while self._candidates > MOST_CANDIDATES:
                self._candidates -= len(self._lists.popleft().ranking)

    def moved(self) -> dict[What, int]:
        """Of how many policies the scores, the catalogue and the tools per task have moved."""
        with self._lock:
            decided = list(self._lists)
        by_policy: dict[str, list[DecidedList]] = {}
        for one in decided:
            by_policy.setdefault(one.policy, []).append(one)
        counts: dict[What, int] = dict.fromkeys(get_args(What), 0)
        for lists in by_policy.values():
            for what in _what_moved(lists[-COMPARED:]):
                counts[what] += 1
        return counts


def _what_moved(lists: Sequence[DecidedList]) -> set[What]:
    """What has moved of the lists of one policy; the tools per task only of those that it decided on as at its fit."""
    fitted = lists[-1].catalogue
    rankings = Rankings.from_scores([{tool.name: tool.score for tool in one.ranking} for one in lists])
    # Without a name, a list is of a conversation of its own.
    groups = np.array([one.conversation or f"list {place}" for place, one in enumerate(lists)])
    what = {change.what for change in moved(fitted, rankings, groups)}
    alone = np.array([_is_chosen_by_the_policy(one) for one in lists])
    if alone.any():
        chosen = np.array([sum(tool.kept for tool in one.ranking) for one in lists])
        changes = moved(fitted, rankings.take(alone), groups[alone], chosen[alone])
        what |= {change.what for change in changes if change.what == "tools"}
    return what


def _is_chosen_by_the_policy(decided: DecidedList) -> bool:
    """Whether the policy alone chose, at the cost pressure of its fit: no tool stays whatever it says."""
    usual = decided.catalogue.lists
    at_its_fit = usual is not None and decided.cost_pressure == usual.cost_pressure
    return at_its_fit and not any(tool.held for tool in decided.ranking)


class PrometheusMetrics:
    """`camdf_decisions_total` by reason and mode, `camdf_decision_seconds`, and `camdf_tools_kept` by mode.

    `camdf_moved` counts policies whose scores, catalogue or tools per task have moved since their fit, by the latest
    lists; it is computed when Prometheus asks.
    """

    def __init__(self, registry: Any = None) -> None:
        client = require("prometheus_client", "prometheus")
        registry = registry or client.REGISTRY
        self._decisions = client.Counter("camdf_decisions", DECISIONS, ["reason", "mode"], registry=registry)
        self._latency = client.Histogram("camdf_decision_seconds", LATENCY, buckets=SECONDS, registry=registry)
        self._kept = client.Histogram("camdf_tools_kept", KEPT, ["mode"], buckets=TOOLS, registry=registry)
        self._recent = RecentLists()
        self._gauge = require("prometheus_client.core", "prometheus").GaugeMetricFamily
        registry.register(self)

    def collect(self) -> Iterator[Any]:
        """What has moved, as the registry asks for it."""
        family = self._gauge("camdf_moved", MOVED, labels=["what"])
        for what, policies in self._recent.moved().items():
            family.add_metric([what], policies)
        yield family

    def __call__(self, decision: GateDecision) -> None:
        """Count one decision."""
        self._decisions.labels(decision.reason, decision.mode).inc()
        self._latency.observe(decision.latency)
        self._kept.labels(decision.mode).observe(len(decision.kept))
        self._recent.add(decision)


class OpenTelemetryMetrics:
    """The same as `camdf.decisions`, `camdf.decision.duration`, `camdf.tools.kept` and `camdf.moved`."""

    def __init__(self, meter: Any = None) -> None:
        metrics = require("opentelemetry.metrics", "opentelemetry")
        meter = meter or metrics.get_meter("camdf")
        self._decisions = meter.create_counter("camdf.decisions", "{decision}", DECISIONS)
        self._latency = meter.create_histogram(
            "camdf.decision.duration", "s", LATENCY, explicit_bucket_boundaries_advisory=SECONDS
        )
        self._kept = meter.create_histogram(
            "camdf.tools.kept", "{tool}", KEPT, explicit_bucket_boundaries_advisory=TOOLS
        )
        self._recent = RecentLists()
        self._observation = metrics.Observation
        meter.create_observable_gauge("camdf.moved", [self._observe_moved], "{policy}", MOVED)

    def _observe_moved(self, options: object) -> Iterator[Any]:
        """What has moved, as the meter asks for it."""
        for what, policies in self._recent.moved().items():
            yield self._observation(policies, {"what": what})

    def __call__(self, decision: GateDecision) -> None:
        """Count one decision."""
        self._decisions.add(1, {"reason": decision.reason, "mode": decision.mode})
        self._latency.record(decision.latency)
        self._kept.record(len(decision.kept), {"mode": decision.mode})
        self._recent.add(decision)
