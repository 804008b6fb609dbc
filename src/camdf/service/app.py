"""The routes: a request is read, decided on by the version that serves at that moment, and answered.

This is a plain ASGI application: ten paths need no framework, and each byte of a body is counted before it is kept.
"""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from camdf.errors import needs
from camdf.gate.decision import GateDecision
from camdf.service import openapi, shapes
from camdf.service.calls import JSON, HttpAnswer, HttpCall
from camdf.service.events import Lines, event, to_standard_output
from camdf.service.gates import candidate
from camdf.service.lessons import Seen, SeenLog, seen
from camdf.service.limits import Admission, GoneError, Receive, RefusedError, check_depth
from camdf.service.metrics import Metrics
from camdf.service.outcomes import OutcomeLog
from camdf.service.playground import Playground
from camdf.service.store import Served, Versions

with needs("serve"):
    import msgspec
    from msgspec import UNSET

LOG = logging.getLogger("camdf.service")
RANKED = "\0ranking"
"""Stands for the task of a ranking, which nobody can say in a message."""

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


class Service:
    """The application."""

    def __init__(self, store: Versions, outcomes: OutcomeLog) -> None:
        self.store, self.outcomes = store, outcomes
        self.metrics, self.admission = Metrics(), Admission()
        self.lines = Lines(to_standard_output)
        self.lessons: Lines[Seen] = Lines(SeenLog(store.state).write)
        self.draining = False
        self._encode = msgspec.json.Encoder().encode
        self._decides = msgspec.json.Decoder(shapes.DecideRequest | list[shapes.DecideRequest])
        self._learns = msgspec.json.Decoder(shapes.OutcomeRequest | list[shapes.OutcomeRequest])
        self.routes: dict[str, dict[str, Callable[[HttpCall], Awaitable[HttpAnswer]]]] = {
            "/v1/decide": {"POST": self.decide},
            "/v1/outcomes": {"POST": self.learn},
            "/v1/policy": {"GET": self.policy},
            "/healthz": {"GET": self.health},
            "/readyz": {"GET": self.ready},
            "/metrics": {"GET": self.numbers},
            "/openapi.json": {"GET": self.document},
        }
        if store.current.configuration.server.playground:
            self.routes |= Playground().routes

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        call = HttpCall(dict(scope["headers"]), receive, self.store.current)
        try:
            answer = await self._handler(scope)(call)
        except RefusedError as error:
            answer = HttpAnswer(self._problem(error.words), error.status, JSON, tuple(error.headers))
        except GoneError:
            return
        except Exception as error:
            answer = HttpAnswer(self._problem("Something went wrong inside of the service."), 500)
            # Its words may hold what a user wrote, so only its type and the places are logged.
            LOG.error("%s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
        self.metrics.answered(answer.status)()
        headers = [(b"content-type", answer.kind), (b"content-length", b"%d" % len(answer.body)), *answer.headers]
        if self.draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def decide(self, call: HttpCall) -> HttpAnswer:
        """Decide on one request, or on each of a list."""
        tenant = call.tenant()
        self.admission.enter(call.limits)
        try:
            asked, is_list = await call.read_several(self._decides)
            places = [_checked(call, tenant, each) for each in asked]
            found = [self._decided(call, tenant, served, each) for served, each in zip(places, asked, strict=True)]
            return HttpAnswer(self._encode(await asyncio.gather(*found) if is_list else await found[0]))
        finally:
            self.admission.leave()

    async def learn(self, call: HttpCall) -> HttpAnswer:
        """Write outcomes down; the answer comes once they are on disk."""
        tenant = call.tenant()
        self.admission.enter(call.limits)
        try:
            told, _ = await call.read_several(self._learns)
            if not told:
                raise RefusedError(422, "There is no outcome in this list. Send at least one.")
            lines = [{"tenant": tenant, **msgspec.structs.asdict(each)} for each in told]
            try:
                numbers = await asyncio.wrap_future(self.outcomes.append(lines))
            except OSError as error:
                LOG.error("Outcomes could not be written: %s", error.strerror)
                wait = str(call.limits.retry_seconds).encode()
                words = "The outcomes could not be written and were not accepted. Send them again later."
                raise RefusedError(503, words, [(b"retry-after", wait)]) from None
            return HttpAnswer(self._encode(shapes.Accepted(first=numbers.first, last=numbers.last)))
        finally:
            self.admission.leave()

    async def policy(self, call: HttpCall) -> HttpAnswer:
        """What decides now, on the routes of whoever asks."""
        tenant, routes = call.tenant(), []
        for (holder, route), served in call.serving.places.items():
            if holder == tenant:
                gate, rollout = served.gate, served.gate.rollout
                if rollout is not None:
                    await asyncio.to_thread(rollout.look)
                described = shapes.PolicyOfRoute(
                    route=route,
                    kind=gate.policy.kind,
                    sha256=served.policy_sha256,
                    cost_pressure=gate.payoff.cost_pressure,
                    value=str(gate.payoff.value),
                    mode=gate.mode,
                    scorer="none" if gate.scorer is None else type(gate.scorer).__name__,
                    share=1.0 if rollout is None else rollout.share,
                    off=rollout is not None and rollout.off,
                )
                routes.append(described)
        refused = self.store.refused
        if refused and tenant:  # whose words may be about another tenant
            refused = "The files as they are now are refused; the service's log says why."
        found = shapes.PolicyAnswer(configuration=call.serving.digest, routes=routes, refused=refused)
        return HttpAnswer(self._encode(found))

    async def health(self, call: HttpCall) -> HttpAnswer:
        """The process is alive."""
        return HttpAnswer(self._encode(shapes.Status(status="alive")))

    async def ready(self, call: HttpCall) -> HttpAnswer:
        """Whether new requests should come here."""
        if self.draining:
            return HttpAnswer(self._encode(shapes.Status(status="draining")), 503)
        return HttpAnswer(self._encode(shapes.Status(status="ready")))

    async def numbers(self, call: HttpCall) -> HttpAnswer:
        """For Prometheus."""
        metrics, store = self.metrics, self.store
        metrics.under_way.set(self.admission.inside)
        metrics.outcomes.set(self.outcomes.last)
        metrics.swaps.set(store.swaps)
        metrics.refusals.set(store.refusals)
        metrics.is_refusing.set(bool(store.refused))
        metrics.unlogged.set(self.lines.dropped + self.lessons.dropped)
        return HttpAnswer(metrics.text(), kind=b"text/plain; version=0.0.4; charset=utf-8")

    async def document(self, call: HttpCall) -> HttpAnswer:
        """The OpenAPI document."""
        return HttpAnswer(self._encode(openapi.document(call.limits, tokens=bool(call.serving.tokens))))

    def _handler(self, scope: dict[str, Any]) -> Callable[[HttpCall], Awaitable[HttpAnswer]]:
        methods = self.routes.get(scope["path"])
        if methods is None:
            raise RefusedError(404, "There is nothing at this path. /openapi.json says what there is.")
        method = scope["method"]
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
            raise RefusedError(405, f"This path takes {allowed}.", [(b"allow", allowed.encode())])
        return handler

    async def _decided(
        self, call: HttpCall, tenant: str, served: Served, asked: shapes.DecideRequest
    ) -> shapes.Decision:
        if asked.ranking is not UNSET:
            decision = await self._of_ranking(served, asked, asked.ranking)
        else:
            assert asked.messages is not UNSET
            assert asked.tools is not UNSET
            decision = await served.gate.adecide(
                asked.messages, asked.tools, keep=asked.keep, forced=asked.forced, door=asked.door
            )
        self.metrics.decided(decision)
        configuration = call.serving.configuration
        server = configuration.server
        if configuration.learn is not UNSET:
            lesson = seen(tenant, asked.route, decision)
            if lesson is not None:
                self.lessons.put(lesson)
        if server.log_decisions:
            trace = call.headers.get(b"traceparent", b"").decode("latin-1")
            self.lines.put(event(asked, decision, trace, texts=server.log_texts))
        return _answer(asked, decision, served)

    async def _of_ranking(
        self, served: Served, asked: shapes.DecideRequest, ranking: list[shapes.Candidate]
    ) -> GateDecision:
        gate = served.gate
        await self.admission.turn()
        tools = [candidate(each.name, each.cost or 0.0) for each in ranking]
        scores = [each.score for each in ranking]
        task = os.urandom(12).hex() if gate.explore or gate.rollout else RANKED  # each ranking is a draw of its own
        if gate.rollout:  # whose files and flags are read on a thread
            return await gate.adecide(task, tools, scores=scores, keep=asked.keep, forced=asked.forced)
        return gate.decide_scored(task, tools, scores, keep=asked.keep, forced=asked.forced)

    def _problem(self, words: str) -> bytes:
        return self._encode(shapes.Problem(error=words))


def _checked(call: HttpCall, tenant: str, asked: shapes.DecideRequest) -> Served:
    """What decides on a request, once it is within the limits."""
    served = call.serving.places.get((tenant, asked.route))
    if served is None:
        raise RefusedError(404, "There is no such route in the configuration. GET /v1/policy names them.")
    for name in ("ranking", "messages", "tools"):
        if (given := getattr(asked, name)) is not UNSET and len(given) > call.limits.tools:
            raise RefusedError(422, f"{name!r} may have {call.limits.tools} entries. Got {len(given)}.")
    if asked.ranking is UNSET:
        check_depth([asked.messages, asked.tools], call.limits.depth + 1)
    return served


def _answer(asked: shapes.DecideRequest, decision: GateDecision, served: Served) -> shapes.Decision:
    return shapes.Decision(
        id=decision.id,
        kept=list(decision.kept),
        cut=list(decision.cut),
        refused=list(decision.refused),
        reason=decision.reason,
        mode=decision.mode,
        open=decision.open,
        explored=decision.explored,
        error=decision.error,
        cost_pressure=decision.cost_pressure,
        policy=served.policy_sha256,
        tools=decision.tools if asked.ranking is UNSET else [each.name for each in decision.tools],
        ranking=[shapes.RankedTool(**each._asdict()) for each in decision.ranking] if asked.explain else UNSET,
    )
