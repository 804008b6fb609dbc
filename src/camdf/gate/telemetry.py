"""Where decisions go: the span of the moment, and a sink of the operator's that can never hold one up.

Frameworks that trace by themselves have no current span here. Their adapters write a step of their own, named `EVENT`,
into the framework's trace, and every tracer of that framework has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from camdf.errors import require
from camdf.gate.decision import GateDecision
from camdf.runtime.workers import BusyError, Work, Workers

EVENT = "camdf.decision"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOOLS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 150, 300, 500, 1000)
"""Upper bounds of the histograms' buckets."""

DECISIONS = "Decisions of the gate."
LATENCY = "Seconds from the question to the decision."
KEPT = "Tools that a decision keeps; in shadow, that it would keep."


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


class PrometheusMetrics:
    """`camdf_decisions_total` by reason and mode, `camdf_decision_seconds`, and `camdf_tools_kept` by mode."""

    def __init__(self, registry: Any = None) -> None:
        client = require("prometheus_client", "prometheus")
        registry = registry or client.REGISTRY
        self._decisions = client.Counter("camdf_decisions", DECISIONS, ["reason", "mode"], registry=registry)
        self._latency = client.Histogram("camdf_decision_seconds", LATENCY, buckets=SECONDS, registry=registry)
        self._kept = client.Histogram("camdf_tools_kept", KEPT, ["mode"], buckets=TOOLS, registry=registry)

    def __call__(self, decision: GateDecision) -> None:
        """Count one decision."""
        self._decisions.labels(decision.reason, decision.mode).inc()
        self._latency.observe(decision.latency)
        self._kept.labels(decision.mode).observe(len(decision.kept))


class OpenTelemetryMetrics:
    """`camdf.decisions` by reason and mode, `camdf.decision.duration`, and `camdf.tools.kept` by mode."""

    def __init__(self, meter: Any = None) -> None:
        meter = meter or require("opentelemetry.metrics", "opentelemetry").get_meter("camdf")
        self._decisions = meter.create_counter("camdf.decisions", "{decision}", DECISIONS)
        self._latency = meter.create_histogram(
            "camdf.decision.duration", "s", LATENCY, explicit_bucket_boundaries_advisory=SECONDS
        )
        self._kept = meter.create_histogram(
            "camdf.tools.kept", "{tool}", KEPT, explicit_bucket_boundaries_advisory=TOOLS
        )

    def __call__(self, decision: GateDecision) -> None:
        """Count one decision."""
        self._decisions.add(1, {"reason": decision.reason, "mode": decision.mode})
        self._latency.record(decision.latency)
        self._kept.record(len(decision.kept), {"mode": decision.mode})
