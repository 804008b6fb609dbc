"""Where decisions go: the span of the moment, and a sink of the operator's that can never hold one up.

Frameworks that trace by themselves have no current span here. Their adapters write a step of their own, named `EVENT`,
into the framework's trace, and every tracer of that framework has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from camdf.gate.budget import BusyError, Work, Workers
from camdf.gate.decision import GateDecision

EVENT = "camdf.decision"


def add_to_span(decision: GateDecision) -> None:
    """The decision on the span of the moment, where the host has loaded a tracer and is recording.

    OpenTelemetry's span gets an event. MLflow keeps its own current span, apart from OpenTelemetry's.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    span = trace.get_current_span() if trace is not None else None
    add_event(span, decision)
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
