"""What the playground's page asks for: one decision at a target that the page may move, and all that led to it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import starmap
from typing import Annotated, Any, Literal

from camdf import datasets
from camdf.core.payoff import Payoff
from camdf.errors import CamdfError, UsageError, needs
from camdf.gate import Gate, GateDecision, Guards, Limits, Rollout
from camdf.gate.catalogue import cost_function, effects_of_tools
from camdf.gate.lists import openai
from camdf.gate.target import Target
from camdf.policies.rules import USUAL_TOOLS
from camdf.prices import Prices
from camdf.runtime.settings import checks_of
from camdf.scorers.base import Scorer
from camdf.scorers.with_examples import examples_digest_of
from camdf.service.calls import HttpAnswer, HttpCall, Routes, served_on
from camdf.service.config import COLD_STARTS, START, GateSettings
from camdf.service.config_file import problems_in
from camdf.service.gates import Costs
from camdf.service.limits import RefusedError
from camdf.service.playground.curve import PayoffPoint, curve
from camdf.service.shapes import Body, Candidate, JsonObject, Name, RankedTool
from camdf.tools import Effect, Tool, keyed, view

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

_shipped = cache(datasets.sample)


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
    ranking: list[RankedTool]  # type: ignore[valid-type]
    costs: dict[str, float]
    curve: list[PayoffPoint]
    wire: JsonObject
    code: str


def routes() -> Routes:
    """The page, and what it asks for."""
    content = files(__package__).joinpath("page.html").read_bytes()
    page = HttpAnswer(content, kind=PAGE, headers=_headers(content.decode()))

    async def shown(call: HttpCall) -> HttpAnswer:
        return page

    return {
        "/": ("GET", shown),
        "/playground/domains": ("GET", domains),
        "/playground/task": ("POST", task),
        "/playground/look": ("POST", look),
    }


async def domains(call: HttpCall) -> HttpAnswer:
    """The sample that ships, and how many tasks it has."""
    call.identify()
    return HttpAnswer.as_json(SHIPPED)


async def task(call: HttpCall) -> HttpAnswer:
    """The ranking of a shipped task, and what it required."""
    asked = await call.read_as(TaskRequest)
    if asked.domain not in SHIPPED:
        raise RefusedError(404, f"There is no domain {asked.domain!r}. /playground/domains names them.")
    call.enter(1)
    return HttpAnswer.as_json(await call.run(partial(_shipped_task, asked.number)))


async def look(call: HttpCall) -> HttpAnswer:
    """One decision, admitted as all are, and made on a thread: a person looks at it, and nobody waits for that."""
    asked = await call.read_as(LookRequest)
    call.check(ranking=asked.ranking or (), messages=asked.messages or (), tools=asked.tools)
    call.enter(max(len(asked.ranking or ()), len(asked.tools), 1))
    served = served_on(call, "")
    gate = served.gate
    settings = served.settings
    seconds = None if gate.limits.seconds is None else LOOKS * gate.limits.seconds
    try:
        return HttpAnswer.as_json(await call.run(partial(looked, asked, gate, settings), seconds))
    except CamdfError as error:
        raise RefusedError(422, str(error)) from None


def looked(asked: LookRequest, serving: Gate, settings: GateSettings) -> Looked:
    """The decision of a gate like the serving one, on whose threads it works, at the page's target and prices."""
    served = asked.target == "served"
    scores = {tool.name: tool.score for tool in asked.ranking or ()}
    tools: Sequence[Any] = asked.tools if asked.ranking is UNSET else [Tool(name) for name in scores]
    sent = {tool.name: tool.cost for tool in asked.ranking or ()}
    edited = {name: cost for name, cost in {**sent, **asked.costs}.items() if cost}
    prices = settings.prices if served and asked.prices is UNSET else _page_prices(asked, settings)
    costs = Costs(prices, edited)
    if asked.tool_search is UNSET:
        asked = msgspec.structs.replace(asked, tool_search=served and bool(serving.tool_search))

    def decided(payoff: Payoff) -> GateDecision:
        gate = serving.for_tenant(PLAYGROUND, prices=costs, rollout=Rollout(), payoff=payoff)
        if asked.ranking is not UNSET:
            return gate.decide_scored(TASK, tools, scores)
        return gate.decide(asked.messages or [], tools, tool_search=bool(asked.tool_search), takes_messages=False)

    payoff = _page_payoff(asked, serving)
    decision = decided(payoff)
    if asked.target in TARGETS:
        if asked.ranking is UNSET and serving.scorer is None:
            raise RefusedError(422, "The service has no scorer. Send a ranking, or set gate.scorer.")
        target = Target(**{TARGETS[asked.target]: asked.amount})
        payoff = target.payoff(serving.policy, [(decision.ranking, decision.vector)], payoff)
        decision = decided(payoff)
    listed = {key: tool for key, tool in keyed(map(view, tools)).items() if not tool.foreign}
    effects: Mapping[str, Effect] = {}
    if serving.privilege is not None:
        effects = effects_of_tools(serving.privilege, serving.guards, listed)
    cost_of = cost_function(costs, effects)
    of_tools = {key: cost_of(key, tool) for key, tool in listed.items()}
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
        wire=_request_to_model(asked, decision),
        code=_written_program(asked, serving, payoff, settings, of_tools if edited else None, prices),
    )


