"""What the playground's page asks for: one decision at a target that the page may move, and all that led to it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import starmap
from typing import Annotated, Any, Literal

from camdf import datasets
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.errors import CamdfError, UsageError, needs
from camdf.gate import Gate, GateDecision, Guards, Limits, Rollout
from camdf.gate.lists import openai
from camdf.gate.target import Target
from camdf.policies.rules import TopK
from camdf.prices import Prices
from camdf.service.calls import HttpAnswer, HttpCall, parsed_body
from camdf.service.config import COLD_STARTS, START, GateSettings, PriceSettings
from camdf.service.config_file import problems_in
from camdf.service.gates import prices_of
from camdf.service.limits import RefusedError, check_depth
from camdf.service.playground.curve import PayoffPoint, curve
from camdf.service.shapes import Body, Candidate, JsonObject, Name, RankedTool
from camdf.tools import Tool, keyed, view

with needs("serve"):
    import msgspec
    from msgspec import UNSET, Meta, Struct, UnsetType

NotNegative = Annotated[float, Meta(ge=0, le=1e12)]
Share = Annotated[float, Meta(ge=0, le=1)]

PAGE = b"text/html; charset=utf-8"
TASK = "the ranked task"
"""What a ranking's task is called: its text is not known."""

TARGETS = {"tools": "mean_tools", "sufficiency": "sufficiency", "dollars": "dollars_per_task"}
"""What the gate calls the page's targets."""

PLAYGROUND = "the playground"
"""Whose decisions these are, to the gate that serves: no tenant may be called so."""

LOOKS = 3
"""How many budgets of a decision a look may take: it makes two, and draws."""

SHIPPED = {"retail": 67}
"""The sample that ships, and how many tasks it has."""


class LookRequest(Body):
    """A request to the gate, the target that it should decide by, and prices."""

    ranking: list[Candidate] | UnsetType = UNSET
    messages: list[JsonObject] | UnsetType = UNSET
    tools: list[JsonObject] = []
    target: Literal["served", "pressure", "tools", "sufficiency", "dollars"] = "pressure"
    """ "served" decides as the service does: at its payoff and its prices."""

    amount: NotNegative = 0.1
    value: Literal["exact", "partial"] = "exact"
    recourse: Share = 0.0
    tool_search: bool | UnsetType = UNSET
    """Left out: as the service is set, where that is the target, else none."""

    prices: JsonObject | UnsetType = UNSET
    """Of tokens; without them every tool costs 1."""

    costs: dict[Name, NotNegative] = {}
    """Of single tools, which stand in for all other prices."""


class TaskRequest(Body):
    """One of the shipped tasks."""

    domain: str
    number: int


class Looked(Struct, kw_only=True):
    """One decision and all that led to it."""

    kept: list[str]
    cut: list[str]
    refused: list[str]
    reason: str
    cost_pressure: float
    tool_search: bool
    ranking: list[RankedTool]
    costs: dict[str, float]
    curve: list[PayoffPoint]
    wire: JsonObject
    code: str


@dataclass(frozen=True)
class Edited:
    """Costs as the page has them: of a single tool, else by its tokens, else 1."""

    costs: Mapping[str, float]
    prices: Prices | None

    def of(self, tool: Tool) -> float:
        """The cost of offering this tool to one task."""
        if tool.name in self.costs:
            return self.costs[tool.name]
        return 1.0 if self.prices is None else self.prices.of(tool)

    def of_rewriting(self, characters: int) -> float:
        """What it costs that a provider reads so many characters anew; nothing where single tools have costs."""
        return 0.0 if self.costs or self.prices is None else self.prices.of_rewriting(characters)


