"""What the service counts, for Prometheus: numbers and reasons, never a name of a tenant, a tool or a task."""

from __future__ import annotations

from functools import lru_cache

from camdf.errors import needs

with needs("serve"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper ends of the buckets of a decision's time."""


class Metrics:
    """The service's own numbers, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        decisions = Counter("camdf_decisions", "Decisions by reason.", ["reason"], registry=registry)
        self.seconds = Histogram("camdf_decision_seconds", "Time of a decision.", registry=registry, buckets=SECONDS)
        answers = Counter("camdf_answers", "Answers by status.", ["status"], registry=registry)
        self.under_way = Gauge("camdf_requests_under_way", "Requests that were let in.", registry=registry)
        self.outcomes = Gauge("camdf_outcomes_last", "Sequence number of the last outcome.", registry=registry)
        self.swaps = Gauge("camdf_swaps", "Versions that came into use since the start.", registry=registry)
        self.refusals = Gauge("camdf_refusals", "Versions that were refused since the start.", registry=registry)
        self.is_refusing = Gauge("camdf_refusing", "1 where the files as they are now are not used.", registry=registry)
        self.unlogged = Gauge("camdf_decisions_not_logged", "Decisions dropped from a full log.", registry=registry)

        self.decided = lru_cache(maxsize=64)(lambda reason: decisions.labels(reason).inc)
        """What counts one more decision for a reason; looked up once for each."""

        self.answered = lru_cache(maxsize=64)(lambda status: answers.labels(status).inc)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        found: bytes = generate_latest(self.registry)
        return found
