"""The tool search over HTTP: which tools a query finds, and what a call means that a model wrote."""

from __future__ import annotations

from functools import partial

from camdf.errors import needs
from camdf.gate import Gate
from camdf.gate.tool_search import listing
from camdf.service import shapes
from camdf.service.calls import HttpAnswer, HttpCall, served_on
from camdf.service.deciding import FEWEST

with needs("serve"):
    from msgspec import UNSET


async def answer_search(call: HttpCall) -> HttpAnswer:
    """The tools that a query finds, on a thread."""
    request = await call.read_as(shapes.FindRequest)
    gate = served_on(call, request.route).gate
    tools = _admitted_tools(call, request.tools)
    return HttpAnswer.as_json(await call.run(partial(_matches_of_query, gate, request, tools)))


async def answer_call(call: HttpCall) -> HttpAnswer:
    """What a call means: which tool to run with which arguments, or what to answer. Nothing is run."""
    request = await call.read_as(shapes.AnswerRequest)
    gate = served_on(call, request.route).gate
    tools = _admitted_tools(call, [request.call, *request.tools])[1:]
    may_run = None if request.may_run is UNSET else request.may_run
    meant = await call.run(lambda: gate.answer(request.call, tools, may_run))
    run: shapes.ToolRun | None = None
    if meant.run is not None:
        run = shapes.ToolRun(name=meant.run.name, arguments=dict(meant.run.arguments))
    return HttpAnswer.as_json(shapes.Answered(id=meant.id, run=run, text=meant.text))


def _matches_of_query(gate: Gate, request: shapes.FindRequest, tools: list[shapes.JsonObject]) -> shapes.Found:
    """What a query finds; where it finds nothing, names of what may be offered."""
    matches = gate.find(request.query, tools, request.most)
    return shapes.Found(tools=matches, text=listing(matches, () if matches else gate.may_be_offered(tools)))


def _admitted_tools(call: HttpCall, sent: list[shapes.JsonObject]) -> list[shapes.JsonObject]:
    """What was sent, once it is within the limits and under way."""
    call.check(tools=sent)
    call.enter(max(len(sent), FEWEST))
    return sent
