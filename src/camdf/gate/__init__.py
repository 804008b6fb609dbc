"""The gate: a policy at work inside a harness, with a scorer, prices and guards."""

from camdf.gate.breaker import Breaker
from camdf.gate.decision import GateDecision, Ranked
from camdf.gate.gate import Gate
from camdf.gate.redis_memory import RedisMemory
from camdf.gate.rollout import Rollout
from camdf.gate.switch import Flag

__all__ = ["Breaker", "Flag", "Gate", "GateDecision", "Ranked", "RedisMemory", "Rollout"]
