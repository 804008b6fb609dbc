"""Decisions as lines of JSON on standard output, with attributes as OpenTelemetry's GenAI conventions name them.

What users wrote is in `gen_ai.input.messages`, and only where the configuration says `server.log_texts = true`. Lines
are written from a thread of their own; those that find no room behind a stalled reader, or cannot be written, are
dropped and counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from camdf.errors import needs
from camdf.gate.decision import GateDecision
from camdf.runtime.workers import BusyError, Workers
from camdf.service.shapes import DecideRequest

with needs("serve"):
    import msgspec
    from msgspec import UNSET

T = TypeVar("T")

WAITING = 1_000
"""How many lines may wait to be written."""


def event(
    request: DecideRequest, decision: GateDecision, decision_id: str, trace: str, *, texts: bool
) -> dict[str, Any]:
    """One decision as the attributes of an event, under the id that was answered."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "select_tools"}
    if request.route:
        attributes["camdf.route"] = request.route
    attributes |= decision.event()
    attributes["camdf.id"] = decision_id
    if texts and request.messages is not UNSET:
        attributes["gen_ai.input.messages"] = request.messages
    version, _, rest = trace.partition("-")
    trace_id, _, span_id = rest.partition("-")
    line: dict[str, Any] = {"time": round(time.time(), 6), "event_name": "camdf.decision"}
    if version and len(trace_id) == 32:
        line["trace_id"] = trace_id
        line["span_id"] = span_id[:16]
    line["attributes"] = attributes
    return line


def to_standard_output(found: dict[str, Any]) -> None:
    """Write an event as one line."""
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()


class Lines(Generic[T]):
    """Has things written, one a line, without ever holding up a decision; what could not be written is counted."""

    def __init__(self, write: Callable[[T], None]) -> None:
        self.dropped = 0
        self._write = write
        self._worker = Workers(limit=1, waiting=WAITING)

    def put(self, found: T) -> None:
        """Have a line written."""
        try:
            self._worker.start(lambda _: self._write_or_count(found))
        except BusyError:
            self.dropped += 1

    def _write_or_count(self, found: T) -> None:
        try:
            self._write(found)
        except Exception:
            self.dropped += 1
