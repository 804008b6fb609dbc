"""Decisions as metrics, for Prometheus or OpenTelemetry: give one to `on_decision`, for any number of gates.

Labels are reasons and modes, which are fixed sets: no tool, conversation, policy or tenant becomes a time series.
"""

from __future__ import annotations

from typing import Any

from camdf.errors import require
from camdf.gate.decision import GateDecision

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOOLS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 150, 300, 500, 1000)
"""Upper bounds of the histograms' buckets."""

DECISIONS = "Decisions of the gate."
LATENCY = "Seconds from the question to the decision."
KEPT = "Tools that a decision keeps; in shadow, that it would keep."


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
