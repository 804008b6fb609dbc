"""From requests that were admitted to answers: each is decided on, counted, logged and written as JSON.

Short rankings have their turns on the event loop, where those that wait are decided on together. All others are worked
on off it: on threads of the process, or in the program that a gate asks for scores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from camdf.datasets.ids import hashed
from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.append import GONE, betas_of
from camdf.gate.decision import GateDecision
from camdf.gate.lists import written_like
from camdf.gate.ranking import Ranked
from camdf.gate.request import Question
from camdf.service import shapes
from camdf.service.admission import SLICE, Turns
from camdf.service.calls import HttpCall, check_batch, parsed_body, served_on
from camdf.service.events import Lines, event, to_standard_output
from camdf.service.gates import candidate, scored_elsewhere
from camdf.service.lessons import Seen, SeenLog, seen
from camdf.service.metrics import Metrics
from camdf.service.outcomes import marked
from camdf.service.store import RouteGate

with needs("serve"):
    import msgspec
    from msgspec import UNSET, UnsetType

T = TypeVar("T")

RANKED = "\0ranking"
"""Stands for the task of a ranking, which nobody can say in a message."""

FEWEST = 20
"""Candidates that a decision counts for at least: it takes time for itself too."""

AS_DECIDED = (
    "kept",
    "cut",
    "refused",
    "reason",
    "mode",
    "open",
    "explored",
    "conversation",
    "needs_name",
    "error",
    "cost_pressure",
)
"""What is answered as the gate's decision has it."""


class Asked(NamedTuple):
    """One decision that is asked for, in which call, and who makes it."""

    call: HttpCall
    served: RouteGate
    request: shapes.DecideRequest
    said: Callable[[Asked, shapes.Decision], Any]
    """What is answered, by the decision."""

    @property
    def work(self) -> int:
        """How many candidates it counts for: those of a conversation once for every turn."""
        request = self.request
        turns = len([message for message in request.messages or () if message.get("role") == "user"])
        return max(len(request.ranking or ()), len(request.tools or ()) * turns, FEWEST)


class Deciding:
    """Answers requests for decisions."""

    def __init__(self, metrics: Metrics, lessons: SeenLog) -> None:
        self.lines = Lines(to_standard_output)
        self.lessons: Lines[Seen] = Lines(lessons.write)
        self._metrics = metrics
        self._turns: Turns[Asked, bytes] = Turns(self._together)

    @property
    def dropped(self) -> int:
        """How many lines could not be written."""
        return self.lines.dropped + self.lessons.dropped

    def read(self, call: HttpCall, body: bytes) -> tuple[list[Asked], bool]:
        """What a body asks for, once it is within the limits, and whether it is a list."""
        if not body.lstrip().startswith(b"["):
            return [asked_within_limits(call, parsed_body(body, shapes.DecideRequest))], False
        parts = enumerate(check_batch(parsed_body(body, list[msgspec.Raw]), call.limits))
        return [
            asked_within_limits(call, parsed_body(part, shapes.DecideRequest, f"$[{place}]")) for place, part in parts
        ], True

    async def answers(self, asked: Sequence[Asked]) -> list[bytes]:
        """The answers to what was asked, in its order."""
        for rollout in {question.served.gate.rollout for question in asked}:
            if rollout.due:  # no decision on the event loop waits for a file
                await asyncio.to_thread(rollout.look)
        begun = [asyncio.ensure_future(self._answer(question)) for question in asked]
        return [await question for question in begun]

    def _answer(self, asked: Asked) -> Awaitable[bytes]:
        is_ranking = asked.request.ranking is not UNSET
        work = asked.work
        if is_ranking and work <= SLICE:
            return self._turns.ask(asked.call.tenant, asked.call, asked, work)
        if is_ranking or not scored_elsewhere(asked.served.gate):
            return asked.call.run(partial(self._on_this_thread, asked))
        return self._elsewhere(asked)

    def _together(self, asked: Sequence[Asked]) -> list[bytes]:
        """Answers to short rankings, those of one gate together."""
        places: dict[Gate, list[int]] = {}
        for place, question in enumerate(asked):
            places.setdefault(question.served.gate, []).append(place)
        answers: dict[int, bytes] = {}
        for gate, own in places.items():
            decisions = gate.decide_together([Question(**_arguments(asked[place]), seconds=0.0) for place in own])
            for place, decision in zip(own, decisions, strict=True):
                answers[place] = self._answer_written(asked[place], decision)
        return [answers[place] for place in range(len(asked))]

    def _on_this_thread(self, asked: Asked) -> bytes:
        return self._answer_written(asked, asked.served.gate.decide(**_arguments(asked)))

    async def _elsewhere(self, asked: Asked) -> bytes:
        return self._answer_written(asked, await asked.served.gate.adecide(**_arguments(asked)))

    def _answer_written(self, asked: Asked, decision: GateDecision) -> bytes:
        """A decision as it is answered, once it is counted and logged."""
        request = asked.request
        decision_id = marked(decision.id, asked.call.tenant)
        self._metrics.decided(decision)
        self._log_decision(asked, decision, decision_id)
        answer = shapes.Decision(
            id=decision_id,
            **{name: getattr(decision, name) for name in AS_DECIDED},
            policy=asked.served.policy_sha256,
            tools=decision.head,
        )
        if decision.may_run is not None:
            answer.may_run = sorted(decision.may_run)
            answer.brought = list(decision.brought)
        if request.explain:
            answer.ranking = list(map(_explained, decision.ranking))
        if request.ranking is not UNSET:
            answer.tools = [tool.name for tool in decision.head]
        elif request.tools:
            answer.search = list(map(written_like(request.tools[0]), decision.search))
        if request.messages is not UNSET:
            answer.changed = _changed_messages(request.messages, decision)
        channel = decision.channel
        if channel is not None and channel != "note":
            answer.appended = [
                shapes.JoiningTools(after=addition.after, message=decision.authorized.joining(addition, channel))
                for addition in decision.appended
            ]
        if decision.channel == "anthropic" and request.messages is not UNSET:
            answer.betas = betas_of(decision.messages(request.messages))
        return msgspec.json.encode(asked.said(asked, answer))

    def _log_decision(self, asked: Asked, decision: GateDecision, decision_id: str) -> None:
        """Have a decision written down, to learn from and for the operator, where the configuration says so."""
        call = asked.call
        request = asked.request
        configuration = call.serving.configuration
        if configuration.learn is not None:
            recalls = getattr(asked.served.gate.policy, "past_", None) is not None
            user = hashed(request.user, asked.served.gate.records.id_key or b"")
            lesson = seen(call.tenant, request.route, decision, user, recalls=recalls)
            if lesson is not None:
                self.lessons.put(lesson)
        if configuration.server.log_decisions:
            trace = call.headers.get(b"traceparent", b"").decode("latin-1")
            self.lines.put(event(request, decision, decision_id, trace, texts=configuration.server.log_texts))


