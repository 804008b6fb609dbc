"""What the suite does with a framework: an agent that a driver builds, a turn that it sends, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from camdf.gate import Gate

ONE_TEXT: dict[str, Any] = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


@dataclass(frozen=True)
class RunnableTool:
    """A tool that the driver makes one of its framework's."""

    name: str
    description: str
    run: Callable[[dict[str, Any]], str]
    """Takes the arguments of the call."""

    parameters: Mapping[str, Any] = field(default_factory=lambda: ONE_TEXT)
    """The JSON schema of the arguments."""

    server: str = ""
    """Where it comes from, if that is to be told to the gate."""

    needs_approval: bool = False


@dataclass(frozen=True)
class Setup:
    """The agent that a driver builds."""

    url: str
    """The base url of its model, which an OpenAI client takes."""

    tools: tuple[RunnableTool, ...]
    gate: Gate
    tool_search: bool = True
    system: str = ""
    structured: bool = False
    """Whether its answer is an object with the text `answer`."""

    colleague: str = ""
    """The name of an agent that it can hand over to, if any, which the driver builds too, with the same model."""

    traced: bool = False
    """Whether its runs write spans, by the framework's own OpenTelemetry and to the global tracer provider."""


@dataclass(frozen=True)
class ChatTurn:
    """What the user does next."""

    said: Any = ""
    """A text, or parts as OpenAI's chat messages have them."""

    history: Any = None
    """What the reply before had; None at the beginning."""

    conversation: str | None = None
    """The name of the conversation, where the framework takes one."""

    forced: str | None = None
    """The tool that the first model request has to call."""

    stream: bool = False
    approve: Any = None
    """What the reply before waits for: the user approves it, and says nothing."""


class Reply(NamedTuple):
    """What came of a turn."""

    history: Any
    """All that was said so far, as a database would keep it: any agent of the driver can go on with it."""

    text: str = ""
    waits_for: Any = None
    """The call that the user has to approve, if the run stopped at one."""


class Driver(Protocol):
    """What the checks do with a framework. Where it has no tool search, `HAS_TOOL_SEARCH = False` says so."""

    def build(self, setup: Setup) -> Any:
        """An agent, as a process that has just begun would build it."""

    def send(self, agent: Any, turn: ChatTurn) -> Reply:
        """Run the agent until it has answered, or waits for an approval."""
