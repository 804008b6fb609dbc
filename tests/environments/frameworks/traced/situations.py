"""The situations of the matrix: what the model answers, and what an observer who sees everything would write down.

A framework runs a situation with agents of its own and a gate before each. The gate's decisions and the requests that
reach the model are the truth with which the traces are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
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
    wanted: tuple[str, ...] = ()
    """The tools that the model asked for and nobody ran."""


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
    "cancelled": Situation((Call("get_weather"), Call("send_mail")), (), failed=1),
    "exit": Situation((Call("get_weather"), Call("send_mail")), (), failed=1),
    "left after a tool": Situation((Call("get_weather"),), (), failed=1),
    "left in the answer": Situation((Call("get_weather"), "sunny with some clouds"), (), failed=1),
    "limit": Situation((Call("get_weather"), Call("get_weather")), (), failed=1),
    "approved": Situation(
        (Call("get_weather"), Call("send_mail"), "sent"), (Run("clerk", ("get_weather", "send_mail")),)
    ),
    "edited": Situation(
        (Call("get_weather"), Call("send_mail"), "sent"), (Run("clerk", ("get_weather", "send_mail")),)
    ),
    "rejected": Situation(
        (Call("get_weather"), Call("send_mail"), "fine"), (Run("clerk", ("get_weather",), ("send_mail",)),)
    ),
    "unanswered": Situation((Call("get_weather"), Call("send_mail")), (), failed=1),
}

STOPPED = ("cancelled", "exit", "left after a tool", "left in the answer", "limit")
"""The situations in which a run stops before it has answered."""

APPROVALS = ("approved", "edited", "rejected", "unanswered")
"""The situations in which a person must approve of a mail before it is sent."""


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
    sending: asyncio.Event = field(default_factory=asyncio.Event)
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

    def approved(self, to: str = "") -> str:
        """Send a mail."""
        return f"sent {to}"

    async def waits(self) -> str:
        """Send a mail."""
        if self.situation == "exit":
            raise SystemExit
        if self.situation == "cancelled":
            self.sending.set()
            await asyncio.sleep(60)
        return "sent"

    async def cancelled(self, run: Coroutine[Any, Any, Any]) -> None:
        """Run until a mail is being sent, and no longer."""
        task = asyncio.create_task(run)
        await self.sending.wait()
        task.cancel()
        await task

    def known(self, names: Any) -> list[str]:
        """Of some names, those of real tools."""
        return [name for name in names if name in TOOLS]
