"""What the service counts, for Prometheus: numbers and reasons, never a name of a tenant, a tool or a task."""

from __future__ import annotations

from collections.abc import Callable
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
        self.answered = lru_cache(maxsize=64)(lambda status: answers.labels(status).inc)
        """What counts one more answer of a status; looked up once for each."""

    def watch(self, name: str, words: str, read: Callable[[], float]) -> None:
        """Have a number read whenever Prometheus asks."""
        Gauge(f"camdf_{name}", words, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        exposition: bytes = generate_latest(self.registry)
        return exposition
