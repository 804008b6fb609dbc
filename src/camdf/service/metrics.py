"""What the service counts, for Prometheus: numbers and reasons, never a name of a tenant, a tool or a task."""

from __future__ import annotations

from functools import lru_cache

from camdf.errors import needs
from camdf.gate.telemetry import PrometheusMetrics

with needs("serve"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """The service's own numbers, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.decided = PrometheusMetrics(registry)
        """Counts one more decision, as for a gate in process."""

        answers = Counter("camdf_answers", "Answers by status.", ["status"], registry=registry)
        self.under_way = Gauge("camdf_requests_under_way", "Requests that were let in.", registry=registry)
        self.outcomes = Gauge("camdf_outcomes_last", "Sequence number of the last outcome.", registry=registry)
        self.swaps = Gauge("camdf_swaps", "Versions that came into use since the start.", registry=registry)
        self.refusals = Gauge("camdf_refusals", "Versions that were refused since the start.", registry=registry)
        self.is_refusing = Gauge("camdf_refusing", "1 where the files as they are now are not used.", registry=registry)
        self.unlogged = Gauge(
            "camdf_decisions_not_logged",
            "Decisions that should have been logged or kept to learn from, and were not.",
            registry=registry,
        )

        self.answered = lru_cache(maxsize=64)(lambda status: answers.labels(status).inc)
        """What counts one more answer of a status; looked up once for each."""

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        exposition: bytes = generate_latest(self.registry)
        return exposition
