"""What the gates of many tenants share: threads, scores, conversations, and who is told of decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from camdf.gate.budget import Workers
from camdf.gate.decision import GateDecision
from camdf.gate.memory import Memory
from camdf.gate.shared_memory import ConversationStore, SharedMemory
from camdf.gate.telemetry import Sink
from camdf.gate.turn_scores import TurnScores
from camdf.scorers.base import Scorer

READERS = 8
"""How many requests are read at a time: this is work of the processor."""

SCORERS = 64
"""How many decisions are scored at a time: this is mostly waiting. More wait in line, within their budgets."""


@dataclass(frozen=True)
class SharedByTenants:
    """One set of them; no thread is begun before there is work."""

    turn_scores: TurnScores
    memory: Memory
    sink: Sink | None
    readers: Workers = field(default_factory=lambda: Workers(READERS))
    scorers: Workers = field(default_factory=lambda: Workers(SCORERS))

    @classmethod
    def of(
        cls,
        scorer: Scorer | None,
        conversations: int,
        store: ConversationStore | None,
        on_decision: Callable[[GateDecision], object] | None,
    ) -> SharedByTenants:
        """A set for a gate, and for those that will be made from it."""
        memory = Memory(conversations) if store is None else SharedMemory(store, conversations)
        return cls(TurnScores(scorer), memory, None if on_decision is None else Sink(on_decision))
