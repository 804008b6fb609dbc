"""The nine situations of the matrix: what the model answers, and what an observer who sees everything would write down.

A framework runs a situation with agents of its own and a gate before each. The gate's decisions and the requests that
reach the model are the truth with which the traces are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from camdf.gate import Gate, GateDecision, Guards, Records, Rollout
from golden import golden_gate
from scripted import Call, Step

TASK = "Weather forecast of Bern?"
INNER = "Read a file from the disk"
AGAIN = "And the weather forecast of Thun?"
TOOLS = {
    "get_weather": "Weather forecast of a city.",
    "send_mail": "Send a mail.",
    "read_file": "Read a file from the disk.",
    "ask_files": "Ask the agent for files.",
}
"""Every tool that an agent here may have. Structured answers, handoffs and the gate's tool search are none."""

PINNED = ("ask_files", "send_mail")
"""Tools that the gate must not cut, so that the script can call them."""


@dataclass(frozen=True)
class Run:
    """What one agent did for one request: under which name its gate decided, and the tools that the run required."""

    gate: str
    required: tuple[str, ...]


@dataclass(frozen=True)
class Situation:
    """What the model answers, and the runs, the first one first. Of a run that fails nothing can be learned."""

    script: tuple[Step | int, ...]
    runs: tuple[Run, ...]
    failed: int = 0
    explore: float = 0.0


SITUATIONS = {
    "parallel": Situation(
        ((Call("get_weather"), Call("read_file")), "sunny"),
        (Run("clerk", ("get_weather", "read_file")),),
        explore=1.0,  # so that both are on the list
    ),
    "retry": Situation((Call("send_mail"), Call("send_mail"), "sent"), (Run("clerk", ("send_mail",)),)),
    "failed": Situation((Call("get_weather"), 400), (), failed=1),
    "nested": Situation(
        (Call("ask_files", {"input": INNER}), Call("read_file"), "read", Call("get_weather"), "sunny"),
        (Run("clerk", ("ask_files", "get_weather")), Run("files", ("read_file",))),
    ),
    "streaming": Situation((Call("get_weather"), "sunny"), (Run("clerk", ("get_weather",)),)),
    "structured output": Situation(
        (Call("get_weather"), Call("Answer", {"text": "sun"})), (Run("clerk", ("get_weather",)),)
    ),
    "handoff": Situation(
        (Call("transfer_to_files"), Call("read_file"), "read"), (Run("clerk", ()), Run("files", ("read_file",)))
    ),
    "MCP": Situation((Call("get_weather"), "sunny"), (Run("clerk", ("get_weather",)),)),
    "resumed": Situation(
        (Call("get_weather"), "sunny", Call("get_weather"), "rainy"),
        (Run("clerk", ("get_weather",)), Run("clerk again", ("get_weather",))),
    ),
}


@dataclass
class Answer:
    """The answer in a form of its own."""

    text: str


@dataclass
class Play:
    """One situation on its way: where the model is, the gates and what they decide, and the tools."""

    situation: str
    url: str = ""
    decisions: dict[str, list[GateDecision]] = field(default_factory=dict)
    mails: int = 0
    gates: list[Gate] = field(default_factory=list)

    @property
    def truth(self) -> Situation:
        return SITUATIONS[self.situation]

    def gate(self, name: str) -> Gate:
        """A gate of this name; what it decides is written down."""
        noted = self.decisions.setdefault(name, [])
        gate = golden_gate(
            rollout=Rollout(explore=self.truth.explore),
            guards=Guards(pinned=PINNED),
            records=Records(on_decision=noted.append),
        )
        self.gates.append(gate)
        return gate

    def drained(self) -> None:
        for gate in self.gates:
            if gate.sink is not None:
                gate.sink.drain()

    def decided(self, name: str) -> GateDecision | None:
        """The first decision with a ranking, which is the one to learn from."""
        return next((each for each in self.decisions.get(name, ()) if each.ranking), None)

    def offered(self, name: str) -> list[str]:
        """The tools of the run's requests, all together: a tool that was called from memory is on the next list."""
        return list(dict.fromkeys(kept for each in self.decisions.get(name, ()) for kept in each.kept))

    def get_weather(self) -> str:
        """Weather forecast of a city."""
        return "sun"

    def read_file(self) -> str:
        """Read a file from the disk."""
        return "words"

    def sends(self) -> bool:
        """Whether the mail can be sent now: where a situation tries again, the first time it cannot."""
        self.mails += 1
        return self.mails > 1

    def known(self, names: Any) -> list[str]:
        """Of some names, those of real tools."""
        return [name for name in names if name in TOOLS]
