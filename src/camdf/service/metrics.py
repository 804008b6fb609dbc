"""What the service counts, for Prometheus: numbers and reasons, never a name of a tenant, a tool or a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from camdf.errors import needs
from camdf.gate.telemetry import PrometheusMetrics

with needs("serve"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector


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

    def watch_numbered(self, name: str, words: str, read: Callable[[], Iterable[int]]) -> None:
        """Have the tenants read for which something is so whenever Prometheus asks, by number and not by name."""
        self.registry.register(Numbered(f"camdf_{name}", words, read))

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        exposition: bytes = generate_latest(self.registry)
        return exposition


class Numbered(Collector):
    """A 1 for each tenant for which something is so."""

    def __init__(self, name: str, words: str, read: Callable[[], Iterable[int]]) -> None:
        self._name = name
        self._words = words
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As the registry asks for it."""
        family = GaugeMetricFamily(self._name, self._words, labels=["tenant"])
        for number in self._read():
            family.add_metric([str(number)], 1)
        yield family
