"""Where decisions go: the current OpenTelemetry span, and a sink of the operator's that can never hold one up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any

from camdf.gate.decision import GateDecision

EVENT = "camdf.decision"


def add_to_span(decision: GateDecision) -> None:
    """An event on the span of the moment, where the host has loaded OpenTelemetry and is recording."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    span = trace.get_current_span() if trace is not None else None
    if span is not None and span.is_recording():
        span.add_event(EVENT, attributes=dict(decision.event()))


class Sink:
    """Calls `receive` from a thread of its own; what a full queue cannot take is dropped and counted."""

    def __init__(self, receive: Callable[[GateDecision], object], size: int = 1000) -> None:
        self.receive = receive
        self.dropped = 0
        self._queue: Queue[GateDecision] = Queue(size)
        self._lock = Lock()
        self._thread: Thread | None = None

    def put(self, decision: GateDecision) -> None:
        """Hand over a decision without waiting."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._work, name="camdf-sink", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(decision)
        except Full:
            self.dropped += 1

    def drain(self) -> None:
        """Wait until everything handed over so far has been received."""
        self._queue.join()

    def _work(self) -> None:
        while True:
            decision = self._queue.get()
            try:
                self.receive(decision)
            except Exception:
                self.dropped += 1
            finally:
                self._queue.task_done()
