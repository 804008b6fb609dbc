"""A client of `camdf serve` in one file that needs the standard library alone: copy it beside your agent.

    client = Client("http://127.0.0.1:8080", token=TOKEN)
    request = client.decide(messages, tools)
    response = model(messages=request.messages, tools=request.tools)
    answer = client.answer(call, tools, request)

It never raises for what the service does. A service that is away, refuses, or takes longer than `seconds` leaves the
messages and the tools that it was given, and `failure` says why. After an answer with Retry-After it is not asked again
before that time. So neither the service's `allow` nor its privilege holds while it is away.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Answer", "Client", "Request"]

AWAY = "The search is away. Go on with your own tools."
SEARCH = ("find_tool", "call_tool")


@dataclass(frozen=True)
class Request:
    """What to send to the model."""

    messages: list[Any]
    """Those that were given, with the notes and the tools that join them."""

    tools: list[Any]
    """Those that are loaded, and the tool search."""

    betas: list[str] = field(default_factory=list)
    """What Anthropic has to be told in `betas`."""

    decision: dict[str, Any] = field(default_factory=dict)
    """All that the service answered; empty where it did not."""

    failure: str = ""
    """Why messages and tools are those that were given; "" where the service answered."""


@dataclass(frozen=True)
class Answer:
    """What to do with a call that the model wrote: run `name` with `arguments`, or answer it with `text`."""

    id: str
    name: str = ""
    """The tool to run; "" where none is."""

    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""


class Client:
    """Asks one service.

    Args:
        url: Where it is.
        token: The token that it asks for, if it does.
        seconds: The most that one question may take, from the first byte that is sent to the last that is read.
        settings: What every request for a decision says besides: `route`, `keep`, `model` and the like.
    """

    def __init__(self, url: str, *, token: str = "", seconds: float = 1.0, **settings: Any) -> None:
        self._url = urlsplit(url.rstrip("/"))
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.seconds = seconds
        self.settings = settings
        self._rests_until = 0.0

    def decide(self, messages: Sequence[Any], tools: Sequence[Any], **settings: Any) -> Request:
        """The messages and the tools of the next request to the model, for the whole history and all tools."""
        asked = {**self.settings, **settings, "messages": list(messages), "tools": list(tools)}
        decision = self._ask("/v1/decide", asked)
        if isinstance(decision, str):
            return Request(list(messages), list(tools), failure=decision)
        sent: dict[int, list[Any]] = {place: [message] for place, message in enumerate(messages)}
        for change in decision.get("changed", ()):
            sent[change["place"]] = [] if change["message"] is None else [change["message"]]
        for joining in decision.get("appended", ()):
            sent[joining["after"]].append(joining["message"])
        joined = [message for place in sorted(sent) for message in sent[place]]
        loaded = [*decision["tools"], *decision.get("search", ())]
        return Request(joined, loaded, decision.get("betas", []), decision)

    def answer(self, call: dict[str, Any], tools: Sequence[Any], request: Request) -> Answer:
        """What a call means that the model wrote, for all tools and what was decided last. Nothing is run here.

        While the service is away, a tool that is among `tools` is run, and a search is answered with words.
        """
        asked = {"call": call, "tools": list(tools)}
        may_run = request.decision.get("may_run")
        if may_run is not None:
            asked["may_run"] = may_run
        if "route" in self.settings:
            asked["route"] = self.settings["route"]
        meant = self._ask("/v1/answer", asked)
        if isinstance(meant, str):
            return _answered_alone(call, tools, may_run)
        run = meant["run"] or {"name": "", "arguments": {}}
        return Answer(meant["id"], run["name"], run["arguments"], meant["text"])

    def report(self, request: Request, called: Sequence[str], *, success: bool) -> bool:
        """Say what became of a task; whether the service has it on disk."""
        if not request.decision:
            return False
        outcome = {"decision": request.decision["id"], "called": list(called), "success": success}
        return not isinstance(self._ask("/v1/outcomes", outcome), str)

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """What the service answers, or why it does not."""
        if time.monotonic() < self._rests_until:
            return "The service asked to be left alone for some seconds."
        try:
            content = json.dumps(body).encode()
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._url.netloc, timeout=self.seconds)
            begun = time.monotonic()
            connection.connect()
            left = max(0.0, self.seconds - (time.monotonic() - begun))
            ends = threading.Timer(left, _cut, [connection.sock])
            ends.daemon = True
            ends.start()
            try:
                connection.request("POST", self._url.path + path, content, self._headers)
                response = connection.getresponse()
                status = response.status
                text = response.read()
            finally:
                ends.cancel()
                connection.close()
            if status != 200:
                with suppress(ValueError):
                    self._rests_until = time.monotonic() + float(response.headers.get("Retry-After", ""))
                return f"{status}: {text.decode(errors='replace')[:500]}"
            found: dict[str, Any] = json.loads(text)
            return found
        except (OSError, ValueError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"


def _cut(connected: socket.socket) -> None:
    """End a connection whose time is over, whatever it waits for."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _answered_alone(call: dict[str, Any], tools: Sequence[Any], may_run: Sequence[str] | None) -> Answer:
    """What a call means to somebody who cannot search."""
    made = call.get("function", call)
    name = made.get("name", "")
    arguments = made.get("arguments", made.get("input", {}))
    with suppress(ValueError):
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if name == SEARCH[1]:
            name = arguments["name"]
            arguments = arguments.get("arguments", {})
    known = {tool.get("function", tool).get("name") for tool in tools}
    key = call.get("call_id") or call.get("id", "")
    if name in known and isinstance(arguments, dict) and (may_run is None or name in may_run):
        return Answer(key, name, arguments)
    return Answer(key, text=AWAY)
