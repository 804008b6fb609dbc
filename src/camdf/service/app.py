"""The routes: a request is read, decided on by the version that serves at that moment, and answered.

This is a plain ASGI application: ten paths need no framework, and each byte of a body is counted before it is kept.
What a request passes, in this order: the wire (`wire`), host and token (`limits`), its body and admission (`calls`,
`admission`), and the decision (`deciding`).
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from camdf.errors import needs
from camdf.scorers.named import scorer_record
from camdf.service import litellm_guardrail, openapi, playground, searching, shapes
from camdf.service.admission import Admission, come_back
from camdf.service.calls import Handler, HttpAnswer, HttpCall, Receive, Routes, check_batch
from camdf.service.deciding import Deciding
from camdf.service.lessons import SeenLog
from camdf.service.limits import GoneError, RefusedError, check_fields, check_host
from camdf.service.metrics import Metrics
from camdf.service.outcomes import OutcomeLog, is_marked
from camdf.service.store import VersionStore

with needs("serve"):
    import msgspec

LOG = logging.getLogger("camdf.service")

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
REFUSING = "1 for a tenant whose files as they are now are not used, by its place in the configuration, from 1."
UNLOGGED = "Decisions that were to be logged or kept to learn from, and were not."
OUTCOMES: Any = shapes.OutcomeRequest | list[shapes.OutcomeRequest]


class Service:
    """The application."""

    def __init__(self, store: VersionStore, outcomes: OutcomeLog) -> None:
        self.store = store
        self.outcomes = outcomes
        self.metrics = Metrics()
        self.admission = Admission()
        self.deciding = Deciding(self.metrics, SeenLog(store.state))
        self.draining = False
        self.foreign_outcomes = 0
        """Those refused since they name no decision of whoever told them."""

        self.routes: Routes = {
            "/v1/decide": ("POST", self.decide),
            "/v1/find": ("POST", searching.answer_search),
            "/v1/answer": ("POST", searching.answer_call),
            "/v1/outcomes": ("POST", self.learn),
            "/v1/policy": ("GET", self.policy),
            "/beta/litellm_basic_guardrail_api": ("POST", partial(litellm_guardrail.answer_guardrail, self.deciding)),
            "/healthz": ("GET", self.health),
            "/readyz": ("GET", self.ready),
            "/metrics": ("GET", self.numbers),
            "/openapi.json": ("GET", self.document),
        }
        if store.current.configuration.server.playground:
            self.routes |= playground.routes()
        self._watch_numbers()

    def _watch_numbers(self) -> None:
        watch = self.metrics.watch
        store = self.store
        outcomes = self.outcomes
        watch("requests_under_way", "Requests that were let in.", lambda: self.admission.requests.total)
        watch("outcomes_last", "Sequence number of the last outcome.", lambda: outcomes.last)
        watch("outcomes_foreign", "Outcomes refused, of no decision of their tenant.", lambda: self.foreign_outcomes)
        watch("swaps", "Versions that came into use since the start.", lambda: store.swaps)
        watch("refusals", "Versions that were refused since the start.", lambda: store.refusals)
        watch("refusing", "1 where the files as they are now are not used.", lambda: store.refusing)
        self.metrics.watch_numbered("tenant_refusing", REFUSING, self._refused_tenants)
        watch("decisions_not_logged", UNLOGGED, lambda: self.deciding.dropped)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        call = HttpCall(dict(scope["headers"]), receive, self.store.current, self.admission)
        try:
            check_fields(scope["headers"])
            if not call.serving.tokens:
                check_host(call.headers, call.serving.configuration.server.allowed_hosts)
            answer = await self._handler_for(scope)(call)
        except RefusedError as error:
            answer = _problem_answer(error.words, error.status)._replace(headers=tuple(error.headers))
        except GoneError:
            return
        except Exception as error:
            answer = _problem_answer("Something went wrong inside of the service.", 500)
            # Its words may hold what a user wrote, so only its type and the places are logged.
            LOG.error("%s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
        finally:
            call.leave()
        self.metrics.answered(answer.status)()
        headers = [(b"content-type", answer.kind), (b"content-length", b"%d" % len(answer.body)), *answer.headers]
        if self.draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def decide(self, call: HttpCall) -> HttpAnswer:
        """Decide on one request, or on each of a list."""
        asked, is_list = await call.read(partial(self.deciding.read, call))
        call.enter(sum(question.work for question in asked))
        answers = await self.deciding.answers(asked)
        if not is_list:
            return HttpAnswer(answers[0])
        return HttpAnswer(b"[%b]" % b",".join(answers))

    async def learn(self, call: HttpCall) -> HttpAnswer:
        """Write outcomes down; the answer comes once they are on disk."""
        body = await call.read_as(OUTCOMES)
        sent = check_batch(body if isinstance(body, list) else [body], call.limits)
        if not sent:
            raise RefusedError(422, "There is no outcome in this list. Send at least one.")
        self._check_owner(sent, call.tenant)
        call.enter(len(sent))
        lines = [{"tenant": call.tenant, **msgspec.structs.asdict(outcome)} for outcome in sent]
        try:
            numbers = await asyncio.wrap_future(self.outcomes.append(lines))
        except OSError as error:
            LOG.error("Outcomes could not be written: %s", error.strerror)
            words = "The outcomes could not be written and were not accepted. Send them again later."
            raise come_back(words, call.limits) from None
        return HttpAnswer.as_json(shapes.Accepted(first=numbers.first, last=numbers.last))

    async def policy(self, call: HttpCall) -> HttpAnswer:
        """What decides now, on the routes of whoever asks."""
        call.identify()
        routes = []
        for route, served in call.serving.routes_of(call.tenant).items():
            gate = served.gate
            rollout = gate.rollout
            await asyncio.to_thread(rollout.look)
            described = shapes.PolicyOfRoute(
                route=route,
                kind=gate.policy.kind,
                sha256=served.policy_sha256,
                cost_pressure=gate.payoff.cost_pressure,
                value=str(gate.payoff.value),
                mode=gate.mode,
                scorer="none" if gate.scorer is None else type(gate.scorer).__name__,
                fitted_scorer=str(scorer_record(gate.policy) or ""),
                share=rollout.share_now,
                off=rollout.is_off,
            )
            routes.append(described)
        refused = self.store.why_refused(call.tenant)
        return HttpAnswer.as_json(
            shapes.PolicyAnswer(configuration=call.serving.digest, routes=routes, refused=refused)
        )

    async def health(self, call: HttpCall) -> HttpAnswer:
        """The process is alive."""
        return HttpAnswer.as_json(shapes.Status(status="alive"))

    async def ready(self, call: HttpCall) -> HttpAnswer:
        """Whether new requests should come here."""
        if self.draining:
            return HttpAnswer.as_json(shapes.Status(status="draining"), 503)
        return HttpAnswer.as_json(shapes.Status(status="ready"))

    async def numbers(self, call: HttpCall) -> HttpAnswer:
        """For Prometheus."""
        written = await asyncio.to_thread(self.metrics.text)
        return HttpAnswer(written, kind=b"text/plain; version=0.0.4; charset=utf-8")

    async def document(self, call: HttpCall) -> HttpAnswer:
        """The OpenAPI document."""
        return HttpAnswer.as_json(openapi.document(call.limits, tokens=bool(call.serving.tokens)))

    def _refused_tenants(self) -> list[int]:
        serving = self.store.current
        return [serving.number_of(tenant) for tenant in serving.refused]

    def _check_owner(self, sent: Sequence[shapes.OutcomeRequest], tenant: str) -> None:
        """Refuse outcomes of decisions that were not made for whoever sends them."""
        foreign = [outcome.decision for outcome in sent if not is_marked(outcome.decision, tenant)]
        if foreign:
            self.foreign_outcomes += len(foreign)
            raise RefusedError(
                404,
                f"There is no decision {foreign[0]!r} of yours, so no outcome of this request was accepted. Send the "
                "id that /v1/decide answered.",
            )

    def _handler_for(self, scope: dict[str, Any]) -> Handler:
        if scope["path"] not in self.routes:
            raise RefusedError(404, "There is nothing at this path. /openapi.json says what there is.")
        method, handler = self.routes[scope["path"]]
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if scope["method"] not in allowed:
            named = ", ".join(allowed)
            raise RefusedError(405, f"This path takes {named}.", [(b"allow", named.encode())])
        return handler


def _problem_answer(words: str, status: int) -> HttpAnswer:
    return HttpAnswer.as_json(shapes.Problem(error=words), status)