class Playground:
    """The page, and its questions."""

    def __init__(self) -> None:
        self._page = files(__package__).joinpath("page.html").read_bytes()
        self._looks, self._picks = msgspec.json.Decoder(LookRequest), msgspec.json.Decoder(TaskRequest)
        self._headers = _headers(self._page.decode())
        self.routes: dict[str, dict[str, Callable[[HttpCall], Awaitable[HttpAnswer]]]] = {
            "/": {"GET": self.page},
            "/playground/domains": {"GET": self.domains},
            "/playground/task": {"POST": self.task},
            "/playground/look": {"POST": self.look},
        }

    async def page(self, call: HttpCall) -> HttpAnswer:
        """The page itself."""
        return HttpAnswer(self._page, kind=PAGE, headers=self._headers)

    async def domains(self, call: HttpCall) -> HttpAnswer:
        """The sample that ships, and how many tasks it has."""
        call.identify()
        return HttpAnswer(msgspec.json.encode(SHIPPED))

    async def task(self, call: HttpCall) -> HttpAnswer:
        """The ranking of a shipped task, and what it required."""
        asked = await call.read(partial(parsed_body, decoder=self._picks))
        if asked.domain not in SHIPPED:
            raise RefusedError(404, f"There is no domain {asked.domain!r}. /playground/domains names them.")
        call.enter(1)
        return HttpAnswer(msgspec.json.encode(await call.run(partial(_shipped_task, asked))))

    async def look(self, call: HttpCall) -> HttpAnswer:
        """One decision, admitted as all are, and made on a thread: a person looks at it, and nobody waits for that."""
        asked = await call.read(partial(self._asked, call))
        call.enter(max(len(asked.ranking or ()), len(asked.tools), 1))
        served = call.serving.places[call.tenant, ""]
        settings = call.serving.configuration.settings(call.tenant, "")
        limit = served.gate.limits.seconds
        seconds = None if limit is None else LOOKS * limit
        try:
            answer = await call.run(partial(looked, asked, served.gate, settings), seconds)
        except CamdfError as error:
            raise RefusedError(422, str(error)) from None
        return HttpAnswer(msgspec.json.encode(answer))

    def _asked(self, call: HttpCall, body: bytes) -> LookRequest:
        asked = parsed_body(body, self._looks)
        check_depth([asked.tools, asked.messages or []], call.limits.depth)
        if len(asked.ranking or ()) > call.limits.tools or len(asked.tools) > call.limits.tools:
            raise RefusedError(422, f"A request may have {call.limits.tools} tools.")
        return asked


def looked(asked: LookRequest, serving: Gate, settings: GateSettings) -> Looked:
    """The decision of a gate like the serving one, on whose threads it works, at the page's target and prices."""
    tools, scores = _ranked(asked)
    sent = {} if asked.ranking is UNSET else {tool.name: tool.cost for tool in asked.ranking}
    edited = {name: cost for name, cost in {**sent, **asked.costs}.items() if cost}
    served = asked.target == "served"
    costs = Edited(edited, prices_of(settings.prices) if served and asked.prices is UNSET else _prices(asked))
    if asked.tool_search is UNSET:
        asked = msgspec.structs.replace(asked, tool_search=served and bool(serving.tool_search))
    like = partial(serving.for_tenant, PLAYGROUND, prices=costs, rollout=Rollout())

    def decided(payoff: Payoff) -> GateDecision:
        gate = like(payoff=payoff)
        if scores is not None:
            return gate.decide_scored(TASK, tools, scores)
        return gate.decide(asked.messages or [], tools, tool_search=bool(asked.tool_search))

    payoff = (
        serving.payoff
        if served
        else Payoff(asked.amount if asked.target == "pressure" else 1.0, asked.value, asked.recourse)
    )
    decision = decided(payoff)
    if asked.target in TARGETS:
        if scores is None and serving.scorer is None:
            raise RefusedError(422, "The service has no scorer. Send a ranking, or set gate.scorer.")
        target = Target(**{TARGETS[asked.target]: asked.amount})
        payoff = target.payoff(serving.policy, [(decision.ranking, decision.vector)], payoff)
        decision = decided(payoff)
    of_tools = {key: costs.of(tool) for key, tool in keyed(map(view, tools)).items() if not tool.foreign}
    ranked = {tool.name: tool.score for tool in decision.ranking}
    return Looked(
        kept=list(decision.kept),
        cut=list(decision.cut),
        refused=list(decision.refused),
        reason=decision.reason,
        cost_pressure=payoff.cost_pressure,
        tool_search=bool(asked.tool_search),
        ranking=list(starmap(RankedTool, decision.ranking)),
        costs=of_tools,
        curve=curve(serving.policy, ranked, of_tools, payoff),
        wire=_wire(asked, decision),
        code=_code(asked, serving, payoff, settings, of_tools if edited else {}),
    )


def _ranked(asked: LookRequest) -> tuple[Sequence[Any], dict[str, float] | None]:
    """The tools, and their scores where the page has them."""
    if asked.ranking is UNSET:
        return asked.tools, None
    scores = {tool.name: tool.score for tool in asked.ranking}
    return [Tool(name) for name in scores], scores


def _shipped_task(asked: TaskRequest) -> JsonObject:
    logged = _shipped()
    row = asked.number % len(logged)
    one = logged.rankings.take([row])
    names = one.names(0)
    scores, costs = one.scores[0].tolist(), one.costs[0].tolist()
    required = [name for name, needed in zip(names, logged.required[row].tolist(), strict=False) if needed]
    ranked = [
        {"name": name, "score": score, "cost": cost} for name, score, cost in zip(names, scores, costs, strict=False)
    ]
    return {"task": str(logged.task_ids[row]), "ranking": ranked, "required": required}


