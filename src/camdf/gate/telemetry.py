"""Where decisions go: the current OpenTelemetry span, and a sink of the operator's that can never hold one up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from camdf.gate.budget import BusyError, Work, Workers
from camdf.gate.decision import GateDecision

EVENT = "camdf.decision"


def add_to_span(decision: GateDecision) -> None:
    """An event on the span of the moment, where the host has loaded OpenTelemetry and is recording."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    span = trace.get_current_span() if trace is not None else None
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
            self._last = self._worker.start(lambda work: self._received(decision))
        except BusyError:
            self.dropped += 1

    def drain(self) -> None:
        """Wait until everything handed over so far has been received."""
        if self._last is not None:
            self._last.wait()

    def _received(self, decision: GateDecision) -> None:
        try:
            self.receive(decision)
        except BaseException:
            self.dropped += 1
