"""What the gates of many tenants share: threads, scores, lists, conversations, and who is told of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from camdf.errors import UsageError
from camdf.gate.catalogue import Catalogues
from camdf.gate.memory import Memory, SharedMemory
from camdf.gate.scoring import TurnScores
from camdf.gate.settings import Guards, Limits, Records
from camdf.gate.telemetry import Sink
from camdf.runtime.workers import Workers
from camdf.scorers.base import Scorer

READERS = 8
"""How many requests of event loops are read at a time: this is work of the processor."""

SCORERS = 64
"""How many decisions are scored at a time: this is mostly waiting. More wait in line, within their time limits."""


@dataclass(frozen=True)
class SharedByTenants:
    """No thread of it is begun before there is work."""

    turn_scores: TurnScores
    memory: Memory
    sink: Sink | None
    catalogues: Catalogues = field(default_factory=Catalogues)
    readers: Workers = field(default_factory=lambda: Workers(READERS))
    scorers: Workers = field(default_factory=lambda: Workers(SCORERS))

    @classmethod
    def from_records(cls, scorer: Scorer | None, records: Records) -> SharedByTenants:
        """A set for a gate, and for those that will be made from it."""
        memory = Memory(records.conversations)
        if records.store is not None:
            memory = SharedMemory(records.store, records.conversations)
        sink = None if records.on_decision is None else Sink(records.on_decision)
        return cls(TurnScores(scorer), memory, sink)


def settings_of_tenant(settings: Mapping[str, Any], guards: Guards, limits: Limits) -> dict[str, Any]:
    """What a tenant sets of its own; `guards` and `limits` of the gate that it is made from have what it shares."""
    own_guards = settings.get("guards", guards)
    own_limits = settings.get("limits", limits)
    is_own = {
        "scorer": "scorer" in settings,
        "records": "records" in settings,
        "trusted": own_guards.trusted not in (None, guards.trusted),
        "breaker": own_limits.breaker not in (None, limits.breaker),
    }
    for name in filter(is_own.get, is_own):
        raise UsageError(
            "All tenants share scorer, trusted servers, breaker and records. "
            f"Make a Gate of its own for another {name!r}."
        )
    own_guards = replace(own_guards, trusted=guards.trusted)
    own_limits = replace(own_limits, breaker=limits.breaker)
    return {**settings, "guards": own_guards, "limits": own_limits}