def _shipped_task(number: int) -> JsonObject:
    logged = _shipped()
    one = logged.take([number % len(logged)])
    names = one.rankings.names(0)
    scores = one.rankings.scores[0].tolist()
    costs = one.rankings.costs[0].tolist()
    parts = zip(names, scores, costs, strict=False)
    return {
        "task": str(one.task_ids[0]),
        "ranking": [{"name": name, "score": score, "cost": cost} for name, score, cost in parts],
        "required": [name for name, needed in zip(names, one.required[0].tolist(), strict=False) if needed],
    }


def _request_to_model(asked: LookRequest, decision: GateDecision) -> JsonObject:
    """The request that a harness would send to its model."""
    request: JsonObject = {"model": "your-model"}
    if asked.messages is not UNSET:
        request["messages"] = asked.messages
    tools = (*decision.tools, *decision.search)
    request["tools"] = [tool if isinstance(tool, dict) else openai(tool) for tool in tools]
    return request


def _written_program(
    asked: LookRequest,
    gate: Gate,
    worth: Payoff,
    served: GateSettings,
    costs: Mapping[str, float] | None,
    prices: Prices | None,
) -> str:
    """A program that decides the same, with what was chosen and nothing else. Neither explores."""
    policy = _policy_in_code(served)
    payoff = _payoff_in_code(worth)
    settings = _settings_in_code(gate, costs, prices)
    options = "".join(f", {name}={value}" for name, value in settings.items())
    search = ", tool_search=True" if asked.tool_search else ""
    alone = ", takes_messages=False" if gate.mode == "append" else ""
    prepared = [""]
    arguments = f"messages, tools{search}{alone}"
    if asked.ranking is not UNSET:
        scores = {tool.name: tool.score for tool in asked.ranking}
        prepared = ["from camdf.tools import Tool", "", f"scores = {scores!r}"]
        built = f"Gate({policy}, None, {payoff}{options})"
        arguments = f'"{TASK}", [Tool(name) for name in scores], scores=scores{search}'
    elif gate.scorer is None:
        built = f"Gate({policy}, None, {payoff}{options})"
    elif _is_usual_start(gate, served) and asked.tool_search:
        if worth != Payoff(0.0):
            options = f", payoff={payoff}{options}"
        if "mode" not in settings:
            options = f"{options}, mode={gate.mode!r}"
        built = f"Gate.start(tools, mean_tools={served.mean_tools or USUAL_TOOLS}{options})"
        arguments = f"messages, tools{alone}"
    else:
        prepared = [f"from camdf.scorers import {type(gate.scorer).__name__}", ""]
        built = f"Gate({policy}, {_scorer_in_code(gate.scorer, served)}, {payoff}{options})"
    names = ["Gate", *(name.title() for name in ("guards", "limits") if name in settings)]
    imports = ["import camdf", f"from camdf.gate import {', '.join(names)}", *prepared]
    return "\n".join([*imports, f"gate = {built}", f"decision = gate.decide({arguments})", "print(decision.explain())"])


