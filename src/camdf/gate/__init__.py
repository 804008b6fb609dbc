"""The gate: a policy at work inside a harness, with a scorer, prices and guards."""

from camdf.gate.decision import GateDecision
from camdf.gate.gate import Gate
from camdf.gate.journal import Journal
from camdf.gate.memory import RedisMemory
from camdf.gate.privilege import Privilege
from camdf.gate.ranking import Ranked
from camdf.gate.settings import Guards, Limits, Records, Rollout
from camdf.runtime.breaker import Breaker
from camdf.runtime.switch import value_in_file

__all__ = [
    "Breaker",
    "Gate",
    "GateDecision",
    "Guards",
    "Journal",
    "Limits",
    "Privilege",
    "Ranked",
    "Records",
    "RedisMemory",
    "Rollout",
    "value_in_file",
]
