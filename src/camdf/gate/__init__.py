"""The gate: a policy at work inside a harness, with a scorer, prices and guards."""

from camdf.gate.decision import GateDecision, Ranked
from camdf.gate.gate import Gate

__all__ = ["Gate", "GateDecision", "Ranked"]