def _wire(asked: LookRequest, decision: GateDecision) -> JsonObject:
    """The request that a harness would send to its model."""
    tools = [tool if isinstance(tool, dict) else openai(tool) for tool in (*decision.tools, *decision.search)]
    return {"model": "your-model", **({} if asked.messages is UNSET else {"messages": asked.messages}), "tools": tools}


def _code(asked: LookRequest, gate: Gate, worth: Payoff, settings: GateSettings, costs: Mapping[str, float]) -> str:
    """A program that decides the same, with what was chosen and nothing else. Neither explores."""
    source = settings.policy
    policy = f"camdf.load({json.dumps(source)})"
    if source in COLD_STARTS:
        policy = f'camdf.cold_start("{COLD_STARTS[source]}")'
    elif source == START:
        policy = f"camdf.{gate.policy!r}"
    pressure, value, recourse = worth.cost_pressure, worth.value, worth.recourse
    payoff = f"camdf.Payoff({pressure!r}, {str(value)!r}{f', {recourse!r}' if recourse else ''})"
    prices = f", prices={dict(costs)!r}" if costs else ""
    priced = asked.prices
    if priced is UNSET and asked.target == "served" and settings.prices is not None:
        priced = settings.prices.given()
    if not costs and priced is not UNSET:
        prices = f", prices=camdf.Prices({_keywords(priced)})"
    tool_search = ", tool_search=True" if asked.tool_search else ""
    groups = {name: _changed(getattr(gate, name)) for name in ("guards", "limits")}
    written = {name: f"{name.title()}({_keywords(values)})" for name, values in groups.items() if values}
    options = "".join(f", {name}={value}" for name, value in written.items())
    options += f", mode={gate.mode!r}" if gate.mode != "drop" else ""
    imported = ", ".join(["Gate", *(name.title() for name in written)])
    lines = ["import camdf", f"from camdf.gate import {imported}"]
    if asked.ranking is not UNSET:
        scores = {tool.name: tool.score for tool in asked.ranking}
        lines += [
            "from camdf.tools import Tool",
            "",
            f"scores = {scores!r}",
            f"gate = Gate({policy}, None, {payoff}{prices}{options})",
            f'decision = gate.decide("{TASK}", [Tool(name) for name in scores], scores=scores{tool_search})',
        ]
    else:
        ranks, scorer = gate.scorer, type(gate.scorer).__name__
        made = "None" if ranks is None else f"{scorer}()" if scorer in ("BM25", "Start") else f"{scorer}(url, model)"
        built = f"Gate({policy}, {made}, {payoff}{prices}{options})"
        if isinstance(gate.policy, TopK) and source == START and scorer == "Start" and asked.tool_search:
            named = "" if worth == Payoff(0.0) else f", payoff={payoff}"
            ranks, tool_search = None, ""
            built = f"Gate.start(tools, mean_tools={gate.policy.k}{named}{prices}{options})"
        lines += [
            *([] if ranks is None else [f"from camdf.scorers import {scorer}"]),
            "",
            f"gate = {built}",
            f"decision = gate.decide(messages, tools{tool_search})",
        ]
    return "\n".join([*lines, "print(decision.explain())"])


def _prices(asked: LookRequest) -> Prices | None:
    """Those of the page; a UsageError names every one that is not what it must be."""
    if asked.prices is UNSET:
        return None
    if problems := problems_in(asked.prices, PriceSettings, "prices"):
        raise UsageError(" ".join(problems))
    return prices_of(PriceSettings(**asked.prices))


def _changed(settings: Guards | Limits) -> dict[str, Any]:
    """The settings that are not the defaults, as a program writes them; the time limit is the service's own."""
    usual = Limits(seconds=settings.seconds) if isinstance(settings, Limits) else Guards()
    values = {part.name: getattr(settings, part.name) for part in fields(settings)}
    changed = {name: value for name, value in values.items() if value != getattr(usual, name)}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in changed.items()}


def _keywords(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


@cache
def _shipped() -> LoggedTasks:
    return datasets.sample()


def _headers(page: str) -> tuple[tuple[bytes, bytes], ...]:
    """Only the page's own script and style run, and they may speak to this service alone."""
    digests = {
        tag: base64.b64encode(
            sha256(re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)[0].encode()).digest()
        ).decode()
        for tag in ("script", "style")
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    )