def _changed_messages(messages: Sequence[shapes.JsonObject], decision: GateDecision) -> list[shapes.ChangedMessage]:
    """Those of some messages that are not sent as they came: of tools which may not be offered, or with a note."""
    pairs = zip(messages, decision.authorized.changed(messages, decision.appended, decision.channel), strict=True)
    return [
        shapes.ChangedMessage(place=place, message=None if stays is GONE else stays)
        for place, (came, stays) in enumerate(pairs)
        if stays is not came
    ]


def _explained(ranked: Ranked) -> Any:
    """A ranked tool, written already: one by one, so that a list of thousands does not hold up other threads."""
    return msgspec.Raw(msgspec.json.encode(shapes.RankedTool(*ranked)))


def _as_decided(asked: Asked, decision: shapes.Decision) -> shapes.Decision:
    return decision


def asked_within_limits(
    call: HttpCall, request: shapes.DecideRequest, said: Callable[[Asked, shapes.Decision], Any] = _as_decided
) -> Asked:
    """A request and what decides on it, once it is within the limits; in which words it is answered."""
    served = served_on(call, request.route)
    call.check(ranking=request.ranking or (), messages=request.messages or (), tools=request.tools or ())
    return Asked(call, served, request, said)


def _arguments(asked: Asked) -> dict[str, Any]:
    """What the gate is asked."""
    request = asked.request
    rollout = asked.served.gate.rollout
    name = _none_if_unset(request.conversation)
    permitted = _none_if_unset(request.permitted)
    if permitted is None and request.ranking is not UNSET:
        permitted = []  # a ranking has no words of a user, so it brings nothing
    always: dict[str, Any] = {
        "keep": request.keep,
        "forced": request.forced,
        "user": request.user,
        "permitted": permitted,
    }
    if request.ranking is UNSET:
        talk = {"task": request.messages, "tools": request.tools, "conversation": name, "model": request.model}
        return {**always, **talk, "tool_search": _none_if_unset(request.tool_search)}
    if name is None and (rollout.explore or not rollout.everyone):
        name = ""  # a ranking without a name is a draw of its own
    tools = [candidate(ranked.name, ranked.cost or 0.0) for ranked in request.ranking]
    scores = [ranked.score for ranked in request.ranking]
    return {**always, "task": RANKED, "tools": tools, "conversation": name, "scores": scores}


def _none_if_unset(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value