def _is_usual_start(gate: Gate, served: GateSettings) -> bool:
    return served.policy == START and type(gate.scorer).__name__ == "Start"


def _policy_in_code(served: GateSettings) -> str:
    if served.policy in COLD_STARTS:
        return f'camdf.cold_start("{COLD_STARTS[served.policy]}")'
    if served.policy == START:
        return f"camdf.TopK({served.mean_tools or USUAL_TOOLS})"
    return f"camdf.load({json.dumps(served.policy)})"


def _payoff_in_code(worth: Payoff) -> str:
    recourse = f", {worth.recourse!r}" if worth.recourse else ""
    return f"camdf.Payoff({worth.cost_pressure!r}, {str(worth.value)!r}{recourse})"


def _settings_in_code(gate: Gate, costs: Mapping[str, float] | None, prices: Prices | None) -> dict[str, str]:
    """The settings of a gate that are not the defaults, by name."""
    settings: dict[str, str] = {}
    if costs is not None:
        settings["prices"] = repr(dict(costs))
    elif prices is not None:
        settings["prices"] = f"camdf.Prices({_keywords(_changed_settings(prices))})"
    for name in ("guards", "limits"):
        values = _changed_settings(getattr(gate, name))
        if values:
            settings[name] = f"{name.title()}({_keywords(values)})"
    if gate.mode != "drop":
        settings["mode"] = repr(gate.mode)
    if gate.scorer_mismatch != "refuse":
        settings["scorer_mismatch"] = repr(gate.scorer_mismatch)
    return settings


def _scorer_in_code(scorer: Scorer, served: GateSettings) -> str:
    name = type(scorer).__name__
    model = {"BM25": "", "Start": "", "Embeddings": repr(getattr(scorer, "model", ""))}
    arguments = [model.get(name, "url, model")]
    if examples_digest_of(scorer):
        arguments.append(f"examples={served.examples!r}")
    return f"{name}({', '.join(filter(None, arguments))})"


def _page_payoff(asked: LookRequest, serving: Gate) -> Payoff:
    """The payoff to decide by first; a target other than a pressure then says another one."""
    if asked.target == "served":
        return serving.payoff
    pressure = asked.amount if asked.target == "pressure" else 1.0
    return Payoff(pressure, asked.value, asked.recourse)


def _page_prices(asked: LookRequest, settings: GateSettings) -> Prices | None:
    """Those of the page, and the service's of effects; a UsageError names every one that is not what it must be."""
    effects = {} if settings.prices is None else settings.prices.effects
    if asked.prices is UNSET:
        return Prices(effects=effects) if effects else None
    problems = problems_in(asked.prices, Prices, "prices")
    if problems:
        raise UsageError(" ".join(problems))
    return Prices(**{"effects": effects, **asked.prices})


def _changed_settings(settings: Guards | Limits | Prices) -> dict[str, Any]:
    """The settings that are not the defaults, as a program writes them; the time limit is the service's own."""
    usual = Limits(seconds=settings.seconds) if isinstance(settings, Limits) else type(settings)()
    given = {name: getattr(settings, name) for name in checks_of(type(settings))}
    changed = {name: value for name, value in given.items() if value != getattr(usual, name)}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in changed.items()}


def _keywords(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def _headers(page: str) -> tuple[tuple[bytes, bytes], ...]:
    """Only the page's own script and style run, and they may speak to this service alone."""
    own = (re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)[0].encode() for tag in ("script", "style"))
    script, style = (f"'sha256-{base64.b64encode(sha256(text).digest()).decode()}'" for text in own)
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    )
